import { mkdtemp, readdir, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { readMeshPlace } from "../../lib/loopback-mesh.ts";
import { type Command, runScript } from "../support/command.ts";

let dir: string;
let product: Command | undefined;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "reelmesh-repl-"));
});
afterEach(async () => {
  product?.child.kill("SIGKILL");
  await product?.ended;
  product = undefined;
  await rm(dir, { recursive: true, force: true });
});

const env = () => ({ DATA_DIR: dir, PORT: "0", HOME: dir });
const repl = (input: string, ...args: string[]) => runScript("repl", { args, env: env(), input });
const UUID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/;

describe("npm run repl", () => {
  test("hosts a product of its own and runs piped commands one after the other", async () => {
    const command = repl(
      'jobs\nsubmit noop {"ms": 5}\njobs --limit 5\nnodes\njob 0\nsubmit nonsense {}\nsubmit noop {"ms\n',
    );
    expect(await command.ended).toBe(0);
    const text = command.text();
    expect(text).toContain("no jobs");
    const id = new RegExp(`accepted (${UUID.source})`).exec(text)![1]!;
    expect(text).toMatch(new RegExp(`${id} +noop +(pending|running|success)`));
    expect(text).toMatch(/NODE +SLOTS +CPU/);
    expect(text).toContain("Invalid parameters: id:");
    expect(text).toMatch(/No such job kind: nonsense; known: .*noop/);
    expect(text).toContain("the payload is not JSON");
    expect(text.indexOf("no jobs")).toBeLessThan(text.indexOf("accepted"));
  });

  test("joins a running product and leaves it running", async () => {
    product = runScript("start", { env: env() });
    await product.until(/Ctrl-C stops it/);
    const first = repl('submit noop {"ms": 60000}\n', "--join");
    expect(await first.ended).toBe(0);
    const id = UUID.exec(first.text())![0];
    const second = repl(`job ${id}\ncancel ${id}\ncancel ${id}\njobs\n`, "--join");
    expect(await second.ended).toBe(0);
    expect(second.text()).toMatch(/owner +system:system/);
    expect(second.text()).toContain(`${id} is cancelled`);
    expect(product.child.exitCode).toBe(null);
  });

  test("a stranger who finds the loopback port is not understood", async () => {
    product = runScript("start", { env: env() });
    await product.until(/Ctrl-C stops it/);
    const { port } = readMeshPlace(dir)!;
    // Moleculer's own frame: checksum, length, type (8: gossip hello), then a packet that nobody sealed.
    const packet = Buffer.from(
      JSON.stringify({ ver: "4", sender: "stranger", host: "127.0.0.1", port: 1 }),
    );
    const head = Buffer.alloc(6);
    head.writeInt32BE(packet.length + 6, 1);
    head[5] = 8;
    head[0] = head[1]! ^ head[2]! ^ head[3]! ^ head[4]! ^ head[5]!;
    const socket = connect(port, "127.0.0.1", () => socket.end(Buffer.concat([head, packet])));
    await new Promise<void>((resolve) => socket.once("close", () => resolve()).resume());
    await product.until(/Invalid incoming GOSSIP_HELLO packet/);
    const command = repl("nodes -a\n", "--join");
    expect(await command.ended).toBe(0);
    expect(command.text()).not.toContain("stranger");
  });

  test("with nothing to join says so and makes nothing up", async () => {
    const command = repl("", "--join");
    expect(await command.ended).toBe(1);
    expect(command.text()).toMatch(
      /^reelmesh: no product runs on DATA_DIR [^\n]*npm start[^\n]*\n$/,
    );
    expect(await readdir(dir)).toEqual([]);
  });
});
