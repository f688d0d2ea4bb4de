import { brokerOptions } from "./lib/broker-options.ts";
import { loadConfig } from "./lib/config.ts";

/** For Moleculer's own runner: `moleculer-runner -c moleculer.config.ts`. */
export default brokerOptions(loadConfig().config);
