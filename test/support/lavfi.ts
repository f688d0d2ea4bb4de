import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Config } from "../../lib/config.ts";
import { findFfmpeg } from "../../services/compose/media/ffmpeg.ts";

const run = promisify(execFile);

/** Makes media files with the FFmpeg of this machine; bounded in time. */
export async function mediaMaker(config: Config) {
  const { ffmpeg } = await findFfmpeg(config);
  const make = async (...args: string[]): Promise<void> => {
    await run(ffmpeg, ["-v", "error", "-nostdin", "-y", ...args], { timeout: 30_000 });
  };
  const encode = ["-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "ultrafast"];
  return {
    make,
    /** A moving picture with a tone. */
    video: (file: string, size = "160x90", seconds = 1, sound: string[] = []) =>
      make(
        ...["-f", "lavfi", "-i", `testsrc2=s=${size}:r=25:d=${seconds}`],
        ...["-f", "lavfi", "-i", `sine=440:d=${seconds}`],
        ...encode,
        ...["-c:a", "aac", ...sound],
        file,
      ),
    silentVideo: (file: string, size = "160x90", seconds = 1) =>
      make(...["-f", "lavfi", "-i", `testsrc2=s=${size}:r=25:d=${seconds}`], ...encode, file),
    image: (file: string, size = "160x90") =>
      make(...["-f", "lavfi", "-i", `testsrc2=s=${size}`], "-frames:v", "1", file),
    sound: (file: string, seconds = 1) =>
      make(...["-f", "lavfi", "-i", `sine=440:d=${seconds}`], file),
  };
}
