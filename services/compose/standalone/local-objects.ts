import type { IncomingMessage, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import type { Config } from "../../../lib/config.ts";
import { AppError } from "../../../lib/errors.ts";
import type { CallOptions, TypedCall } from "../../../lib/service.ts";
import type { RawExchange } from "../../gateway/raw-route.ts";
import { objectRoutes } from "../../storage/object-routes.ts";
import type { ObjectRef, ObjectStore } from "../../storage/object-store.ts";
import { openStore } from "../../storage/open-store.ts";
import { linkProblem, signLink } from "../../storage/signed-link.ts";
import type { OwnAddresses } from "../../storage/storage.contract.ts";

/** The object storage of a bridge that nobody gives links to: its S3 server, or files of its own. */
export class LocalObjects {
  readonly #config: Config;
  readonly #store: ObjectStore;
  /** Address under which clients reach the bridge. */
  readonly #baseUrl: string;

  private constructor(config: Config, store: ObjectStore, baseUrl: string) {
    this.#config = config;
    this.#store = store;
    this.#baseUrl = baseUrl;
  }

  static async open(config: Config, baseUrl: string): Promise<LocalObjects> {
    const store = await openStore(config);
    try {
      await store.ensureBucket(config.OSS_BUCKET_NAME);
    } catch (error) {
      await store.close();
      throw error;
    }
    return new LocalObjects(config, store, baseUrl);
  }

  get addresses(): OwnAddresses {
    const { OSS_BUCKET_NAME, OSS_DOMAIN, S3_ENDPOINT, S3_ADDRESSING } = this.#config;
    return {
      bucket: OSS_BUCKET_NAME,
      origins: [this.#baseUrl],
      bucketUrl: OSS_DOMAIN,
      s3: S3_ENDPOINT ? { endpoints: [S3_ENDPOINT], addressing: S3_ADDRESSING } : undefined,
    };
  }

  /** Asks for an object that is not there. @throws AppError OBJECT_NOT_FOUND when the storage works. */
  look(): Promise<unknown> {
    return this.#store.stat({ bucket: this.#config.OSS_BUCKET_NAME, key: "health/none" });
  }

  async removeAttempt(prefix: string): Promise<void> {
    await this.#store.removePrefix(this.#config.OSS_BUCKET_NAME, prefix);
  }

  /** The storage's actions without a mesh, for the parts of the product that call them. */
  readonly call = ((name: string, params: never, options?: CallOptions) => {
    const action = this.#actions[name];
    if (!action) throw new AppError("UNAVAILABLE", { reason: `a bridge has no ${name}` });
    return action(params, options);
  }) as unknown as TypedCall;

  readonly #actions: Record<string, (params: never, options?: CallOptions) => Promise<unknown>> = {
    "storage.stat": (ref: ObjectRef) => this.#store.stat(ref),
    "storage.read": ({ bucket, key, ...range }: ObjectRef) =>
      this.#store.read({ bucket, key }, range),
    "storage.put": (
      { bytes, md5, ...ref }: ObjectRef & { contentType: string; bytes?: number; md5?: string },
      options,
    ) => this.#store.put(ref, options?.stream as Readable, { bytes, md5 }),
    "storage.addresses": async () => this.addresses,
    "storage.admit": async (used: Parameters<typeof linkProblem>[1]) => {
      const reason = linkProblem(this.#config.STORAGE_SECRET, used, Date.now());
      if (reason) throw new AppError("LINK_REJECTED", { reason });
    },
    "storage.link": async (ref: ObjectRef) => {
      const direct = await this.#store.readUrl?.(ref, { audience: "client" });
      const path = signLink(this.#config.STORAGE_SECRET, { ...ref, method: "GET" });
      return { url: direct ?? this.#baseUrl + path };
    },
  };

  /** Answers a signed link to an object; nothing can be stored from outside. */
  async serve(req: IncomingMessage, res: ServerResponse, url: URL): Promise<void> {
    const route = objectRoutes.find(({ method }) => method === "GET");
    const parts = /^\/objects\/([^/]+)\/(.+)$/.exec(url.pathname);
    if (!parts || !route || (req.method !== "GET" && req.method !== "HEAD"))
      throw new AppError("ROUTE_NOT_FOUND", { method: req.method, path: url.pathname });
    const gone = new AbortController();
    res.once("close", () => gone.abort());
    await route.handle(req, res, {
      params: { bucket: parts[1] ?? "", key: decodeURIComponent(parts[2] ?? "") },
      query: url.searchParams,
      host: { call: this.call },
      signal: gone.signal,
    } as unknown as RawExchange);
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}
