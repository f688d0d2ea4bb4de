import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { wavDurationMs } from "../../services/aigc/speech/wav-duration.policy.ts";
import { type Product, startProduct } from "../support/product.ts";

const hasVoice = spawnSync("espeak-ng", ["--version"]).status === 0;
const whereSpoken = hasVoice ? test : test.skip;

let product: Product;
beforeAll(async () => {
  product = await startProduct();
});
afterAll(() => product.stop());

const tool = (name: string, args: object) =>
  product.request("POST", "/mcp/tools/call", {
    token: product.config.MCP_TOKEN,
    body: { name, arguments: args },
  });
const dub = (args: object) => tool("batch_dubbing", args);

describe("batch_dubbing", () => {
  whereSpoken(
    "speaks Chinese and English lines to WAV objects of the length that it names",
    async () => {
      const { body } = await dub({
        lines: [
          { id: "hello", text: "你好，世界。这是一个测试。" },
          { text: "-v is no option; $(reboot) is no command. [[phonemes]] are text." },
          { id: "fast", text: "Slow and fast take different times.", speed: 2 },
          { id: "slow", text: "Slow and fast take different times.", speed: 0.5 },
        ],
      });
      expect(body.isError).toBe(false);
      const { lines, total_ms, provider } = body.structuredContent;
      expect(provider).toBe("espeak-ng");
      expect(lines.map(({ id, voice }: { id: string; voice: string }) => [id, voice])).toEqual([
        ["hello", "cmn"],
        ["line-2", "en-us"],
        ["fast", "en-us"],
        ["slow", "en-us"],
      ]);
      let sum = 0;
      for (const line of lines) {
        const response = await fetch(line.url);
        expect(response.status).toBe(200);
        const wav = new Uint8Array(await response.arrayBuffer());
        expect(wav.length).toBe(line.bytes);
        expect(wavDurationMs(wav)).toBe(line.duration_ms);
        expect(line.duration_ms).toBeGreaterThan(300);
        sum += line.duration_ms;
      }
      expect(total_ms).toBe(sum);
      expect(lines[3].duration_ms).toBeGreaterThan(lines[2].duration_ms * 2);
    },
  );

  whereSpoken("a voice that does not exist is named with the one that was meant", async () => {
    const { body } = await dub({ lines: [{ text: "hello", voice: "en-su" }] });
    expect(body.isError).toBe(true);
    expect(body.content[0].text).toContain('lines[0].voice: there is no voice "en-su"');
    expect(body.content[0].text).toContain('did you mean "en-us"');
  });

  test("lines without words, repeated ids and odd speeds are named by path before anything is spoken", async () => {
    const { body } = await dub({
      lines: [{ text: " ...!" }, { id: "a", text: "one" }, { id: "a", text: "two", speed: 9 }],
    });
    expect(body.error.issues.map(({ path }: { path: string }) => path)).toEqual(
      expect.arrayContaining(["lines[0].text", "lines[2].speed"]),
    );
    const repeated = await dub({
      lines: [
        { id: "a", text: "one" },
        { id: "a", text: "two" },
      ],
    });
    expect(repeated.body.error.issues[0].path).toBe("lines[1].id");
    expect((await dub({ lines: [] })).body.isError).toBe(true);
    expect((await dub({ lines: [{ text: "x".repeat(1001) }] })).body.isError).toBe(true);
  });

  test("where no voice is installed the answer says what to install", async () => {
    const empty = await mkdtemp(join(tmpdir(), "reelmesh-path-"));
    const path = process.env["PATH"];
    process.env["PATH"] = empty;
    const bare = await startProduct();
    try {
      const { body } = await bare.request("POST", "/mcp/tools/call", {
        token: bare.config.MCP_TOKEN,
        body: { name: "batch_dubbing", arguments: { lines: [{ text: "hello" }] } },
      });
      expect(body.isError).toBe(true);
      expect(body.error.type).toBe("VOICE_MISSING");
      expect(body.content[0].text).toContain("apt-get install espeak-ng");
    } finally {
      process.env["PATH"] = path;
      await bare.stop();
      await rm(empty, { recursive: true, force: true });
    }
  });
});

describe("generate_storyboard with narrate", () => {
  whereSpoken(
    "times the scenes by the voice and gives a timeline with sound that renders",
    async () => {
      const { body } = await tool("generate_storyboard", {
        script: "夜深了，店开了。Come in and eat.",
        narrate: true,
        quality: "draft",
      });
      expect(body.isError).toBe(false);
      const { scenes, request } = body.structuredContent;
      expect(scenes).toHaveLength(2);
      const voice = request.timeline.tracks.find(({ type }: { type: string }) => type === "audio");
      expect(voice.clips.map(({ start }: { start: number }) => start * 1000)).toEqual(
        scenes.map(({ start_ms }: { start_ms: number }) => start_ms),
      );
      const started = await tool("compose_timeline_ffmpeg", {
        ...request,
        output: { ...request.output, width: 64, height: 96, fps: 5 },
      });
      const { body: ended } = await tool("jobs_wait", {
        job_id: started.body.job_id,
        timeout_seconds: 15,
      });
      expect(ended.structuredContent).toMatchObject({
        status: "success",
        info: { hasAudio: true },
      });
      const total = scenes.reduce(
        (sum: number, { duration_ms }: { duration_ms: number }) => sum + duration_ms,
        0,
      );
      expect(ended.structuredContent.info.durationMs).toBeCloseTo(total, -2.5);
    },
  );

  test("needs exactly one of script and idea, and words in it", async () => {
    const { body: none } = await tool("generate_storyboard", {});
    expect(none.content[0].text).toContain("give exactly one of script and idea");
    const { body: both } = await tool("generate_storyboard", { script: "a", idea: "b" });
    expect(both.isError).toBe(true);
    const { body: empty } = await tool("generate_storyboard", { script: "...!" });
    expect(empty.error.issues[0]).toMatchObject({ path: "script" });
  });
});
