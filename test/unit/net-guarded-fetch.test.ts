import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "@jest/globals";
import { readFetchAllow } from "../../lib/net/address.policy.ts";
import {
  type Address,
  type GuardedFetchOptions,
  guardedFetch,
} from "../../lib/net/guarded-fetch.ts";

const open: Server[] = [];
async function serve(listener: RequestListener): Promise<{ port: number; hits: () => number }> {
  let hits = 0;
  const server = createServer((request, response) => {
    hits++;
    listener(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push(server);
  return { port: (server.address() as AddressInfo).port, hits: () => hits };
}
afterEach(async () => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

const options = (
  allow: string[],
  more: Partial<GuardedFetchOptions> = {},
): GuardedFetchOptions => ({
  allow: readFetchAllow(allow),
  redirectsMax: 3,
  connectMs: 2_000,
  silenceMs: 2_000,
  ...more,
});
/** The text of an answer; fails as `guardedFetch` does. */
async function textOf(url: string, opts: GuardedFetchOptions): Promise<string> {
  const response = await guardedFetch(url, opts);
  try {
    let text = "";
    for await (const chunk of response.body) text += Buffer.from(chunk).toString();
    return text;
  } finally {
    await response.close();
  }
}
const at = (...addresses: string[]): Address[] =>
  addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));

describe("guarded fetch", () => {
  test("an address in the private network is refused and nothing is sent", async () => {
    const inside = await serve((_, response) => response.end("secret"));
    await expect(textOf(`http://127.0.0.1:${inside.port}/`, options([]))).rejects.toMatchObject({
      type: "ADDRESS_FORBIDDEN",
      data: { host: "127.0.0.1" },
    });
    expect(inside.hits()).toBe(0);
  });

  test("a name that leads into the private network is refused", async () => {
    const inside = await serve((_, response) => response.end("secret"));
    const resolve = async () => at("127.0.0.1");
    await expect(
      textOf(`http://media.example:${inside.port}/`, options([], { resolve })),
    ).rejects.toMatchObject({ type: "ADDRESS_FORBIDDEN", data: { host: "media.example" } });
    expect(inside.hits()).toBe(0);
  });

  test("a name with one public and one private address is refused", async () => {
    const resolve = async () => at("93.184.216.34", "10.0.0.1");
    await expect(textOf("http://media.example/", options([], { resolve }))).rejects.toMatchObject({
      type: "ADDRESS_FORBIDDEN",
    });
  });

  test("a name that changes its answer between look-ups reaches only what was checked", async () => {
    const permitted = await serve((_, response) => {
      response.writeHead(302, { location: "/again", connection: "close" });
      response.end();
    });
    let asked = 0;
    const resolve = async () => (asked++ === 0 ? at("127.0.0.1") : at("127.0.0.2"));
    await expect(
      textOf(`http://rebind.example:${permitted.port}/`, options(["127.0.0.1"], { resolve })),
    ).rejects.toMatchObject({ type: "ADDRESS_FORBIDDEN", data: { host: "rebind.example" } });
    expect(asked).toBe(2);
    expect(permitted.hits()).toBe(1);
  });

  test("a redirect into the private network is refused", async () => {
    const inside = await serve((_, response) => response.end("secret"));
    const outside = await serve((_, response) => {
      response.writeHead(302, { location: `http://127.0.0.2:${inside.port}/` });
      response.end();
    });
    await expect(
      textOf(`http://127.0.0.1:${outside.port}/`, options(["127.0.0.1"])),
    ).rejects.toMatchObject({ type: "ADDRESS_FORBIDDEN", data: { host: "127.0.0.2" } });
    expect(inside.hits()).toBe(0);
  });

  test("a redirect to another protocol is refused", async () => {
    const outside = await serve((_, response) => {
      response.writeHead(302, { location: "file:///etc/passwd" });
      response.end();
    });
    await expect(
      textOf(`http://127.0.0.1:${outside.port}/`, options(["127.0.0.1"])),
    ).rejects.toMatchObject({ type: "ADDRESS_FORBIDDEN" });
  });

  test("redirects without end are given up", async () => {
    const circle = await serve((_, response) => {
      response.writeHead(302, { location: "/" });
      response.end();
    });
    await expect(
      textOf(`http://127.0.0.1:${circle.port}/`, options(["127.0.0.1"])),
    ).rejects.toThrow("more than 3 redirects");
    expect(circle.hits()).toBe(4);
  });

  test("permitted hosts are fetched, redirects included", async () => {
    const server = await serve((request, response) => {
      if (request.url === "/a?x=1&y=2") response.writeHead(301, { location: "b" });
      response.end(request.url);
    });
    const resolve = async () => at("127.0.0.1");
    const allowed = options(["media.internal"], { resolve });
    await expect(textOf(`http://media.internal:${server.port}/a?x=1&y=2`, allowed)).resolves.toBe(
      "/b",
    );
  });

  test("a server that sends nothing is given up after the permitted silence", async () => {
    const silent = await serve(() => undefined);
    const quick = options(["127.0.0.1"], { silenceMs: 100 });
    await expect(textOf(`http://127.0.0.1:${silent.port}/`, quick)).rejects.toMatchObject({
      code: "UND_ERR_HEADERS_TIMEOUT",
    });
  });
});
