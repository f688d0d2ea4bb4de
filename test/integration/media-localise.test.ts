import { readdir, readFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { AppError } from "../../lib/errors.ts";
import type { TypedCall } from "../../lib/service.ts";
import { checkSources } from "../../services/compose/media/check-sources.ts";
import { MediaLimits } from "../../services/compose/media/config.ts";
import { bringAll, localise } from "../../services/compose/media/localise.ts";
import { openToolsBench, type ToolsBench } from "../support/executor-tools.ts";
import { mediaMaker } from "../support/lavfi.ts";

let bench: ToolsBench;
const servers: Server[] = [];
beforeEach(async () => {
  bench = await openToolsBench({ FETCH_ALLOW: "127.0.0.1" });
});
afterEach(async () => {
  await bench.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  servers.push(server);
  // A host that is not the product's own, so that it is really fetched.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
const bring = (src: string, limits?: Partial<MediaLimits>) =>
  localise(src, bench.tools, {
    clip: "tracks[0].clips[3]",
    name: "source-0",
    limits: MediaLimits.parse(limits ?? {}),
  });
const leftOver = () => readdir(bench.tools.workDir);

describe("sources over the network", () => {
  test("arrive whole under a name by their content, and a signed link arrives unharmed", async () => {
    const maker = await mediaMaker(bench.config);
    const picture = join(bench.dir, "p.png");
    await maker.image(picture);
    const asked: (string | undefined)[] = [];
    const base = await serve(async (request, response) => {
      asked.push(request.url);
      response.end(await readFile(picture));
    });
    const file = await bring(`${base}/p.jpg?Expires=9&amp;Signature=a%2Bb%3D`);
    expect(file).toBe(join(bench.tools.workDir, "source-0.png"));
    expect(await readFile(file)).toEqual(await readFile(picture));
    expect(asked).toEqual(["/p.jpg?Expires=9&Signature=a%2Bb%3D"]);
  });

  test.each([
    [404, "MEDIA_UNREADABLE"],
    [403, "MEDIA_UNREADABLE"],
    [429, "MEDIA_FETCH_FAILED"],
    [503, "MEDIA_FETCH_FAILED"],
  ])("status %i ends as %s, naming the clip and leaving nothing", async (status, type) => {
    const base = await serve((_, response) => response.writeHead(status).end("no"));
    await expect(bring(`${base}/a.mp4`)).rejects.toMatchObject({
      type,
      data: { clip: "tracks[0].clips[3]", reason: `its host answers with status ${status}` },
    });
    expect(await leftOver()).toEqual([]);
  });

  test("a file that says that it is too large is not even begun", async () => {
    const base = await serve((_, response) => {
      response.writeHead(200, { "content-length": "5000000" });
      response.write(Buffer.alloc(1000));
    });
    await expect(bring(`${base}/a.mp4`, { sourceBytesMax: 1024 ** 2 })).rejects.toMatchObject({
      type: "MEDIA_UNREADABLE",
      data: { reason: "it has more than 1 MiB" },
    });
    expect(await leftOver()).toEqual([]);
  });

  test("a file that never ends is cut off at the limit", async () => {
    const base = await serve((_, response) => {
      const more = () => {
        while (response.write(Buffer.alloc(65_536)) && !response.destroyed);
        response.once("drain", more);
      };
      more();
    });
    await expect(bring(`${base}/a.mp4`, { sourceBytesMax: 1024 ** 2 })).rejects.toMatchObject({
      type: "MEDIA_UNREADABLE",
      data: { reason: "it has more than 1 MiB" },
    });
    expect(await leftOver()).toEqual([]);
  });

  test("a connection that breaks off is told apart from a whole file", async () => {
    const base = await serve((_, response) => {
      response.writeHead(200, { "content-length": "5000" });
      response.write(Buffer.alloc(1000), () => response.destroy());
    });
    await expect(bring(`${base}/a.mp4`)).rejects.toMatchObject({
      type: "MEDIA_FETCH_FAILED",
      data: { clip: "tracks[0].clips[3]", reason: "the connection broke off" },
    });
    expect(await leftOver()).toEqual([]);
  });

  test("a server that falls silent is given up", async () => {
    const base = await serve((_, response) => {
      response.writeHead(200);
      response.write("x");
    });
    await expect(bring(`${base}/a.mp4`, { fetchMs: 150 })).rejects.toMatchObject({
      type: "MEDIA_FETCH_FAILED",
      data: { reason: "it took longer than 0.15 s" },
    });
  });

  test("a refused connection and an unknown host are said in words", async () => {
    await expect(bring("http://127.0.0.1:9/a.mp4")).rejects.toMatchObject({
      data: { reason: "its host refuses the connection" },
    });
    const failing = localise("http://nowhere.example/a.mp4", bench.tools, {
      clip: "music",
      name: "m",
      resolve: () => Promise.reject(Object.assign(new Error("no"), { code: "ENOTFOUND" })),
    });
    await expect(failing).rejects.toMatchObject({
      data: { clip: "music", reason: "its host name is not known" },
    });
  });

  test("a redirect into the private network names clip and host", async () => {
    const base = await serve((_, response) =>
      response.writeHead(302, { location: "http://169.254.169.254/latest/meta-data" }).end(),
    );
    await expect(bring(`${base}/a.mp4`)).rejects.toMatchObject({
      type: "ADDRESS_FORBIDDEN",
      message: expect.stringMatching(/169\.254\.169\.254.*tracks\[0\]\.clips\[3\].*link-local/),
    });
    expect(await leftOver()).toEqual([]);
  });

  test("an abort ends the download and leaves nothing", async () => {
    const base = await serve((_, response) => {
      response.writeHead(200);
      response.write("x", () => bench.abort.abort());
    });
    await expect(bring(`${base}/a.mp4`)).rejects.toThrow();
    expect(await leftOver()).toEqual([]);
  });
});

describe("sources in storage", () => {
  test("a key, an oss:// address and the product's own link lead to the same object", async () => {
    const maker = await mediaMaker(bench.config);
    const tone = join(bench.dir, "tone.wav");
    await maker.sound(tone);
    const { OSS_BUCKET_NAME: bucket, PORT: port } = bench.config;
    bench.objects.set(`${bucket}/a/tone.wav`, tone);
    const wanted = [
      "a/tone.wav",
      `oss://${bucket}/a/tone.wav`,
      `http://localhost:${port}/objects/${bucket}/a/tone.wav?sig=x`,
    ];
    const local = await bringAll(
      wanted.map((src, index) => ({ src, clip: `clips[${index}]`, expected: "audio" as const })),
      bench.tools,
    );
    expect(local.map(({ facts }) => facts.format)).toEqual(["WAV", "WAV", "WAV"]);
  });

  test("an object that is not there names clip, bucket and key", async () => {
    await expect(bring("nothing/here.mp4")).rejects.toMatchObject({
      type: "MEDIA_UNREADABLE",
      data: { clip: "tracks[0].clips[3]", reason: "there is no object reelmesh/nothing/here.mp4" },
    });
  });

  test("a source that many clips use is brought in once", async () => {
    const maker = await mediaMaker(bench.config);
    const tone = join(bench.dir, "tone.wav");
    await maker.sound(tone);
    let asked = 0;
    const base = await serve(async (_, response) => {
      asked++;
      response.end(await readFile(tone));
    });
    const seen: number[] = [];
    const clips = Array.from({ length: 12 }, (_, n) => ({
      src: `${base}/t.wav`,
      clip: `clips[${n}]`,
      expected: "audio" as const,
    }));
    const local = await bringAll(clips, bench.tools, { onDone: (fraction) => seen.push(fraction) });
    expect(new Set(local.map(({ file }) => file)).size).toBe(1);
    expect(asked).toBe(1);
    expect(seen.at(-1)).toBe(1);
  });
});

describe("what is known of sources before a job is accepted", () => {
  const call = (async (_name: string, { key }: { key: string }) => {
    if (key === "missing.mp4") throw new AppError("OBJECT_NOT_FOUND", { bucket: "reelmesh", key });
    if (key === "unknown.mp4") throw new AppError("UNAVAILABLE", { reason: "no storage now" });
    return {};
  }) as unknown as TypedCall;
  const check = (src: string) =>
    checkSources(
      [
        { clip: "tracks[0].clips[0].src", src: "good.mp4" },
        { clip: "tracks[0].clips[1].src", src },
      ],
      bench.config,
      call,
    );

  test.each([
    ["../../etc/passwd", "INVALID_INPUT"],
    ["file:///etc/passwd", "INVALID_INPUT"],
    ["http://169.254.169.254/latest", "ADDRESS_FORBIDDEN"],
    ["http://[::ffff:10.0.0.1]/a.mp4", "ADDRESS_FORBIDDEN"],
    ["http://2130706434/a.mp4", "ADDRESS_FORBIDDEN"],
    ["missing.mp4", "MEDIA_UNREADABLE"],
  ])("%s is refused at once as %s, naming the clip", async (src, type) => {
    await expect(check(src)).rejects.toMatchObject({
      type,
      message: expect.stringContaining("tracks[0].clips[1].src"),
    });
  });

  test.each(["https://media.example/a.mp4", "there.mp4", "unknown.mp4"])(
    "%s is left to the node",
    async (src) => {
      await expect(check(src)).resolves.toBeUndefined();
    },
  );
});
