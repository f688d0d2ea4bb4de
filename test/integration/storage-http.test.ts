import { createHmac, randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { systemCall, type TypedCall } from "../../lib/service.ts";
import { type Product, startProduct } from "../support/product.ts";
import { until } from "../support/until.ts";

let product: Product;
let call: TypedCall;
let token: string;
const bucket = "reelmesh";
beforeAll(async () => {
  product = await startProduct();
  call = systemCall(product.broker);
  token = product.config.MCP_TOKEN;
});
afterAll(() => product.stop());

const put = (key: string, data: string | Buffer, contentType = "text/plain") =>
  call("storage.put", { bucket, key, contentType }, { stream: Readable.from([Buffer.from(data)]) });
const linkOf = async (key: string, expires?: number) =>
  (await call("storage.link", { bucket, key, expires })).url;
const filesOnDisk = async () =>
  (
    await readdir(join(product.config.DATA_DIR, "objects"), {
      recursive: true,
      withFileTypes: true,
    })
  ).filter((entry) => entry.isFile()).length;
// biome-ignore lint/suspicious/noExplicitAny: answers are checked field by field
const jsonOf = async (response: Response): Promise<any> => response.json();

describe("signed links", () => {
  test("a link without expiry serves the object with its type, and a HEAD serves its head", async () => {
    await put("links/标题.txt", "hello");
    const url = await linkOf("links/标题.txt");
    const response = await fetch(url);
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("hello");
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "text/plain",
      "content-length": "5",
      "x-content-type-options": "nosniff",
      "content-disposition": `inline; filename="__.txt"; filename*=UTF-8''%E6%A0%87%E9%A2%98.txt`,
    });
    const head = await fetch(url, { method: "HEAD" });
    expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([
      200,
      "5",
      "",
    ]);
  });

  test("a link with expiry serves until then; a changed link is refused", async () => {
    await put("links/a.txt", "a");
    await put("links/b.txt", "b");
    const url = await linkOf("links/a.txt", 60);
    expect((await fetch(url)).status).toBe(200);
    const later = url.replace(/expires=(\d+)/, (_, at) => `expires=${Number(at) + 1}`);
    const without = url.replace(/expires=\d+&/, "");
    for (const changed of [
      later,
      without,
      url.replace("links/a", "links/b"),
      url.replace(/signature=./, "signature=."),
      url.replace(/&signature=.*/, ""),
    ]) {
      const response = await fetch(changed);
      expect([changed, response.status]).toEqual([changed, 403]);
      expect(await jsonOf(response)).toMatchObject({ error: { type: "LINK_REJECTED" } });
    }
    expect((await fetch(url, { method: "PUT", body: "over" })).status).toBe(403);
  });

  test("a link whose time has passed is refused with that time", async () => {
    await put("links/old.txt", "old");
    const url = await linkOf("links/old.txt", 1);
    let response = await fetch(url);
    await until(async () => {
      response = await fetch(url);
      return response.status === 403;
    });
    expect(JSON.stringify(await jsonOf(response))).toContain("expired at");
  });

  test.each([
    ["bytes=0-3", 206, "0123", "bytes 0-3/10"],
    ["bytes=7-", 206, "789", "bytes 7-9/10"],
    ["bytes=-2", 206, "89", "bytes 8-9/10"],
    ["bytes=5-99", 206, "56789", "bytes 5-9/10"],
    ["bytes=0-1,4-5", 200, "0123456789", null],
    ["lines=1-2", 200, "0123456789", null],
  ])("the range %p answers %p", async (range, status, text, contentRange) => {
    await put("links/digits", "0123456789");
    const response = await fetch(await linkOf("links/digits"), { headers: { range } });
    expect([response.status, await response.text(), response.headers.get("content-range")]).toEqual(
      [status, text, contentRange],
    );
  });

  test("a range behind the end answers 416 with the size", async () => {
    await put("links/short", "0123456789");
    const response = await fetch(await linkOf("links/short"), {
      headers: { range: "bytes=10-" },
    });
    expect([response.status, response.headers.get("content-range")]).toEqual([416, "bytes */10"]);
    expect(await jsonOf(response)).toMatchObject({ error: { type: "RANGE_NOT_SATISFIABLE" } });
  });

  test("a known tag answers 304; a range for another content answers the whole", async () => {
    await put("links/tagged", "content");
    const url = await linkOf("links/tagged");
    const etag = (await fetch(url)).headers.get("etag") ?? "";
    const known = await fetch(url, { headers: { "if-none-match": `W/${etag}, "other"` } });
    expect([known.status, await known.text()]).toEqual([304, ""]);
    const fresh = { range: "bytes=0-1", "if-range": etag };
    const stale = { range: "bytes=0-1", "if-range": '"other"' };
    expect((await fetch(url, { headers: fresh })).status).toBe(206);
    expect((await fetch(url, { headers: stale })).status).toBe(200);
  });

  test("what could run script in a browser is a download without rights", async () => {
    for (const type of ["text/html", "image/svg+xml", "application/xhtml+xml"]) {
      await put("links/page", "<script>alert(1)</script>", type);
      const { headers } = await fetch(await linkOf("links/page"));
      expect(headers.get("content-disposition")).toMatch(/^attachment/);
      expect(headers.get("content-security-policy")).toContain("sandbox");
    }
  });

  test.each([
    "odd/a b&c=d+e%2F?#.txt",
    "odd/片段/🎬'(1)*.mp4",
    `odd/${"长".repeat(300)}`,
    "odd/dir/",
  ])("the key %p arrives as it was", async (key) => {
    await put(key, key);
    expect(await (await fetch(await linkOf(key))).text()).toBe(key);
  });

  test("an object that is not there answers 404", async () => {
    const response = await fetch(await linkOf("links/none"));
    expect(response.status).toBe(404);
    expect(await jsonOf(response)).toMatchObject({ error: { type: "OBJECT_NOT_FOUND" } });
  });

  test("a client that goes away in the middle of a download leaves no open file", async () => {
    await put("links/big", Buffer.alloc(30_000_000));
    const gone = new AbortController();
    const response = await fetch(await linkOf("links/big"), { signal: gone.signal });
    await response.body?.getReader().read();
    gone.abort();
    if (process.platform !== "linux") return;
    const openFiles = async () => {
      const names = await readdir("/proc/self/fd");
      const { readlink } = await import("node:fs/promises");
      const targets = await Promise.all(
        names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => "")),
      );
      return targets.filter((target) => target.includes(join(product.config.DATA_DIR, "objects/")));
    };
    await until(async () => (await openFiles()).length === 0);
  });
});

