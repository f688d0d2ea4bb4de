import { join } from "node:path";
import { connect } from "nats";
import type { Config } from "../../lib/config.ts";
import { natsOptions } from "../../lib/nats-options.ts";
import { limits } from "./config.ts";
import { aptInstall, findProgram, goInstall } from "./install-steps.ts";
import { ManagedProcess } from "./managed-process.ts";
import type { ServerKind } from "./server.ts";
import { type Progress, ServerMissing } from "./server-cache.ts";

const fromGo = {
  program: "nats-server",
  module: "github.com/nats-io/nats-server/v2",
  version: "v2.11.9",
};

async function program(progress: Progress): Promise<string> {
  const find = () => findProgram("nats-server", "NATS_SERVER_PATH");
  const found = find();
  if (found) return found;
  if (await aptInstall(["nats-server"], () => find() !== undefined, progress)) return find()!;
  const compiled = await goInstall(fromGo, progress);
  if (compiled) return compiled;
  throw new ServerMissing(
    "There is no nats-server, and neither root with apt-get nor Go to get it: install it, or set TRANSPORTER to a running one.",
  );
}

export const nats: ServerKind = {
  name: "nats",
  setting: "TRANSPORTER",
  companions: [
    "NATS_USER",
    "NATS_PASSWORD",
    "NATS_TOKEN",
    "NATS_CREDS_FILE",
    "NATS_CA_FILE",
    "NATS_CERT_FILE",
    "NATS_KEY_FILE",
  ],
  install: async (progress) => void (await program(progress)),
  async prepare({ dir, record, port, progress }) {
    const recipe = {
      name: "nats",
      command: await program(progress),
      args: ["--addr", "127.0.0.1", "--port", String(port)],
      logFile: join(dir, "nats.log"),
    };
    return {
      processes: [new ManagedProcess(recipe, record)],
      env: { TRANSPORTER: `nats://127.0.0.1:${port}` },
    };
  },
  async ping(env) {
    const client = await connect({
      ...natsOptions(env as Partial<Config> as Config, "ping"),
      reconnect: false,
      timeout: limits.pingMs,
    });
    try {
      await client.flush();
    } finally {
      await client.close();
    }
  },
};
