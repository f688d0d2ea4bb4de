import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Product, startProduct } from "../support/product.ts";

let product: Product;
let token: string;
beforeAll(async () => {
  product = await startProduct();
  token = product.config.MCP_TOKEN;
});
afterAll(() => product.stop());

const call = (name: string, args?: object, more: object = {}) =>
  product.request("POST", "/mcp/tools/call", { token, body: { name, arguments: args, ...more } });

describe("plain form of the MCP interface", () => {
  test("lists every tool of the documents with schemas, only to agents and administrators", async () => {
    const { status, body } = await product.request("GET", "/mcp/tools", { token });
    expect(status).toBe(200);
    expect(body.tools.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining([
        "compose_timeline_ffmpeg",
        "generate_storyboard",
        "batch_dubbing",
        "jobs_get",
        "jobs_wait",
        "jobs_cancel",
        "preview_job",
      ]),
    );
    for (const { description, inputSchema, outputSchema } of body.tools) {
      expect(description.length).toBeGreaterThan(60);
      expect(inputSchema.type).toBe("object");
      expect(outputSchema.type).toBe("object");
    }
    expect((await product.request("GET", "/mcp/tools")).status).toBe(401);
    const bridge = await product.request("GET", "/mcp/tools", {
      token: product.config.BRIDGE_TOKEN,
    });
    expect(bridge.status).toBe(403);
  });

  test("a mistyped field is answered with its path and the name that was meant, and nothing starts", async () => {
    const { status, body } = await call("compose_timeline_ffmpeg", {
      timeline: {
        tracks: [{ type: "video", clips: [{ src: "a.jpg", durration: 3, start: -1 }] }],
      },
    });
    expect(status).toBe(200);
    expect(body.isError).toBe(true);
    expect(body.error.issues).toEqual(
      expect.arrayContaining([
        {
          path: "timeline.tracks[0].clips[0].durration",
          message: expect.stringContaining('did you mean "duration"'),
        },
        { path: "timeline.tracks[0].clips[0].start", message: expect.stringContaining("-1") },
      ]),
    );
    expect(body.content[0].text).toContain("timeline.tracks[0].clips[0].durration");
    expect(body.job_id).toBeUndefined();
  });

  test("an unknown tool is answered with the nearest name", async () => {
    const { body } = await call("compose_timeline");
    expect(body.isError).toBe(true);
    expect(body.content[0].text).toContain('Did you mean "compose_timeline_ffmpeg"');
  });

  test("the id of a job must be UUID-shaped, and a job that is not there is told as such", async () => {
    const wrong = await product.request("GET", "/mcp/jobs/42", { token });
    expect(wrong.status).toBe(400);
    expect(wrong.body.error.message).toContain("id");
    const missing = await product.request("GET", "/mcp/jobs/3f0c6f0e-8f0b-4f6e-9a53-0c6f0e8f0b4f", {
      token,
    });
    expect(missing.status).toBe(404);
    expect(missing.body.error.type).toBe("JOB_NOT_FOUND");
  });

  test("resources list the guide, and the guide is read by its uri", async () => {
    const { body } = await product.request("GET", "/mcp/resources", { token });
    expect(body.resources[0].uri).toBe("reelmesh://guide/timeline");
    const read = await product.request("GET", "/mcp/resources?uri=reelmesh://guide/timeline", {
      token,
    });
    expect(read.body.contents[0].text).toContain("compose_timeline_ffmpeg");
    const missing = await product.request("GET", "/mcp/resources?uri=reelmesh://nope/1", { token });
    expect(missing.status).toBe(404);
    expect(missing.body.error.message).toContain("reelmesh://jobs/{id}");
  });

  test("prompts are listed, and one is filled in from query parameters", async () => {
    const { body } = await product.request("GET", "/mcp/prompts", { token });
    expect(body.prompts.map(({ name }: { name: string }) => name)).toContain("make_short_video");
    const filled = await product.request(
      "GET",
      "/mcp/prompts?name=make_short_video&topic=noodles&seconds=15",
      { token },
    );
    expect(filled.body.messages[0].content.text).toContain("about: noodles");
    const missing = await product.request("GET", "/mcp/prompts?name=make_short_video", { token });
    expect(missing.status).toBe(400);
    expect(missing.body.error.message).toContain("topic");
  });
});