describe("upload links", () => {
  const uploadLink = async (key: string, bytesMax?: number) =>
    (await call("storage.uploadLink", { bucket, key, bytesMax })).url;

  test("a PUT stores the body under the signed key only", async () => {
    const url = await uploadLink("up/clip.mp4");
    const body = randomBytes(200_000);
    const response = await fetch(url, {
      method: "PUT",
      body,
      headers: { "content-type": "video/mp4" },
    });
    expect([response.status, (await jsonOf(response)).bytes]).toEqual([200, body.length]);
    const read = await fetch(await linkOf("up/clip.mp4"));
    expect(read.headers.get("content-type")).toBe("video/mp4");
    expect(Buffer.from(await read.arrayBuffer()).equals(body)).toBe(true);
    const other = await fetch(url.replace("clip.mp4", "other.mp4"), { method: "PUT", body: "x" });
    expect(other.status).toBe(403);
  });

  test("a body over the signed size is refused, announced or not, and stores nothing", async () => {
    const url = await uploadLink("up/limited", 1000);
    const before = await filesOnDisk();
    const announced = await fetch(url, { method: "PUT", body: Buffer.alloc(1001) });
    expect(announced.status).toBe(413);
    const streamed = await fetch(url, {
      method: "PUT",
      body: Readable.toWeb(Readable.from([Buffer.alloc(600), Buffer.alloc(600)])) as ReadableStream,
      duplex: "half",
    } as RequestInit);
    expect([streamed.status, (await jsonOf(streamed)).error.type]).toEqual([
      413,
      "PAYLOAD_TOO_LARGE",
    ]);
    await until(async () => (await filesOnDisk()) === before);
    expect((await fetch(await linkOf("up/limited"))).status).toBe(404);
  });

  test("a client that goes away in the middle of an upload leaves nothing", async () => {
    const url = new URL(await uploadLink("up/broken"));
    const before = await filesOnDisk();
    const socket = connect(Number(url.port), url.hostname);
    socket.on("error", () => undefined);
    socket.write(
      `PUT ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\nContent-Length: 1000000\r\n\r\n`,
    );
    socket.write(Buffer.alloc(300_000));
    await until(async () => (await filesOnDisk()) === before + 1);
    socket.destroy();
    await until(async () => (await filesOnDisk()) === before);
    expect((await fetch(await linkOf("up/broken"))).status).toBe(404);
  });
});

