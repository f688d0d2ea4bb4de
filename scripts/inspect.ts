import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigError, loadConfig } from "../lib/config.ts";

const help = `Calls the tools of the running product with the MCP Inspector (fetched by npx).

  npm run inspect -- --method tools/list
  npm run inspect -- --method tools/call --tool-name jobs_get --tool-arg job_id=ID
  npm run inspect                                lists the tools`;

/**
 * The inspector needs a newer Node than many have: npx runs on the one that the project brings. The token goes
 * through a file that only this user may read, since everybody may read the arguments of a process.
 */
function inspect(args: readonly string[]): void {
  const { config } = loadConfig();
  const url = `${config.PUBLIC_URL ?? `http://${config.HOST}:${config.PORT}`}/mcp`;
  const directory = mkdtempSync(join(tmpdir(), "reelmesh-inspect-"));
  const file = join(directory, "servers.json");
  const headers = { Authorization: `Bearer ${config.MCP_TOKEN}` };
  const servers = { mcpServers: { reelmesh: { type: "http", url, headers } } };
  writeFileSync(file, JSON.stringify(servers), { mode: 0o600 });
  const inspector = ["-y", "@modelcontextprotocol/inspector@2", "--cli"];
  const asked = args.length > 0 ? args : ["--method", "tools/list"];
  const child = spawn("npx", [...inspector, "--config", file, "--server", "reelmesh", ...asked], {
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  const end = (code: number) => {
    rmSync(directory, { recursive: true, force: true });
    process.exitCode = code;
  };
  child.on("error", (error) => {
    console.error(`inspect: cannot run npx: ${error.message}`);
    end(1);
  });
  child.on("exit", (code) => end(code ?? 1));
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
