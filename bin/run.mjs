#!/usr/bin/env node
// Runs one of the project's scripts on a Node that can run TypeScript, whatever Node started this.
// Plain JavaScript, no dependencies: this file works before anything is installed, on any Node from 20.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const MINIMUM_NODE = [24, 0];
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const modules = join(root, "node_modules");
const stamp = join(modules, ".reelmesh-lock");
const installLock = join(root, ".install-lock");

const lockDigest = () =>
  createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");

const installed = () => existsSync(stamp) && readFileSync(stamp, "utf8") === lockDigest();

const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** One installer at a time: two commands started together in a fresh clone must not both run npm. */
function withInstallLock(work) {
  for (;;) {
    try {
      mkdirSync(installLock);
      break;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
      if (Date.now() - statSync(installLock).mtimeMs > 15 * 60_000) {
        rmSync(installLock, { recursive: true, force: true });
        continue;
      }
      sleep(500);
      if (installed()) return;
    }
  }
  try {
    work();
  } finally {
    rmSync(installLock, { recursive: true, force: true });
  }
}

function install() {
  if (installed()) return;
  withInstallLock(() => {
    if (installed()) return;
    console.error("reelmesh: installing what is missing (about a minute) ...");
    const npm = process.env.npm_execpath;
    // Not "npm ci": it refuses a lock file without the optional packages of other platforms, which not every
    // registry serves. "--no-save" keeps to the lock file and leaves it as it is.
    const args = [
      "install",
      "--no-save",
      "--ignore-scripts",
      "--no-audit",
      "--no-fund",
      "--loglevel=error",
    ];
    const result = npm
      ? spawnSync(process.execPath, [npm, ...args], {
          cwd: root,
          stdio: ["ignore", "inherit", "inherit"],
        })
      : spawnSync("npm", args, {
          cwd: root,
          stdio: ["ignore", "inherit", "inherit"],
          shell: process.platform === "win32",
        });
    if (result.status !== 0) {
      console.error(
        "reelmesh: npm install failed; see its message above. A network route to the npm registry is needed once.",
      );
      process.exit(1);
    }
    writeFileSync(stamp, lockDigest());
  });
}

/** The Node on hand if recent enough, else the one that ships as a package for this platform. */
function findNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > MINIMUM_NODE[0] || (major === MINIMUM_NODE[0] && minor >= MINIMUM_NODE[1]))
    return process.execPath;
  const platform = process.platform === "win32" ? "win" : process.platform;
  const require = createRequire(import.meta.url);
  for (const name of [`node-${platform}-${process.arch}`, `node-bin-${platform}-${process.arch}`]) {
    try {
      const folder = dirname(require.resolve(`${name}/package.json`));
      const binary = join(folder, "bin", process.platform === "win32" ? "node.exe" : "node");
      if (existsSync(binary)) return binary;
    } catch {
      // Not published for this platform: try the next name.
    }
  }
  console.error(
    `reelmesh: this is Node ${process.versions.node}; Node ${MINIMUM_NODE.join(".")} or newer is needed, and npm has none for ${process.platform}-${process.arch}. Install it from nodejs.org.`,
  );
  process.exit(1);
}

install();
const node = findNode();
// The chosen Node comes first on the path, so that every child that says "node" gets the same one.
const path = `${dirname(node)}${process.platform === "win32" ? ";" : ":"}${process.env.PATH ?? ""}`;
const child = spawn(node, process.argv.slice(2), {
  cwd: root,
  stdio: "inherit",
  // Compiled code is kept: without it each start strips all types again, which costs a second and 50 MB.
  // More threads for files: an fsync holds one for as long as the disk takes, and others wait behind it.
  env: {
    NODE_COMPILE_CACHE: join(modules, ".cache", "compile"),
    UV_THREADPOOL_SIZE: "16",
    ...process.env,
    PATH: path,
  },
});
// A terminal's Ctrl-C reaches the child by itself (same process group); a signal sent to this process alone does not.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
  });
}
child.on("error", (error) => {
  console.error(`reelmesh: cannot run ${node}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else process.exit(code ?? 1);
});
