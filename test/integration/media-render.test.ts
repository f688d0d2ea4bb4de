import { execFile, execFileSync } from "node:child_process";
import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { loadConfig } from "../../lib/config.ts";
import { contactSheet } from "../../services/compose/media/contact-sheet.ts";
import { findFfmpeg } from "../../services/compose/media/ffmpeg.ts";
import {
  commandFromArgs,
  type FfmpegCommand,
  filterValue,
  runCommand,
} from "../../services/compose/media/ffmpeg-command.ts";
import { runByImplementation } from "../../services/compose/media/fluent-adapter.ts";
import { runFfmpeg } from "../../services/compose/media/run-ffmpeg.ts";
import { readRender, verifyRender } from "../../services/compose/media/verify-render.ts";
import { openToolsBench, type ToolsBench } from "../support/executor-tools.ts";

let bench: ToolsBench;
beforeEach(async () => {
  bench = await openToolsBench();
});
afterEach(() => bench.close());

const lavfi = (file: string) => ({ args: ["-f", "lavfi"], file });
const small = (output: string, seconds = 2): FfmpegCommand => ({
  inputs: [lavfi(`testsrc2=s=160x90:r=25:d=${seconds}`), lavfi(`sine=440:d=${seconds}`)],
  filterGraph: "[0:v]format=yuv420p[v];[1:a]aresample=48000[a]",
  // biome-ignore format: option and value side by side
  outputArgs: ["-map", "[v]", "-map", "[a]", "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", "-f", "mp4"],
  output,
});
const expected = {
  frames: 50,
  width: 160,
  height: 90,
  fps: "25/1",
  hasAudio: true,
  durationMs: 2000,
};
const alive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe("running FFmpeg", () => {
  test("progress rises to the end and the result passes its check", async () => {
    const output = join(bench.tools.workDir, "o.mp4");
    const seen: number[] = [];
    await runCommand(small(output), bench.tools, {
      totalFrames: 50,
      onProgress: ({ fraction }) => seen.push(fraction),
    });
    expect(seen.at(-1)).toBe(1);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(await verifyRender(output, expected, bench.tools)).toMatchObject({
      frames: 50,
      audioOffsetMs: 0,
    });
  });

  test("a graph too long for one argument goes through a file", async () => {
    const output = join(bench.tools.workDir, "o.mp4");
    const command = small(output);
    const padded = `[0:v]format=yuv420p[v];${" ".repeat(110_000)}[1:a]aresample=48000[a]`;
    await runCommand({ ...command, filterGraph: padded }, bench.tools);
    expect(await verifyRender(output, expected, bench.tools)).toMatchObject({ frames: 50 });
    expect(bench.commands.every(({ args }) => args.every((arg) => arg.length < 100_000))).toBe(
      true,
    );
  });

  test("an FFmpeg that is killed mid-way says so", async () => {
    const output = join(bench.tools.workDir, "o.mp4");
    const work = runFfmpeg(
      ["-re", "-f", "lavfi", "-i", "testsrc2=s=64x64:d=60", "-f", "mp4", output],
      bench.tools,
      {
        onProgress: () => process.kill(bench.commands[0]?.pid ?? 0, "SIGKILL"),
      },
    );
    await expect(work).rejects.toMatchObject({
      type: "RENDER_FAILED",
      message: expect.stringContaining("killed (SIGKILL)"),
    });
  });

  test("an abort ends the process before the call returns", async () => {
    const output = join(bench.tools.workDir, "o.mp4");
    const work = runFfmpeg(
      ["-re", "-f", "lavfi", "-i", "testsrc2=s=64x64:d=60", "-f", "mp4", output],
      bench.tools,
      {
        onProgress: () => bench.abort.abort(),
      },
    );
    await expect(work).rejects.toThrow();
    expect(bench.commands.map(({ pid }) => alive(pid))).toEqual([false]);
  });

  test("a file that outgrows its limit counts as a full disk", async () => {
    const { ffmpeg } = await findFfmpeg(bench.config);
    const wrapper = join(bench.dir, "limited", "ffmpeg");
    await mkdir(join(bench.dir, "limited"));
    await writeFile(wrapper, `#!/bin/sh\nulimit -f 16\nexec "${ffmpeg}" "$@"\n`);
    await chmod(wrapper, 0o755);
    const { config } = loadConfig({ DATA_DIR: bench.config.DATA_DIR, FFMPEG_PATH: wrapper });
    const command = small(join(bench.tools.workDir, "o.mp4"), 20);
    await expect(runCommand(command, { ...bench.tools, config })).rejects.toMatchObject({
      type: "DISK_FULL",
    });
  });

  // Only root may mount; everybody has the test above.
  (process.getuid?.() === 0 && process.platform === "linux" ? test : test.skip)(
    "a disk that is full counts as one",
    async () => {
      const disk = join(bench.dir, "disk");
      await mkdir(disk);
      try {
        execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]);
      } catch {
        return; // A container that permits no mounts.
      }
      try {
        await expect(runCommand(small(join(disk, "o.mp4"), 20), bench.tools)).rejects.toMatchObject(
          {
            type: "DISK_FULL",
            data: { where: "the work disk of the compose node" },
          },
        );
      } finally {
        execFileSync("umount", ["-l", disk]);
      }
    },
  );
});

