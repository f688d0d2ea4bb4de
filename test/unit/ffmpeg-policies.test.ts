import { describe, expect, test } from "@jest/globals";
import {
  failureError,
  failureReason,
  withoutPaths,
} from "../../services/compose/media/ffmpeg-failure.policy.ts";
import { buildShortcoming, readBuild } from "../../services/compose/media/ffmpeg-version.policy.ts";
import { progressReader } from "../../services/compose/media/run-ffmpeg.ts";

const encoders =
  " V....D libx264              x\n A....D aac                  x\n V....D png     x\n";
const filters =
  " ... ass  V->V  x\n T.. xfade  VV->V  x\n ... loudnorm  A->A x\n .S zoompan  V->V x\n";

describe("FFmpeg builds", () => {
  test.each([
    ["ffmpeg version 5.1.9-0+deb12u1 Copyright", { major: 5, minor: 1 }],
    ["ffmpeg version n7.0-7-gd38bf5e08e Copyright", { major: 7, minor: 0 }],
    ["ffmpeg version 9.0 Copyright", { major: 9, minor: 0 }],
    ["ffmpeg version N-117123-gabcdef Copyright", undefined],
  ])("%s is read and usable", (text, release) => {
    const build = readBuild(text, encoders, filters);
    expect(build.release).toEqual(release);
    expect(buildShortcoming(build)).toBeUndefined();
  });

  test.each([
    ["4.4.2-0ubuntu0.22.04.1", "5.1 or newer is needed"],
    ["5.0.3", "5.1 or newer is needed"],
  ])("version %s is too old", (version, reason) => {
    const build = readBuild(`ffmpeg version ${version} Copyright`, encoders, filters);
    expect(buildShortcoming(build)).toContain(reason);
  });

  test("a build without libx264 or libass is named as such", () => {
    const build = readBuild("ffmpeg version 7.1", " A....D aac x\n V....D png x\n", "");
    expect(buildShortcoming(build)).toMatch(/encoder libx264.*filter ass/);
  });
});

describe("why FFmpeg failed", () => {
  test("the telling line is found between noise, without pointers and paths", () => {
    const text = [
      "[mov,mp4 @ 0x55d0c1] moov atom not found",
      "/srv/data/work/4711-1/source-0.mov: Invalid data found when processing input",
      "Error opening input files: Invalid data found when processing input",
    ].join("\n");
    expect(failureReason(text)).toBe("source-0.mov: Invalid data found when processing input");
  });

  test("a missing filter is named rather than the code that follows", () => {
    const text =
      "[AVFilterGraph @ 0x1] No such filter: 'nosuch'\nError initializing complex filters.\nInvalid argument";
    expect(failureReason(text)).toBe("No such filter: 'nosuch'");
  });

  test("paths of other systems lose their directories too", () => {
    expect(withoutPaths("C:\\data\\work\\a.mp4 and /a/b/c.png, 1/2")).toBe("a.mp4 and c.png, 1/2");
  });

  test.each([
    ["av_interleaved_write_frame(): No space left on device", null],
    ["", "SIGXFSZ"],
    ["File too large", null],
  ])("%j with signal %s is a full disk", (stderrTail, signal) => {
    expect(failureError({ code: 1, signal, stderrTail }).type).toBe("DISK_FULL");
  });

  test("a killed process is told apart from a failing one", () => {
    const killed = failureError({ code: null, signal: "SIGKILL", stderrTail: "" });
    expect(killed).toMatchObject({ type: "RENDER_FAILED" });
    expect(killed.data["reason"]).toContain("killed (SIGKILL)");
    const asked = failureError({
      code: 255,
      signal: null,
      stderrTail: "Exiting normally, received signal 15.",
    });
    expect(asked.data["reason"]).toContain("signal 15");
  });
});

describe("progress", () => {
  test("is the share of frames, stays within 0 and 1, and survives lines of other kinds", () => {
    const seen: number[] = [];
    const read = progressReader({ totalFrames: 100, onProgress: (p) => seen.push(p.fraction) });
    for (const line of ["frame=25", "out_time_us=N/A", "speed=N/A", "noise", "progress=continue"])
      read(line);
    for (const line of ["frame=130", "out_time_us=4000000", "speed=2.5x", "progress=end"])
      read(line);
    expect(seen).toEqual([0.25, 1]);
  });

  test("without frames it is the share of time", () => {
    const seen: unknown[] = [];
    const read = progressReader({ totalMs: 4000, onProgress: (p) => seen.push(p) });
    for (const line of ["out_time_us=1000000", "speed=2x", "progress=continue"]) read(line);
    expect(seen).toEqual([{ fraction: 0.25, frame: 0, outMs: 1000, speed: 2 }]);
  });
});
