import { implementResource } from "../../mixins/resource-service.ts";
import { storyboard } from "./storyboard.contract.ts";

export const storyboardService = implementResource(storyboard);