describe("the adapter", () => {
  test.each(["ffmpeg-python", "fluent-ffmpeg"])(
    'options.impl "%s" renders the same file as the direct command',
    async (impl) => {
      const direct = join(bench.tools.workDir, "direct.mp4");
      const adapted = join(bench.tools.workDir, "with a blank.mp4");
      const seen: number[] = [];
      await runCommand(small(direct), bench.tools);
      const by = await runByImplementation(impl, small(adapted), bench.tools, {
        totalFrames: 50,
        onProgress: ({ fraction }) => seen.push(fraction),
      });
      expect(by).toBe("fluent-ffmpeg");
      expect(seen.at(-1)).toBe(1);
      expect(await readFile(adapted)).toEqual(await readFile(direct));
      expect(bench.logged).toEqual([
        { level: "info", text: expect.stringContaining("adapter fluent-ffmpeg") },
      ]);
    },
  );

  test("any error of it falls back to the direct command, visible in the log", async () => {
    const output = join(bench.tools.workDir, "o.mp4");
    const by = await runByImplementation(
      "ffmpeg-python",
      small(output),
      bench.tools,
      {},
      async () => {
        throw new TypeError("adapter is broken");
      },
    );
    expect(by).toBe("ffmpeg-direct");
    expect(await verifyRender(output, expected, bench.tools)).toMatchObject({ frames: 50 });
    expect(bench.logged).toEqual([
      {
        level: "warn",
        text: "adapter fluent-ffmpeg failed (adapter is broken); falling back to the direct FFmpeg command",
      },
    ]);
  });

  test("a command that is wrong in itself fails both ways, with FFmpeg's reason", async () => {
    const command = {
      ...small(join(bench.tools.workDir, "o.mp4")),
      filterGraph: "[0:v]nosuchfilter[v]",
    };
    await expect(runByImplementation("fluent-ffmpeg", command, bench.tools)).rejects.toMatchObject({
      type: "RENDER_FAILED",
      message: expect.stringContaining("nosuchfilter"),
    });
    expect(bench.logged[0]?.text).toContain("falling back");
  });

  test("an abort ends it without a fall-back", async () => {
    const command = {
      ...small(join(bench.tools.workDir, "o.mp4"), 60),
      inputs: [
        { args: ["-re", "-f", "lavfi"], file: "testsrc2=s=160x90:r=25:d=60" },
        lavfi("sine=440:d=60"),
      ],
    };
    const work = runByImplementation("fluent-ffmpeg", command, bench.tools, {
      onProgress: () => bench.abort.abort(),
    });
    await expect(work).rejects.toThrow();
    expect(bench.commands.filter(({ args }) => args.includes("-i"))).toHaveLength(1);
    expect(bench.commands.map(({ pid }) => alive(pid))).not.toContain(true);
  });

  test("a finished command line is taken apart and put together again", () => {
    const args = ["-ss", "1", "-i", "a.mp4", "-i", "b c.wav", "-map", "0", "-f", "mp4", "out.mp4"];
    expect(commandFromArgs(args)).toEqual({
      inputs: [
        { args: ["-ss", "1"], file: "a.mp4" },
        { args: [], file: "b c.wav" },
      ],
      filterGraph: "",
      outputArgs: ["-map", "0", "-f", "mp4"],
      output: "out.mp4",
    });
  });
});

