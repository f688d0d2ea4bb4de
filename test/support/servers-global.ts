import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { ServerName } from "../../scripts/servers/server.ts";
import type { Servers } from "../../scripts/servers/start-servers.ts";

/** What a test file is told about a server: settings that lead to it, or why there is none. */
export type Answer = { env: Record<string, string> } | { missing: string } | { broken: string };

/** Environment variable by which test files find the desk. */
export const deskVariable = "REELMESH_TEST_SERVERS";

let desk: Server | undefined;
const answers = new Map<string, Promise<Answer>>();
const started: Servers[] = [];

/**
 * Opens a desk in Jest's own process where test files, each in a worker, ask for servers. One of a kind is started for
 * the whole run, when the first file asks; a run that needs none starts none.
 */
export default async function open(): Promise<void> {
  const path = `/${randomUUID()}/`;
  desk = createServer((request, response) => {
    const asked = request.url?.startsWith(path) ? request.url.slice(path.length) : "";
    const [what, name] = asked.split("/");
    if (!isServerName(name)) return void response.writeHead(404).end();
    const known = answers.get(asked) ?? (what === "own" ? install(name, true) : provide(name));
    answers.set(asked, known);
    known.then((answer) => response.end(JSON.stringify(answer)));
  });
  // A file may wait for an installation of minutes.
  desk.requestTimeout = 0;
  desk.listen(0, "127.0.0.1");
  await once(desk, "listening");
  desk.unref();
  process.env[deskVariable] = `http://127.0.0.1:${(desk.address() as AddressInfo).port}${path}`;
}

export async function close(): Promise<void> {
  desk?.closeAllConnections();
  desk?.close();
  await Promise.all(answers.values());
  await Promise.all(started.map((servers) => servers.stop()));
}

const progress = (line: string) => process.stderr.write(`servers: ${line}\n`);
// Not at the top: most runs need none of these libraries.
const library = () => import("../../scripts/servers/start-servers.ts");

async function install(name: ServerName, own: boolean): Promise<Answer> {
  try {
    await (await library()).installServers({ only: [name], own, progress });
    return { env: {} };
  } catch (error) {
    return { missing: (error as Error).message };
  }
}

async function provide(name: ServerName): Promise<Answer> {
  const installed = await install(name, false);
  if (!("env" in installed)) return installed;
  try {
    const servers = await (await library()).startServers({ only: [name], progress });
    started.push(servers);
    return { env: servers.env };
  } catch (error) {
    return { broken: (error as Error).message };
  }
}

const isServerName = (text: string | undefined): text is ServerName =>
  text !== undefined && ["nats", "redis", "mongo", "s3"].includes(text);
