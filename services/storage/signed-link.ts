import { createHmac, timingSafeEqual } from "node:crypto";
import type { ObjectRef } from "./object-store.ts";

/** What a signed link permits: one method on one object, until a time, up to a size. */
export interface Grant extends ObjectRef {
  method: "GET" | "PUT";
  /** Unix seconds; absent: for ever. */
  expires?: number;
  /** Largest body that a PUT may bring. */
  bytesMax?: number;
}

/** A key of its own for each purpose, so that a signature of one kind is none of another. */
export const deriveKey = (secret: string, purpose: string): Buffer =>
  createHmac("sha256", secret).update(`reelmesh storage ${purpose}`).digest();

function signatureOf(secret: string, grant: Grant): string {
  const text = JSON.stringify([
    grant.method,
    grant.bucket,
    grant.key,
    grant.expires ?? null,
    grant.bytesMax ?? null,
  ]);
  return createHmac("sha256", deriveKey(secret, "link")).update(text).digest("base64url");
}

/** Equality of two texts in a time that tells nothing about where they differ. */
export function sameText(a: string, b: string): boolean {
  const key = "compare";
  const digest = (text: string) => createHmac("sha256", key).update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

/** Key as it stands in an address. A slash at its end is written as %2F: routers cut off a plain one. */
export const keyPath = (key: string): string =>
  key.split("/").map(encodeURIComponent).join("/").replace(/\/$/, "%2F");

/** Path and query of the link under which the gateway serves or takes the object. */
export function signLink(secret: string, grant: Grant): string {
  const query = new URLSearchParams();
  if (grant.expires !== undefined) query.set("expires", String(grant.expires));
  if (grant.bytesMax !== undefined) query.set("max-bytes", String(grant.bytesMax));
  query.set("signature", signatureOf(secret, grant));
  return `/objects/${grant.bucket}/${keyPath(grant.key)}?${query}`;
}

/** Why a request may not use a link; undefined when it may. */
export function linkProblem(
  secret: string,
  grant: Grant & { signature?: string },
  nowMs: number,
): string | undefined {
  if (!grant.signature) return "the link has no signature";
  if (!sameText(grant.signature, signatureOf(secret, grant)))
    return "the signature does not belong to this method, object and expiry";
  if (grant.expires !== undefined && nowMs >= grant.expires * 1000)
    return `the link expired at ${new Date(grant.expires * 1000).toISOString()}`;
  return undefined;
}