describe("the check of a result", () => {
  test("names every difference", async () => {
    const output = join(bench.tools.workDir, "o.mp4");
    await runCommand(small(output), bench.tools);
    const wrong = {
      frames: 51,
      width: 162,
      height: 90,
      fps: "30/1",
      hasAudio: false,
      durationMs: 2040,
    };
    await expect(verifyRender(output, wrong, bench.tools)).rejects.toMatchObject({
      type: "RENDER_INEXACT",
      data: {
        reason: expect.stringMatching(
          /50 frames instead of 51; 160x90 instead of 162x90; 25\/1.*30\/1;.*2000 ms instead of 2040; sound where/,
        ),
      },
    });
  });

  test("a picture without the sound that was planned, and sound that starts late", async () => {
    const late = join(bench.tools.workDir, "late.mp4");
    // biome-ignore format: option and value side by side
    await runFfmpeg(["-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=2", "-itsoffset", "0.5", "-f", "lavfi", "-i", "sine=440:d=2",
      "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", late], bench.tools);
    await expect(verifyRender(late, expected, bench.tools)).rejects.toMatchObject({
      data: { reason: expect.stringContaining("the sound starts") },
    });
    const mute = join(bench.tools.workDir, "mute.mp4");
    await runFfmpeg(
      [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=s=160x90:r=25:d=2",
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        mute,
      ],
      bench.tools,
    );
    await expect(verifyRender(mute, expected, bench.tools)).rejects.toMatchObject({
      data: { reason: "no sound" },
    });
  });
});

describe("contact sheet", () => {
  test.each([
    ["in one pass", 2000],
    ["by seeking", 60_000],
  ])("shows evenly spaced frames %s, as a PNG of modest size", async (_, durationMs) => {
    const output = join(bench.tools.workDir, "o.mp4");
    await runCommand(small(output), bench.tools);
    const sheet = join(bench.tools.workDir, "sheet.png");
    const found = await readRender(output, bench.tools);
    // Told to be long, the video is read by seeking; every tile then lies within its 2 seconds or at its end.
    const source = durationMs === 2000 ? found : { ...found, frames: 12, durationMs };
    const size = await contactSheet(output, sheet, source, bench.tools);
    const png = await readFile(sheet);
    expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([size.width, size.height]);
    expect((await stat(sheet)).size).toBeLessThan(1024 ** 2);
    expect((await readdir(bench.tools.workDir)).sort()).toEqual([
      "o.mp4",
      "sheet.ass",
      "sheet.png",
    ]);
  });

  test("each tile shows its own time", async () => {
    const output = join(bench.tools.workDir, "grey.mp4");
    // Brightness rises with time, 16 steps a second.
    // biome-ignore format: option and value side by side
    await runFfmpeg(["-f", "lavfi", "-i", "color=black:s=160x90:r=25:d=8,geq=lum='16+T*24':cb=128:cr=128",
      "-c:v", "libx264", "-preset", "ultrafast", "-f", "mp4", output], bench.tools);
    const sheet = join(bench.tools.workDir, "sheet.png");
    const found = await readRender(output, bench.tools);
    const { width, height } = await contactSheet(output, sheet, found, bench.tools, {
      columns: 4,
      rows: 1,
    });
    const { ffmpeg } = await findFfmpeg(bench.config);
    const { stdout } = await promisify(execFile)(
      ffmpeg,
      // biome-ignore format: option and value side by side
      ["-v", "error", "-i", sheet, "-vf", `crop=${width}:${Math.floor(height / 2)}:0:0,scale=4:1:flags=area,format=gray`, "-f", "rawvideo", "-"],
      { encoding: "buffer" },
    );
    const tones = [...stdout];
    expect(tones).toEqual([...tones].sort((a, b) => a - b));
    expect(new Set(tones).size).toBe(4);
  });
});

test("a path with every special sign reaches a filter unharmed", async () => {
  const odd = join(bench.tools.workDir, "a'b:c,d[e];f g");
  await mkdir(odd);
  const ass = join(odd, "x.ass");
  await writeFile(ass, "[Script Info]\nScriptType: v4.00+\n");
  await runFfmpeg(
    // biome-ignore format: option and value side by side
    ["-f", "lavfi", "-i", "color=s=64x64:d=0.1", "-filter_complex", `[0:v]ass=filename=${filterValue(ass)}[v]`, "-map", "[v]", "-f", "null", "-"],
    bench.tools,
  );
});
