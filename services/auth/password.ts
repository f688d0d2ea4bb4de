import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from "node:crypto";
import { AppError } from "../../lib/errors.ts";
import { authLimits } from "./config.ts";

/** Cost of new passwords (OWASP's figures for scrypt with 32 MiB); stored with each hash, so that it may rise. */
const cost = { N: 2 ** 15, r: 8, p: 3 };
const KEY_BYTES = 32;
const MEMORY_MAX = 256 * 1024 * 1024;

const derive = (password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    scrypt(
      password.normalize("NFKC"),
      salt,
      KEY_BYTES,
      { ...options, maxmem: MEMORY_MAX },
      (error, key) => (error ? reject(error) : resolve(key)),
    );
  });

let running = 0;
const waiting: (() => void)[] = [];

/** A flood of logins must not take all memory and the whole thread pool, which file access shares. */
async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (running >= authLimits.checksAtOnce) {
    if (waiting.length >= authLimits.checksWaitingMax)
      throw new AppError("RATE_LIMITED", { seconds: 5 });
    await new Promise<void>((resolve) => waiting.push(resolve));
  } else running += 1;
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }
}

/** `scrypt$N$r$p$salt$key`, salt and key in base64url. */
const written = (salt: Buffer, key: Buffer) =>
  ["scrypt", cost.N, cost.r, cost.p, salt.toString("base64url"), key.toString("base64url")].join(
    "$",
  );

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  return written(salt, await inTurn(() => derive(password, salt, cost)));
}

/** A hash that no password has, checked for an unknown user: the answer takes as long as for a known one. */
export const unmatchable = (): string => written(randomBytes(16), randomBytes(KEY_BYTES));

/** Compares in constant time, with the cost that the hash was made with. A hash of another form matches nothing. */
export async function verifyPassword(password: string, stored: string): Promise<boolean> {
  const [scheme, N, r, p, salt, key] = stored.split("$");
  if (scheme !== "scrypt" || !salt || !key) return false;
  const wanted = Buffer.from(key, "base64url");
  const options = { N: Number(N), r: Number(r), p: Number(p) };
  const found = await inTurn(() => derive(password, Buffer.from(salt, "base64url"), options));
  return wanted.length === found.length && timingSafeEqual(wanted, found);
}
