import { randomBytes } from "node:crypto";

/** UUID version 7 (RFC 9562) from its parts: milliseconds, a 12-bit counter and 8 random bytes. */
export function uuidV7(atMs: number, counter: number, random: Uint8Array): string {
  const bytes = new Uint8Array(16);
  let rest = atMs;
  for (let n = 5; n >= 0; n -= 1) {
    bytes[n] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  bytes[6] = 0x70 | ((counter >> 8) & 0x0f);
  bytes[7] = counter & 0xff;
  bytes.set(random.subarray(0, 8), 8);
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  const hex = Buffer.from(bytes).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Ids that rise within this process even inside one millisecond or when the clock steps back. */
export function idMaker(): (nowMs: number) => string {
  let lastMs = 0;
  let counter = 0;
  return (nowMs) => {
    if (nowMs > lastMs) {
      lastMs = nowMs;
      counter = 0;
    } else if (counter < 0xfff) counter += 1;
    else {
      lastMs += 1;
      counter = 0;
    }
    return uuidV7(lastMs, counter, randomBytes(8));
  };
}
