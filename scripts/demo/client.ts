import { createWriteStream, openAsBlob } from "node:fs";
import { basename } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

/** An answer that is not a success; the message is the product's own. */
export class RequestFailed extends Error {}

/** A client of the public interface and nothing else: what the demo does, any program can do. */
export class Client {
  readonly #base: string;

  constructor(base: string) {
    this.#base = base;
  }

  /** @throws RequestFailed with the answer's message. */
  async request<T>(
    method: string,
    path: string,
    token: string | undefined,
    body?: unknown,
  ): Promise<T> {
    const form = body instanceof FormData;
    const response = await fetch(`${this.#base}${path}`, {
      method,
      headers: {
        "accept-language": "en",
        ...(token ? { authorization: `Bearer ${token}` } : {}),
        ...(body !== undefined && !form ? { "content-type": "application/json" } : {}),
      },
      body: body === undefined ? undefined : form ? body : JSON.stringify(body),
    });
    const answer = (await response.json()) as { message?: string; error?: { message?: string } };
    if (!response.ok) {
      throw new RequestFailed(
        `${method} ${path}: ${answer.message ?? answer.error?.message ?? response.status}`,
      );
    }
    return answer as T;
  }

  /** Platform routes: the content of the envelope. */
  async platform<T>(
    method: string,
    path: string,
    token: string | undefined,
    body?: unknown,
  ): Promise<T> {
    return (await this.request<{ responseData: T }>(method, path, token, body)).responseData;
  }

  /** Puts a local file into the bucket and answers its storage address. */
  async upload(file: string, bucket: string, key: string, token: string): Promise<string> {
    const form = new FormData();
    form.set("bucket", bucket);
    form.set("object_key", key);
    form.set("file", await openAsBlob(file), basename(file));
    await this.platform("POST", "/common/cloudvendor-oss/upload-file", token, form);
    return `oss://${bucket}/${key}`;
  }

  async download(url: string, file: string): Promise<void> {
    const response = await fetch(url);
    if (!response.ok || !response.body) throw new RequestFailed(`GET ${url}: ${response.status}`);
    await pipeline(Readable.fromWeb(response.body as never), createWriteStream(file));
  }
}
