import { setTimeout as pause } from "node:timers/promises";

const RETRY_MS = 250;

export interface Patience {
  /** How long a request is sent again after failures. */
  limitMs?: number;
  /** How long one sending may take before it is given up. */
  requestMs?: number;
}

/** The product said no, and saying it again is no use. */
export class Refused extends Error {
  readonly status: number;
  constructor(status: number, text: string) {
    super(`${status}: ${text.slice(0, 300)}`);
    this.status = status;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers are read field by field
type Answer = any;

/** A client as a careful app is one: another gateway after a failure, the same request again, until a deadline. */
export class ProductClient {
  readonly #urls: readonly string[];
  readonly #token: string;
  #turn = 0;
  /** Requests that had to be sent again. */
  repeats = 0;

  constructor(urls: readonly string[], token: string) {
    this.#urls = urls;
    this.#token = token;
  }

  static async signIn(urls: readonly string[], password: string): Promise<ProductClient> {
    const anybody = new ProductClient(urls, "");
    const { responseData } = await anybody.send("POST", "/auth/admin/login", {
      username: "admin",
      password,
    });
    return new ProductClient(urls, responseData.token);
  }

  /** @throws Refused for an answer that repeating cannot change; an Error when `limitMs` is over. */
  async send(
    method: string,
    path: string,
    body?: unknown,
    { limitMs = 120_000, requestMs = 20_000 }: Patience = {},
  ): Promise<Answer> {
    const endAt = performance.now() + limitMs;
    for (;;) {
      const url = this.#urls[this.#turn++ % this.#urls.length];
      try {
        return await this.#once(`${url}${path}`, method, body, requestMs);
      } catch (error) {
        if (error instanceof Refused || performance.now() > endAt) throw error;
        this.repeats += 1;
        await pause(RETRY_MS);
      }
    }
  }

  async #once(url: string, method: string, body: unknown, requestMs: number): Promise<Answer> {
    const form = body instanceof FormData;
    const response = await fetch(url, {
      method,
      headers: {
        ...(this.#token ? { authorization: `Bearer ${this.#token}` } : {}),
        ...(body === undefined || form ? {} : { "content-type": "application/json" }),
        "accept-language": "en",
      },
      body: body === undefined ? undefined : form ? body : JSON.stringify(body),
      signal: AbortSignal.timeout(requestMs),
    });
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    if (response.status >= 500 || response.status === 429)
      throw new Error(`${response.status} ${text.slice(0, 200)}`);
    throw new Refused(response.status, text);
  }
}
