import { afterEach, describe, expect, test } from "@jest/globals";
import { type Config, loadConfig } from "../../lib/config.ts";
import { EdgeServer } from "../../services/gateway/edge-server.ts";

const { config } = loadConfig({ PORT: "0" }, { generate: false });
const open: EdgeServer[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((edge) => edge.close()));
});
const listen = async (over: Partial<Config> = {}) => {
  const edge = await EdgeServer.listen({ ...config, ...over });
  open.push(edge);
  return edge;
};

describe("listening socket", () => {
  test("before somebody serves, and after the stop began, clients hear 503", async () => {
    const edge = await listen();
    const answer = await fetch(edge.url);
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
    await answer.text();
  });

  test("a stop ends open streams that heed it, and the client gets all that was written", async () => {
    const edge = await listen();
    edge.serve((_req, res) => {
      res.write("data: first\n\n");
      edge.stopping.addEventListener("abort", () => res.end("data: last\n\n"));
    });
    const answer = await fetch(edge.url);
    const text = answer.text();
    await edge.close();
    expect(await text).toBe("data: first\n\ndata: last\n\n");
  });

  test("an answer that never comes does not keep the stop waiting for ever", async () => {
    const edge = await listen();
    const asked = new Promise<void>((resolve) => edge.serve(() => resolve()));
    const outcome = fetch(edge.url).then(
      () => "answered",
      () => "cut",
    );
    await asked;
    await edge.close();
    expect(await outcome).toBe("cut");
  });

  test("a port in use is refused with a sentence that names the setting", async () => {
    const edge = await listen();
    await expect(listen({ PORT: edge.port })).rejects.toThrow(
      `PORT: ${edge.port} on 127.0.0.1 is in use by another program`,
    );
  });

  test("all networks are shown as an address of this machine", async () => {
    expect((await listen({ HOST: "0.0.0.0" })).url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  });
});
