import { createServer, type Server } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { readFetchAllow } from "../../lib/net/address.policy.ts";
import { executionLimits } from "../../services/compose/config.ts";
import { linkAccess } from "../../services/compose/object-access.ts";

let server: Server;
let asked: number;
beforeEach(async () => {
  asked = 0;
  server = createServer((_req, res) => {
    asked += 1;
    res.writeHead(200, { etag: '"e"', "content-length": 5 }).end("hello");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** Access by links of somebody else, one of which leads to this machine. */
const accessTo = (host: string, allowed?: string[]) => {
  const { port } = server.address() as { port: number };
  const link = async () => `http://${host}:${port}/object`;
  const allow = allowed && readFetchAllow(allowed);
  return linkAccess({ readLink: link, uploadLink: link, allow }, executionLimits);
};
const from = { bucket: "b", key: "k", start: 0 };
const { signal } = new AbortController();

describe("links that somebody else has chosen", () => {
  test.each(["127.0.0.1", "localhost"])(
    "lead into no private network: %s is not asked, neither for reading nor for storing",
    async (host) => {
      const access = accessTo(host, []);
      const forbidden = { type: "ADDRESS_FORBIDDEN" };
      await expect(access.read(from, signal)).rejects.toMatchObject(forbidden);
      const object = { bucket: "b", key: "k", contentType: "text/plain", bytes: 0, md5: "" };
      await expect(access.write(import.meta.filename, object, signal)).rejects.toMatchObject(
        forbidden,
      );
      expect(asked).toBe(0);
    },
  );

  test.each([
    ["that the operator permits", ["127.0.0.1"]],
    ["of one's own storage", undefined],
  ])("lead to hosts %s", async (_which, allowed) => {
    const opened = await accessTo("127.0.0.1", allowed).read(from, signal);
    const chunks: Uint8Array[] = [];
    for await (const chunk of opened.body) chunks.push(chunk);
    await opened.close();
    expect(Buffer.concat(chunks).toString()).toBe("hello");
  });
});
