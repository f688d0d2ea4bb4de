import { spawn } from "node:child_process";
import { ConfigError, loadConfig } from "../lib/config.ts";

const help = `Calls the tools of the running product with the MCP Inspector (fetched by npx).

  npm run inspect -- --method tools/list
  npm run inspect -- --method tools/call --tool-name jobs_get --tool-arg job_id=ID
  npm run inspect                                lists the tools`;

/** The inspector needs a newer Node than many have: npx runs on the one that the project brings. */
function inspect(args: readonly string[]): void {
  const { config } = loadConfig();
  const url = config.PUBLIC_URL ?? `http://${config.HOST}:${config.PORT}`;
  const connection = [
    "--transport",
    "http",
    "--header",
    `Authorization: Bearer ${config.MCP_TOKEN}`,
  ];
  const asked = args.length > 0 ? args : ["--method", "tools/list"];
  const child = spawn(
    "npx",
    ["-y", "@modelcontextprotocol/inspector@2", "--cli", `${url}/mcp`, ...connection, ...asked],
    { stdio: "inherit", shell: process.platform === "win32" },
  );
  child.on("error", (error) => {
    console.error(`inspect: cannot run npx: ${error.message}`);
    process.exitCode = 1;
  });
  child.on("exit", (code) => {
    process.exitCode = code ?? 1;
  });
}

try {
  const args = process.argv.slice(2);
  if (args.includes("--help")) console.log(help);
  else inspect(args);
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  console.error(`inspect: ${error.message}`);
  process.exitCode = 1;
}