describe("cloud files routes", () => {
  const base = "/common/cloudvendor-oss";
  const request = (method: string, path: string, body?: unknown) =>
    product.request(method, `${base}/${path}`, { token, body });

  test("a folder, a text file, the listing, the removal", async () => {
    const folder = await request("POST", "create-folder", {
      bucket: "my-clips",
      folder_name: "raw",
    });
    expect(folder.body).toMatchObject({ returnCode: 0, responseData: { folder_name: "raw" } });
    const file = { bucket: "my-clips", object_key: "raw/note.txt" };
    const stored = await request("POST", "upload-file", { ...file, file_content: "你好" });
    expect(stored.body).toMatchObject({
      returnCode: 0,
      responseData: { object_key: "raw/note.txt" },
    });
    const top = await request("GET", "list-files?bucket=my-clips");
    expect(top.body.responseData).toMatchObject({
      folders: ["raw/"],
      files: [],
      is_truncated: false,
    });
    const inside = await request("GET", "list-files?bucket=my-clips&prefix=raw/&max_keys=10");
    const [entry] = inside.body.responseData.files;
    expect(inside.body.responseData.files).toHaveLength(1);
    expect(entry).toMatchObject({ object_key: "raw/note.txt", size: 6 });
    expect(await (await fetch(entry.url)).text()).toBe("你好");
    const removed = await request("DELETE", "delete-file", file);
    expect(removed.body.responseData).toEqual({ object_key: "raw/note.txt" });
    const after = await request("GET", "list-files?bucket=my-clips&prefix=raw/");
    expect(after.body.responseData.files).toEqual([]);
  });

  test.each(["before", "after"])(
    "a multipart file with its fields %s it is stored whole",
    async (where) => {
      const data = randomBytes(300_000);
      const form = new FormData();
      const fields = () => {
        form.append("bucket", "my-clips");
        form.append("object_key", `form/${where}.mp4`);
      };
      if (where === "before") fields();
      form.append("file", new Blob([data]), "local name.mp4");
      if (where === "after") fields();
      const response = await fetch(`${product.url}${base}/upload-file`, {
        method: "POST",
        body: form,
        headers: { authorization: `Bearer ${token}` },
      });
      expect((await jsonOf(response)).responseData).toEqual({ object_key: `form/${where}.mp4` });
      const read = await fetch(
        (await call("storage.link", { bucket: "my-clips", key: `form/${where}.mp4` })).url,
      );
      expect(read.headers.get("content-type")).toBe("video/mp4");
      expect(Buffer.from(await read.arrayBuffer()).equals(data)).toBe(true);
    },
  );

  test.each([
    ["no bucket", "POST", "create-folder", { folder_name: "a" }, "bucket"],
    [
      "a bucket name that is none",
      "POST",
      "create-folder",
      { bucket: "No_Good", folder_name: "a" },
      "bucket",
    ],
    [
      "a folder that climbs out",
      "POST",
      "create-folder",
      { bucket: "my-clips", folder_name: "../a" },
      "folder_name",
    ],
    [
      "a key that climbs out",
      "POST",
      "upload-file",
      { bucket: "my-clips", object_key: "a/../../b", file_content: "" },
      "object_key",
    ],
    [
      "neither content nor file",
      "POST",
      "upload-file",
      { bucket: "my-clips", object_key: "a" },
      "file_content",
    ],
    ["no key", "DELETE", "delete-file", { bucket: "my-clips" }, "object_key"],
  ])("%s answers 1003 and names the field", async (_why, method, path, body, field) => {
    const answer = await request(method, path, body);
    expect([answer.status, answer.body.returnCode]).toEqual([400, 1003]);
    expect(answer.body.message).toContain(field);
  });

  test("content and file together answer 1003", async () => {
    const form = new FormData();
    form.append("bucket", "my-clips");
    form.append("object_key", "both");
    form.append("file_content", "text");
    form.append("file", new Blob(["file"]), "f.txt");
    const response = await fetch(`${product.url}${base}/upload-file`, {
      method: "POST",
      body: form,
      headers: { authorization: `Bearer ${token}` },
    });
    expect((await jsonOf(response)).returnCode).toBe(1003);
    expect((await call("storage.list", { bucket: "my-clips", prefix: "both" })).objects).toEqual(
      [],
    );
  });

  test("a bucket that nobody has made answers 2000 with its name", async () => {
    const answer = await request("GET", "list-files?bucket=nobodys");
    expect([answer.status, answer.body.returnCode]).toEqual([404, 2000]);
    expect(answer.body.message).toContain("nobodys");
  });

  test("without a token nothing is served, and a bridge token is not enough", async () => {
    const path = `${base}/list-files?bucket=${bucket}`;
    expect((await product.request("GET", path)).status).toBe(401);
    const bridge = await product.request("GET", path, { token: product.config.BRIDGE_TOKEN });
    expect(bridge.status).toBe(403);
  });
});

