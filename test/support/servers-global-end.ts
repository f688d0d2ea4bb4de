export { close as default } from "./servers-global.ts";
