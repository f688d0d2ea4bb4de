import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { limits } from "./config.ts";
import { installOnce, type Progress, ServerMissing } from "./server-cache.ts";

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

/** Two apt-get at a time would refuse each other's lock; `Dpkg::Lock::Timeout` covers those of other processes. */
let aptTurn: Promise<unknown> = Promise.resolve();

/** Installs packages of the machine's own distribution. Answers false where that cannot be done. */
export async function aptInstall(
  packages: readonly string[],
  progress: Progress,
): Promise<boolean> {
  if (!isRoot() || !findProgram("apt-get")) return false;
  const work = async () => {
    progress(`installing ${packages.join(", ")} with apt-get`);
    const options = [
      "-q",
      "-o",
      "DPkg::Lock::Timeout=600",
      "-o",
      "Acquire::Check-Valid-Until=false",
    ];
    const env = { DEBIAN_FRONTEND: "noninteractive" };
    await runStep("apt-get", [...options, "update"], env);
    await runStep(
      "apt-get",
      [...options, "install", "-y", "--no-install-recommends", ...packages],
      env,
    );
  };
  const turn = aptTurn.then(work);
  aptTurn = turn.catch(() => undefined);
  await turn;
  return true;
}

/**
 * A Go program of exactly this version, compiled once.
 * @returns Its path, or undefined without Go.
 */
export async function goInstall(
  { program, module, version }: { program: string; module: string; version: string },
  progress: Progress,
): Promise<string | undefined> {
  if (!findProgram("go")) return undefined;
  const folder = await installOnce(`${program}-${version}`, progress, async (partial) => {
    progress(`compiling ${program} ${version}, a minute or two`);
    await runStep("go", ["install", `${module}@${version}`], { GOBIN: partial, GOFLAGS: "" });
  });
  return join(folder, program);
}
