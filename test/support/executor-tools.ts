import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type Config, loadConfig } from "../../lib/config.ts";
import { AppError } from "../../lib/errors.ts";
import { executionLimits } from "../../services/compose/config.ts";
import type { ExecutorTools } from "../../services/compose/executor.ts";
import { runInGroup } from "../../services/compose/process-group.ts";

/** What an executor left to be seen: its log, its progress, the files that it uploaded. */
export interface ToolsBench {
  tools: ExecutorTools;
  config: Config;
  dir: string;
  logged: { level: string; text: string }[];
  progressed: { fraction: number; stage?: string }[];
  /** Local copies of uploaded files by name. */
  uploaded: Map<string, string>;
  /** Storage objects for `download`: "bucket/key" to a local file. */
  objects: Map<string, string>;
  abort: AbortController;
  /** Processes started through `run`, in order. */
  commands: { command: string; args: readonly string[]; pid: number }[];
  close(): Promise<void>;
}

/** Executor tools over real processes and a temporary directory, without a node or a scheduler. */
export async function openToolsBench(env: Record<string, string> = {}): Promise<ToolsBench> {
  const dir = await mkdtemp(join(tmpdir(), "reelmesh-tools-"));
  const { config } = loadConfig({ ...env, DATA_DIR: join(dir, "data") });
  const workDir = join(dir, "work");
  await mkdir(workDir);
  await mkdir(join(dir, "uploads"));
  const bench: Omit<ToolsBench, "tools"> = {
    config,
    dir,
    logged: [],
    progressed: [],
    uploaded: new Map(),
    objects: new Map(),
    abort: new AbortController(),
    commands: [],
    close: () => rm(dir, { recursive: true, force: true }),
  };
  const run: ExecutorTools["run"] = (command, args, options = {}) =>
    runInGroup(command, args, {
      cwd: workDir,
      ...options,
      signal: bench.abort.signal,
      mark: "tools-bench",
      limits: executionLimits,
      started: async ({ pid }) => void bench.commands.push({ command, args, pid }),
    });
  const tools: ExecutorTools = {
    config,
    workDir,
    signal: bench.abort.signal,
    progress: (fraction, stage) => void bench.progressed.push({ fraction, stage }),
    log: (level, text) => void bench.logged.push({ level, text }),
    run,
    addresses: async () => ({ bucket: config.OSS_BUCKET_NAME, origins: [] }),
    async download({ bucket, key }, file) {
      const source = bench.objects.get(`${bucket}/${key}`);
      if (!source) throw new AppError("OBJECT_NOT_FOUND", { bucket, key });
      await copyFile(source, file);
    },
    async upload(file, { name, contentType, role }) {
      const kept = join(dir, "uploads", name);
      await mkdir(dirname(kept), { recursive: true });
      await copyFile(file, kept);
      bench.uploaded.set(name, kept);
      return {
        bucket: config.OSS_BUCKET_NAME,
        key: `jobs/test/1/${name}`,
        bytes: 1,
        contentType,
        role,
      };
    },
  };
  return { ...bench, tools };
}
