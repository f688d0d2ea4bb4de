import { beforeEach, describe, expect, test } from "@jest/globals";
import { type Config, loadConfig } from "../../lib/config.ts";
import { AppError } from "../../lib/errors.ts";
import type { TypedCall } from "../../lib/service.ts";
import { storagePorts } from "../../services/scheduler/bridge-orders.ts";

const PUBLIC_URL = "https://videos.example";
const config = {
  ...loadConfig({ DATA_DIR: "/nowhere", PUBLIC_URL }, { generate: false }).config,
} as Config;
const jobId = "01a80000-0000-7000-8000-000000000001";
const key = { jobId, attempt: 2 };
const prefix = `jobs/${jobId}/2/`;

/** What the storage service answers, by object. */
let stored: Map<string, number>;
let asked: [string, object][];
const call = (async (name: string, params: { bucket: string; key: string }) => {
  asked.push([name, params]);
  if (name === "storage.addresses") return { bucket: "reelmesh", origins: [PUBLIC_URL] };
  if (name === "storage.stat") {
    const bytes = stored.get(params.key);
    if (bytes === undefined) throw new AppError("OBJECT_NOT_FOUND", { ...params });
    return { bytes };
  }
  return { url: `https://signed.example/${params.bucket}/${params.key}` };
}) as unknown as TypedCall;
const ports = storagePorts({ config, call });

beforeEach(() => {
  stored = new Map();
  asked = [];
});

const order = (payload: Record<string, unknown>, kind = "compose") => ({
  ...key,
  kind,
  payload,
  owner: "admin:1",
  leaseMs: 20_000,
  boot: "boot-1",
});

describe("an order for a bridge outside the mesh", () => {
  test("names each object of ours by bucket and key, once, with a link; other addresses stay", async () => {
    const own = `${PUBLIC_URL}/objects/reelmesh/uploads/b%20c.mp4?signature=x`;
    const { payload, attempt } = await ports.prepare(
      order({
        media: [{ src: "uploads/a.png" }, { src: own }, { src: "oss://other-bucket/k.png" }],
        audio: "uploads/a.png",
        music: "https://elsewhere.example/m.mp3",
        title: "uploads/a.png",
      }),
    );
    expect(payload).toEqual({
      media: [
        { src: "oss://reelmesh/uploads/a.png" },
        { src: "oss://reelmesh/uploads/b c.mp4" },
        { src: "oss://other-bucket/k.png" },
      ],
      audio: "oss://reelmesh/uploads/a.png",
      music: "https://elsewhere.example/m.mp3",
      title: "uploads/a.png",
    });
    expect(attempt).toMatchObject({ job_id: jobId, number: 2, boot: "boot-1", bucket: "reelmesh" });
    expect(attempt.inputs.map(({ bucket, key }) => `${bucket}/${key}`).sort()).toEqual([
      "other-bucket/k.png",
      "reelmesh/uploads/a.png",
      "reelmesh/uploads/b c.mp4",
    ]);
  });

  test("for a contact sheet carries the link to its video", async () => {
    const source = { bucket: "reelmesh", key: "jobs/x/1/output.mp4" };
    const { payload, attempt } = await ports.prepare(order(source, "contact-sheet"));
    expect(payload).toEqual(source);
    expect(attempt.inputs).toMatchObject([source]);
  });

  test("asks for an upload link under the attempt's own prefix alone", async () => {
    await ports.uploadLink(key, { name: "output.mp4", bytes: 5, md5: "x" });
    expect(asked).toContainEqual([
      "storage.uploadLink",
      { bucket: "reelmesh", key: `${prefix}output.mp4`, bytes: 5, md5: "x" },
    ]);
  });
});

describe("a result that a bridge claims", () => {
  const result = (bytes: number, more: object = {}) => ({
    hash: "h",
    info: {},
    outputs: [
      {
        bucket: "reelmesh",
        key: `${prefix}output.mp4`,
        bytes,
        contentType: "video/mp4",
        role: "media",
        ...more,
      },
    ],
  });

  test("counts when its output is stored under the attempt, with its size", async () => {
    stored.set(`${prefix}output.mp4`, 7);
    expect(await ports.check(key, result(7))).toBeUndefined();
  });

  test.each([
    ["is not there", result(7, { key: `${prefix}other.mp4` }), /not stored/],
    ["has another size", result(8), /tells of 8 bytes .* 7 are stored/],
    ["is another attempt's", result(7, { key: `jobs/${jobId}/1/output.mp4` }), /not its own/],
    ["is in another bucket", result(7, { bucket: "private" }), /not its own/],
  ])("does not when the output %s", async (_what, claimed, words) => {
    stored.set(`${prefix}output.mp4`, 7);
    expect(await ports.check(key, claimed)).toMatchObject({
      message: expect.stringMatching(words),
    });
  });
});
