import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { systemCall } from "../../lib/service.ts";
import { type Product, startProduct } from "../support/product.ts";

let product: Product;
beforeAll(async () => {
  product = await startProduct({ SERVICES: "gateway,platform,scheduler" });
});
afterAll(() => product.stop());

const output = { width: 64, height: 64, fps: 10, quality: "draft" };
/** An object that need not exist for what is wrong before anybody looks at it. */
const still = { src: "pictures/a.jpg", duration: 0.5 };
const submit = (tracks: object[], more: object = {}) =>
  product.request("POST", "/compose-timeline-ffmpeg", {
    token: product.config.BRIDGE_TOKEN,
    body: { timeline: { tracks }, output, ...more },
  });
const jobs = async () => (await systemCall(product.broker)("scheduler.list", {})).jobs.length;

beforeAll(async () => {
  const stored = await product.request("POST", "/common/cloudvendor-oss/upload-file", {
    token: product.config.MCP_TOKEN,
    body: { bucket: product.config.OSS_BUCKET_NAME, object_key: still.src, file_content: "x" },
  });
  expect(stored.status).toBe(200);
});

describe("times that contradict each other are refused before a job exists", () => {
  const cases: [string, object[], string][] = [
    [
      "clips that overlap",
      [{ type: "video", clips: [still, { ...still, start: 0.2 }] }],
      "tracks[0].clips[1].start",
    ],
    [
      "clips out of order",
      [
        {
          type: "video",
          clips: [
            { ...still, start: 1 },
            { ...still, start: 0 },
          ],
        },
      ],
      "tracks[0].clips[1].start",
    ],
    [
      "a transition longer than its clip",
      [{ type: "video", clips: [{ ...still, transition: { duration: 5 } }, still] }],
      "tracks[0].clips[0].transition",
    ],
    [
      "an overlay, behind a text track, that fades longer than it lasts",
      [
        { type: "text", clips: [{ text: "Hi" }] },
        { type: "overlay", clips: [{ ...still, fadeOut: 3 }] },
      ],
      "tracks[1].clips[0]",
    ],
    [
      "a clip shorter than a frame",
      [{ type: "video", clips: [{ ...still, duration: 0.01 }] }],
      "tracks[0].clips[0]",
    ],
  ];
  test.each(cases)("%s", async (_, tracks, path) => {
    const before = await jobs();
    const { status, body } = await submit(tracks);
    expect(status).toBe(400);
    expect(body.error.type).toBe("TIMELINE_INVALID");
    expect(body.error.data.path).toBe(path);
    expect(await jobs()).toBe(before);
  });

  test("what only the media can tell is left to the render: a clip without a length, a repeated video", async () => {
    const unknown = { src: still.src };
    const open = await submit([{ type: "video", clips: [unknown, { ...still, start: 0.2 }] }]);
    expect(open.status).toBe(200);
    const short = { ...still, duration: 600, fill: "loop", trim: { start: 0, end: 0.5 } };
    expect((await submit([{ type: "video", clips: [short] }])).status).toBe(200);
    const mixed = [{ ...still, kind: "image" }, still];
    expect((await submit([{ type: "video", clips: mixed }])).status).toBe(200);
  });
});

test("a bearer token of any length that nobody has is answered with 401", async () => {
  for (const length of [1, 513, 9_000]) {
    const { status, body } = await product.request("GET", "/agent/admin/app", {
      token: "t".repeat(length),
    });
    expect(status).toBe(401);
    expect(body.error.type).toBe("UNAUTHENTICATED");
  }
});
