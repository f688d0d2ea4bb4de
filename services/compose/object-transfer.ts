import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { setTimeout as pause } from "node:timers/promises";
import { AppError, asAppError, type ErrorType } from "../../lib/errors.ts";
import type { OwnAddresses } from "../storage/storage.contract.ts";
import type { AttemptHost } from "./attempt-host.ts";
import type { ExecutionLimits } from "./config.ts";
import type { ObjectName } from "./object-access.ts";

/** What another try may find changed. */
const mayPass: ReadonlySet<ErrorType> = new Set<ErrorType>([
  "UNAVAILABLE",
  "TIMEOUT",
  "OBJECT_CHANGED",
  // What arrives at the store is not what was sent: the line's fault, since the file is our own.
  "UPLOAD_REJECTED",
]);

/**
 * Objects to files and files to objects, whole or not at all. A line that breaks, a link that runs out, a server
 * that is away: it goes on, with a new link, from the byte it has come to, until nothing has moved for
 * `storageWaitMs`.
 */
export class ObjectTransfer {
  readonly #host: Pick<AttemptHost, "objects" | "addresses">;
  readonly #limits: ExecutionLimits;
  readonly #signal: AbortSignal;

  #addresses: Promise<OwnAddresses> | undefined;

  constructor(
    host: Pick<AttemptHost, "objects" | "addresses">,
    limits: ExecutionLimits,
    signal: AbortSignal,
  ) {
    this.#host = host;
    this.#limits = limits;
    this.#signal = signal;
  }

  addresses(): Promise<OwnAddresses> {
    this.#addresses ??= this.#patiently(() => this.#host.addresses());
    return this.#addresses;
  }

  /**
   * @param bytesMax a larger object is not begun.
   * @throws AppError OBJECT_NOT_FOUND, PAYLOAD_TOO_LARGE; UNAVAILABLE when patience is at its end.
   */
  async download(
    { bucket, key }: ObjectName,
    file: string,
    bytesMax = Number.POSITIVE_INFINITY,
  ): Promise<void> {
    let have = 0;
    let etag: string | undefined;
    await this.#patiently(async (moved) => {
      const restart = () => {
        have = 0;
        etag = undefined;
      };
      const opened = await this.#host
        .objects()
        .read({ bucket, key, start: have, etag }, this.#signal)
        .catch((error) => {
          if (asAppError(error)?.type === "OBJECT_CHANGED") restart();
          throw error;
        });
      const { bytes, body } = opened;
      try {
        if (bytes > bytesMax)
          throw new AppError("PAYLOAD_TOO_LARGE", { limit: `${bytesMax} bytes` });
        etag = opened.etag;
        const target = createWriteStream(file, have > 0 ? { flags: "r+", start: have } : {});
        await pipeline(body, watched(moved), target, { signal: this.#signal });
      } finally {
        await opened.close();
        have = await sizeOf(file);
      }
      if (have === bytes) return;
      const reason = `${bucket}/${key} came with ${have} of ${bytes} bytes`;
      // Too much of it cannot be gone on from.
      if (have > bytes) restart();
      throw new AppError("UNAVAILABLE", { reason });
    });
  }

  /** @returns size and SHA-256 (hexadecimal) of what was stored. */
  async upload(
    file: string,
    object: ObjectName & { contentType: string },
  ): Promise<{ bytes: number; sha256: string }> {
    const { bytes, md5, sha256 } = await digestsOf(file, this.#signal);
    await this.#patiently(() =>
      this.#host.objects().write(file, { ...object, bytes, md5 }, this.#signal),
    );
    return { bytes, sha256 };
  }

  /** Repeats what may pass, with growing pauses, until nothing has moved for a while and for some tries. */
  async #patiently<T>(work: (moved: () => void) => Promise<T>): Promise<T> {
    const { storageWaitMs, transferTriesMin, transferPauseMsMin, transferPauseMsMax } =
      this.#limits;
    let failingSince: number | undefined;
    let tries = 0;
    const moved = () => {
      failingSince = undefined;
      tries = 0;
    };
    for (;;) {
      this.#signal.throwIfAborted();
      try {
        const done = await work(moved);
        this.#signal.throwIfAborted();
        return done;
      } catch (error) {
        this.#signal.throwIfAborted();
        const type = asAppError(error)?.type;
        failingSince ??= performance.now();
        tries += 1;
        const isLate = performance.now() - failingSince >= storageWaitMs;
        if (!type || !mayPass.has(type) || (isLate && tries >= transferTriesMin)) throw error;
      }
      const pauseMs = Math.min(transferPauseMsMin * 2 ** Math.min(tries, 16), transferPauseMsMax);
      await pause(pauseMs, undefined, { signal: this.#signal }).catch(() => undefined);
    }
  }
}

const sizeOf = (file: string) =>
  stat(file).then(
    ({ size }) => size,
    () => 0,
  );

const watched = (moved: () => void) =>
  async function* (source: AsyncIterable<Uint8Array>) {
    for await (const chunk of source) {
      moved();
      yield chunk;
    }
  };

/** Read before it is sent, since the store is told what has to arrive. */
async function digestsOf(file: string, signal: AbortSignal) {
  const [md5, sha256] = [createHash("md5"), createHash("sha256")];
  let bytes = 0;
  for await (const chunk of createReadStream(file, { signal })) {
    md5.update(chunk);
    sha256.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, md5: md5.digest("base64"), sha256: sha256.digest("hex") };
}
