import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "@jest/globals";
import { Redis } from "ioredis";
import { installOnce, ServerMissing, withLock } from "../../scripts/servers/server-cache.ts";
import { installServers } from "../../scripts/servers/start-servers.ts";
import { type Command, runScript } from "../support/command.ts";
import { ownServersForTests } from "../support/servers.ts";
import { until } from "../support/until.ts";

const own = await ownServersForTests("redis", "nats");
const unset = { TRANSPORTER: "", REDIS_URL: "", MONGO_URL: "", S3_ENDPOINT: "" };

const folders: string[] = [];
async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "reelmesh-servers-test-"));
  folders.push(made);
  return made;
}
const commands: Command[] = [];
function run(args: string[], env: Record<string, string> = {}): Command {
  const command = runScript("servers", { args, env: { ...unset, ...env } });
  commands.push(command);
  return command;
}
const before = { ...process.env };
afterEach(async () => {
  for (const command of commands.splice(0)) {
    command.child.kill("SIGKILL");
    await command.ended;
  }
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
  Object.assign(process.env, before);
  for (const made of folders.splice(0)) await rm(made, { recursive: true, force: true });
});

const accepts = (url: string) =>
  new Promise<boolean>((resolve) => {
    const { port, hostname } = new URL(url);
    const socket = connect(Number(port), hostname)
      .once("connect", () => resolve(true))
      .once("error", () => resolve(false))
      .once("connect", () => socket.destroy());
  });

own.describe("npm run servers", () => {
  async function started(args: string[] = []) {
    const command = run(["--only", "redis,nats", ...args]);
    const [, url] = await command.until(/^export REDIS_URL=(\S+)$/m);
    const [, dir] = await command.until(/logs in (\S+);/);
    expect(command.text()).toMatch(/^export TRANSPORTER=nats:\/\/127\.0\.0\.1:\d+$/m);
    expect(await accepts(url!)).toBe(true);
    return { command, url: url!, dir: dir! };
  }

  test("prints settings that lead to servers, and Ctrl-C leaves nothing of them", async () => {
    const { command, url, dir } = await started();
    command.child.kill("SIGINT");
    expect(await command.ended).toBe(0);
    expect([await accepts(url), existsSync(dir)]).toEqual([false, false]);
  });

  test("a kill -9 leaves nothing either", async () => {
    const { command, url, dir } = await started();
    command.child.kill("SIGKILL");
    await command.ended;
    await until(async () => !existsSync(dir) && !(await accepts(url)), { what: "the clean-up" });
  });

  test("data in --dir are there the next time, and two runs cannot share it", async () => {
    const dir = await folder();
    const first = await started(["--dir", dir]);
    const client = new Redis(first.url);
    await client.set("kept", "yes");
    client.disconnect();
    const second = run(["--only", "redis", "--dir", dir]);
    expect(await second.ended).toBe(1);
    expect(second.text()).toContain(`${dir} is in use by servers that run already`);
    first.command.child.kill("SIGTERM");
    expect(await first.command.ended).toBe(0);
    const third = await started(["--dir", dir]);
    const again = new Redis(third.url);
    expect(await again.get("kept")).toBe("yes");
    again.disconnect();
  });

  test("a server that is named is used, not started, and stays", async () => {
    const redis = (await own.start("redis")).get("redis");
    const command = run(["--only", "redis"], { REDIS_URL: redis.url });
    await command.until(new RegExp(`^export REDIS_URL=${redis.url}$`, "m"));
    await command.until(/running/);
    command.child.kill("SIGINT");
    expect(await command.ended).toBe(0);
    expect(await accepts(redis.url)).toBe(true);
  });
});

test("the command explains itself and names what it does not know", async () => {
  const help = run(["--help"]);
  expect(await help.ended).toBe(0);
  expect(help.text()).toContain("npm run servers -- --install");
  const wrong = run(["--only", "nats,mysql"]);
  expect(await wrong.ended).toBe(1);
  expect(wrong.text()).toBe("servers: --only: mysql is none of nats, redis, mongo, s3\n");
});

test("what cannot be had is one sentence that says what to set", async () => {
  const nowhere = await folder();
  // No apt-get, no Go, no server, and an empty cache.
  Object.assign(process.env, unset, { PATH: nowhere, XDG_CACHE_HOME: nowhere, HOME: nowhere });
  process.env["VERSITYGW_PATH"] = "";
  for (const [only, setting] of [
    ["mongo", "MONGO_URL"],
    ["s3", "S3_ENDPOINT"],
  ] as const) {
    const failure = await installServers({ only: [only] }).catch((error: Error) => error);
    expect(failure).toBeInstanceOf(ServerMissing);
    expect((failure as Error).message).toMatch(new RegExp(`^[^\\n]*set ${setting}[^\\n]*$`, "i"));
  }
});

test("a path to a server that is not there is named", async () => {
  Object.assign(process.env, unset, { VERSITYGW_PATH: "/nowhere/versitygw" });
  await expect(installServers({ only: ["s3"] })).rejects.toThrow(
    "VERSITYGW_PATH: there is no file /nowhere/versitygw",
  );
});

test("of several that install the same thing one does, and the others get it", async () => {
  process.env["XDG_CACHE_HOME"] = await folder();
  let installs = 0;
  const all = Array.from({ length: 5 }, () =>
    installOnce(
      "thing-1",
      () => undefined,
      async (into) => {
        installs += 1;
        await writeFile(join(into, "program"), "x");
      },
    ),
  );
  const [first, ...others] = await Promise.all(all);
  expect([installs, new Set(others)]).toEqual([1, new Set([first])]);
  expect(await readdir(first!)).toEqual(["program"]);
});

test("an interrupted installation is not taken for a finished one, and its remains go", async () => {
  const cache = join(await folder(), "reelmesh");
  process.env["XDG_CACHE_HOME"] = join(cache, "..");
  await mkdir(join(cache, "thing-1.partial-abc"), { recursive: true });
  const quiet = () => undefined;
  const failing = installOnce("thing-1", quiet, () => Promise.reject(new Error("no disk")));
  await expect(failing).rejects.toThrow("no disk");
  expect((await readdir(cache)).filter((name) => !name.endsWith(".lock"))).toEqual([]);
  const made = await installOnce("thing-1", quiet, (into) => writeFile(join(into, "a"), "b"));
  expect(await readdir(made)).toEqual(["a"]);
});

test("the lock of an installation is given back when its work fails", async () => {
  process.env["XDG_CACHE_HOME"] = await folder();
  const told: string[] = [];
  const work = (result: () => Promise<string>) => withLock("x", (line) => told.push(line), result);
  await expect(work(() => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
  expect(await work(async () => "done")).toBe("done");
  expect(told).toEqual([]);
});
