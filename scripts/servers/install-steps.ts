import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { limits } from "./config.ts";
import { cacheDir, installOnce, type Progress, ServerMissing, withLock } from "./server-cache.ts";

/** A program that the environment variable names, or that is on PATH, or where distributions put servers. */
export function findProgram(name: string, variable?: string): string | undefined {
  const named = variable && process.env[variable];
  if (named) {
    if (existsSync(named)) return named;
    throw new ServerMissing(`${variable}: there is no file ${named}`);
  }
  return [
    ...(process.env["PATH"] ?? "").split(delimiter).filter(Boolean),
    "/usr/sbin",
    "/usr/local/sbin",
    join(homedir(), "go", "bin"),
  ]
    .map((dir) => join(dir, name))
    .find((path) => existsSync(path));
}

export const isRoot = () => process.getuid?.() === 0;

/**
 * Runs one step of an installation to its end.
 * @returns What it wrote to standard output.
 * @throws Error with the end of what it wrote when it fails or takes too long.
 */
export function runStep(
  command: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...env },
    });
    // With everything that it has started; an installation that nobody waits for must not go on.
    const kill = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // It has ended.
      }
    };
    const timer = setTimeout(kill, limits.installStepMs);
    process.once("exit", kill);
    const settle = () => {
      clearTimeout(timer);
      process.off("exit", kill);
    };
    let [out, tail] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out += text;
      tail = (tail + text).slice(-limits.logTailChars);
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      tail = (tail + text).slice(-limits.logTailChars);
    });
    child.once("error", (error) => {
      settle();
      reject(error);
    });
    child.once("close", (code, signal) => {
      settle();
      if (code === 0) resolve(out);
      else reject(new Error(`${command} ${args[0] ?? ""} ended with ${code ?? signal}:\n${tail}`));
    });
  });
}

/**
 * Installs packages of the machine's own distribution, unless `there` says that somebody has done so meanwhile.
 * @returns False where that cannot be done: not root, or another kind of system.
 */
export async function aptInstall(
  packages: readonly string[],
  there: () => boolean,
  progress: Progress,
): Promise<boolean> {
  if (!isRoot() || !findProgram("apt-get")) return false;
  await withLock("apt", progress, async () => {
    if (there()) return;
    progress(`installing ${packages.join(", ")} with apt-get`);
    const env = { DEBIAN_FRONTEND: "noninteractive" };
    const options = ["-q", "-o", "DPkg::Lock::Timeout=600"];
    await runStep("apt-get", [...options, "-o", "Acquire::Check-Valid-Until=false", "update"], env);
    const install = ["install", "-y", "--no-install-recommends", ...packages];
    await runStep("apt-get", [...options, ...install], env);
  });
  return there();
}

interface GoProgram {
  program: string;
  module: string;
  version: string;
}

const goFolder = ({ program, version }: GoProgram) => `${program}-${version}`;

/** Whether it is installed or can be. */
export const canGoInstall = (wanted: GoProgram) =>
  existsSync(join(cacheDir(), goFolder(wanted))) || findProgram("go") !== undefined;

/**
 * A Go program of exactly this version, compiled once.
 * @returns Its path, or undefined without Go.
 */
export async function goInstall(
  wanted: GoProgram,
  progress: Progress,
): Promise<string | undefined> {
  if (!canGoInstall(wanted)) return undefined;
  const { program, module, version } = wanted;
  const folder = await installOnce(goFolder(wanted), progress, async (partial) => {
    progress(`compiling ${program} ${version}, a minute or two`);
    await runStep("go", ["install", `${module}@${version}`], { GOBIN: partial, GOFLAGS: "" });
  });
  return join(folder, program);
}
