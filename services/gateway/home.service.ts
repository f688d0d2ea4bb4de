import { implementService } from "../../lib/service.ts";
import packageJson from "../../package.json" with { type: "json" };
import { homeContract } from "./home.contract.ts";

export const homeService = implementService(homeContract, {
  handlers: {
    home: () => ({
      name: packageJson.name,
      version: packageJson.version,
      time: Date.now(),
      docs: "/docs",
    }),
  },
});