describe("direct upload", () => {
  const path = "/admin/cloudvendor/oss/getDirectUploadUrl";
  const ticketFor = async (body: Record<string, unknown> = {}) =>
    (await product.request("POST", path, { token, body: { bucket: "uploads", ...body } })).body
      .responseData;
  type Ticket = Record<string, string>;

  function formOf(ticket: Ticket, changes: Record<string, string> = {}, data = "picture") {
    const fields: Record<string, string> = {
      key: `${ticket["dir"]}/pic.png`,
      policy: ticket["policy"]!,
      "x-oss-signature-version": ticket["x_oss_signature_version"]!,
      "x-oss-credential": ticket["x_oss_credential"]!,
      "x-oss-date": ticket["x_oss_date"]!,
      "x-oss-signature": ticket["signature"]!,
      "x-oss-security-token": ticket["security_token"]!,
      ...changes,
    };
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    form.append("file", new Blob([data], { type: "image/png" }), "my pic.png");
    return form;
  }
  const send = (ticket: Ticket, form: FormData) =>
    fetch(ticket["host"]!, { method: "POST", body: form });

  test("the answer has the fields, defaults and policy of the platform document", async () => {
    const before = Math.floor(Date.now() / 1000);
    const answer = await product.request("POST", path, { token, body: { bucket: "uploads" } });
    expect(answer.body.returnCode).toBe(0);
    const ticket = answer.body.responseData;
    expect(Object.keys(ticket).sort()).toEqual(
      [
        "access_key_id",
        "dir",
        "expire",
        "host",
        "policy",
        "security_token",
        "signature",
        "x_oss_credential",
        "x_oss_date",
        "x_oss_signature_version",
      ].sort(),
    );
    expect(ticket).toMatchObject({
      x_oss_signature_version: "OSS4-HMAC-SHA256",
      dir: "user-dir",
      host: `${product.url}/objects/uploads`,
    });
    expect(ticket.expire - before).toBeGreaterThanOrEqual(3600);
    expect(ticket.expire - before).toBeLessThan(3660);
    expect(ticket.x_oss_date).toMatch(/^\d{8}T\d{6}Z$/);
    const day = ticket.x_oss_date.slice(0, 8);
    expect(ticket.x_oss_credential).toBe(
      `${ticket.access_key_id}/${day}/cn-shenzhen/oss/aliyun_v4_request`,
    );
    const policy = JSON.parse(Buffer.from(ticket.policy, "base64").toString());
    expect(Date.parse(policy.expiration)).toBe(ticket.expire * 1000);
    expect(policy.conditions).toEqual(
      expect.arrayContaining([
        { bucket: "uploads" },
        { "x-oss-signature-version": "OSS4-HMAC-SHA256" },
        { "x-oss-credential": ticket.x_oss_credential },
        { "x-oss-date": ticket.x_oss_date },
        { "x-oss-security-token": ticket.security_token },
        ["starts-with", "$key", "user-dir/"],
      ]),
    );
  });

  test("a browser form built from the answer stores its file", async () => {
    const ticket = await ticketFor({ upload_dir: "avatars/2026", region: "cn-hangzhou" });
    const response = await send(ticket, formOf(ticket));
    expect([response.status, await response.text()]).toEqual([204, ""]);
    const stat = await call("storage.stat", { bucket: "uploads", key: "avatars/2026/pic.png" });
    expect(stat).toMatchObject({ bytes: 7, contentType: "image/png" });
    const named = formOf(ticket, {
      key: `${ticket.dir}/$\{filename}`,
      success_action_status: "200",
    });
    expect((await send(ticket, named)).status).toBe(200);
    await call("storage.stat", { bucket: "uploads", key: "avatars/2026/my pic.png" });
  });

  test.each([
    ["a key outside the folder", { key: "elsewhere/pic.png" }],
    ["a key that only begins like the folder", { key: "user-dirty/pic.png" }],
    ["another signature", { "x-oss-signature": "0".repeat(64) }],
    [
      "another credential",
      { "x-oss-credential": "STS.x/20260101/cn-shenzhen/oss/aliyun_v4_request" },
    ],
    ["another date", { "x-oss-date": "20200101T000000Z" }],
    ["another signature version", { "x-oss-signature-version": "OSS2" }],
    ["another token", { "x-oss-security-token": "e30.AAAA" }],
    ["no policy", { policy: "" }],
  ])("%s is refused and stores nothing", async (_why, changes) => {
    const ticket = await ticketFor({ bucket: "refused-uploads" });
    const response = await send(ticket, formOf(ticket, changes));
    expect(response.status).toBe(403);
    expect((await jsonOf(response)).error.type).toBe("UPLOAD_REJECTED");
    await expect(call("storage.list", { bucket: "refused-uploads" })).rejects.toMatchObject({
      type: "BUCKET_NOT_FOUND",
    });
  });

  test("a policy that the client has widened is refused", async () => {
    const ticket = await ticketFor();
    const policy = JSON.parse(Buffer.from(ticket.policy, "base64").toString());
    policy.conditions = policy.conditions.filter((condition: unknown) => !Array.isArray(condition));
    const widened = Buffer.from(JSON.stringify(policy)).toString("base64");
    expect((await send(ticket, formOf(ticket, { policy: widened }))).status).toBe(403);
  });

  test("a ticket for one bucket is refused at another", async () => {
    const ticket = await ticketFor();
    const other = { ...ticket, host: ticket.host.replace("/uploads", `/${bucket}`) };
    expect((await send(other, formOf(ticket))).status).toBe(403);
  });

  test("a file over the size of the policy is refused and stores nothing", async () => {
    const ticket = await call("storage.uploadForm", {
      bucket: "uploads",
      region: "cn-shenzhen",
      dir: "small",
      expires: 60,
      bytesMax: 1000,
    });
    const form = () => ticket as unknown as Ticket;
    const before = await filesOnDisk();
    const large = await send(form(), formOf(form(), {}, "x".repeat(100_000)));
    expect([large.status, (await jsonOf(large)).error.type]).toEqual([413, "PAYLOAD_TOO_LARGE"]);
    await until(async () => (await filesOnDisk()) === before);
    expect((await send(form(), formOf(form(), {}, "x".repeat(1000)))).status).toBe(204);
  });

  test("a media type that no header could carry is refused", async () => {
    const ticket = await ticketFor();
    const response = await send(
      ticket,
      formOf(ticket, { "Content-Type": "video/mp4\r\nX-Evil: 1" }),
    );
    expect([response.status, (await jsonOf(response)).error.type]).toEqual([400, "INVALID_INPUT"]);
  });

  test("an expired ticket is refused", async () => {
    const ticket = await ticketFor({ expires: 1 });
    let body = "";
    await until(async () => {
      const response = await send(ticket, formOf(ticket));
      body = await response.text();
      return response.status === 403;
    });
    expect(body).toContain("expired at");
  });

  test("the signing chain is aliyun_v4 over date, region, oss and aliyun_v4_request", async () => {
    const { issueTicket } = await import("../../services/storage/upload-policy.ts");
    const { deriveKey } = await import("../../services/storage/signed-link.ts");
    const now = Date.UTC(2026, 0, 2, 3, 4, 5);
    const ticket = issueTicket(
      "a secret of the test",
      {
        accessKeyId: "STS.test",
        bucket: "b-1",
        dir: "d",
        expire: now / 1000 + 60,
        region: "cn-beijing",
        bytesMax: 10,
      },
      now,
    );
    const sign = (key: string | Buffer, text: string) =>
      createHmac("sha256", key).update(text).digest();
    const secret = sign(deriveKey("a secret of the test", "upload-key"), ticket.security_token);
    const dateKey = sign(`aliyun_v4${secret.toString("base64url")}`, "20260102");
    const regionKey = sign(dateKey, "cn-beijing");
    const signingKey = sign(sign(regionKey, "oss"), "aliyun_v4_request");
    expect(ticket.signature).toBe(sign(signingKey, ticket.policy).toString("hex"));
    expect(ticket.x_oss_date).toBe("20260102T030405Z");
  });

  test.each([
    [{}, "bucket"],
    [{ bucket: "uploads", expires: 0 }, "expires"],
    [{ bucket: "uploads", expires: "soon" }, "expires"],
    [{ bucket: "uploads", upload_dir: "../up" }, "upload_dir"],
    [{ bucket: "uploads", region: "!" }, "region"],
  ])("%p answers 1003 and names the field", async (body, field) => {
    const answer = await product.request("POST", path, { token, body });
    expect([answer.status, answer.body.returnCode]).toEqual([400, 1003]);
    expect(answer.body.message).toContain(field);
  });
});
