import { createHmac } from "node:crypto";
import { deriveKey, sameText } from "./signed-link.ts";

/** The one signature version that direct uploads have (platform document, section 2). */
export const signatureVersion = "OSS4-HMAC-SHA256";

/** What an upload credential may do. It travels, signed, inside the security token. */
export interface UploadScope {
  accessKeyId: string;
  bucket: string;
  /** Keys must begin with it and a slash. */
  dir: string;
  /** Unix seconds. */
  expire: number;
}

/** Answer of getDirectUploadUrl, less the host (platform document, section 2). */
export interface UploadTicket {
  policy: string;
  x_oss_signature_version: typeof signatureVersion;
  x_oss_credential: string;
  x_oss_date: string;
  signature: string;
  dir: string;
  security_token: string;
  access_key_id: string;
  expire: number;
}

const hmac = (key: string | Buffer, text: string) =>
  createHmac("sha256", key).update(text).digest();

/** `20231203T121212Z` */
const compactDate = (ms: number) => new Date(ms).toISOString().replace(/[-:]|\.\d+/g, "");

/** Tokens carry their own proof, so that no list of issued ones has to be kept or shared. */
function tokenOf(secret: string, scope: UploadScope): string {
  const body = Buffer.from(JSON.stringify(scope)).toString("base64url");
  return `${body}.${hmac(deriveKey(secret, "upload-token"), body).toString("base64url")}`;
}

function scopeOf(secret: string, token: string): UploadScope | undefined {
  const [body = "", proof = ""] = token.split(".");
  if (!sameText(proof, hmac(deriveKey(secret, "upload-token"), body).toString("base64url")))
    return undefined;
  return JSON.parse(Buffer.from(body, "base64url").toString()) as UploadScope;
}

/** The secret of a temporary access key; never handed out, since the server itself signs the policy. */
const temporarySecret = (secret: string, token: string) =>
  hmac(deriveKey(secret, "upload-key"), token).toString("base64url");

/** Signature of a policy in version 4: one key derived per day, region and product. */
function policySignature(key: string, day: string, region: string, policy: string): string {
  const chain = [day, region, "oss", "aliyun_v4_request"].reduce<string | Buffer>(
    hmac,
    `aliyun_v4${key}`,
  );
  return hmac(chain, policy).toString("hex");
}

/** Signs a policy that lets a browser store objects under one folder of one bucket. */
export function issueTicket(
  secret: string,
  request: UploadScope & { region: string; bytesMax: number },
  nowMs: number,
): UploadTicket {
  const { region, bytesMax, ...scope } = request;
  const date = compactDate(nowMs);
  const day = date.slice(0, 8);
  const token = tokenOf(secret, scope);
  const credential = `${scope.accessKeyId}/${day}/${region}/oss/aliyun_v4_request`;
  const policy = Buffer.from(
    JSON.stringify({
      expiration: new Date(scope.expire * 1000).toISOString(),
      conditions: [
        { bucket: scope.bucket },
        { "x-oss-signature-version": signatureVersion },
        { "x-oss-credential": credential },
        { "x-oss-date": date },
        { "x-oss-security-token": token },
        ["content-length-range", 0, bytesMax],
        ["starts-with", "$key", `${scope.dir}/`],
      ],
    }),
  ).toString("base64");
  return {
    policy,
    x_oss_signature_version: signatureVersion,
    x_oss_credential: credential,
    x_oss_date: date,
    signature: policySignature(temporarySecret(secret, token), day, region, policy),
    dir: scope.dir,
    security_token: token,
    access_key_id: scope.accessKeyId,
    expire: scope.expire,
  };
}

/** What a form upload may store, once its policy has been found right. */
export interface FormGrant {
  bytesMin: number;
  bytesMax: number;
}

type Verdict<T> = { problem: string } | { problem?: undefined; value: T };

/** Checks one condition of a policy that concerns a field; undefined when it holds. */
function conditionProblem(condition: unknown, fields: ReadonlyMap<string, string>) {
  const unknown = `the policy has a condition that is not known here: ${JSON.stringify(condition)}`;
  const triples: unknown[][] = Array.isArray(condition)
    ? [condition]
    : Object.entries((condition ?? {}) as object).map(([name, value]) => ["eq", `$${name}`, value]);
  for (const [operator, name, wanted] of triples) {
    if (typeof name !== "string" || !name.startsWith("$")) return unknown;
    const value = fields.get(name.slice(1).toLowerCase()) ?? "";
    const holds: Record<string, boolean> = {
      eq: value === wanted,
      "starts-with": typeof wanted === "string" && value.startsWith(wanted),
      in: Array.isArray(wanted) && wanted.includes(value),
      "not-in": Array.isArray(wanted) && !wanted.includes(value),
    };
    if (typeof operator !== "string" || holds[operator] === undefined) return unknown;
    if (!holds[operator])
      return `field ${name.slice(1)} does not meet the policy: ${operator} ${JSON.stringify(wanted)}`;
  }
  return undefined;
}

function decodePolicy(text: string): { expiration: number; conditions: unknown[] } | undefined {
  try {
    const { expiration, conditions } = JSON.parse(Buffer.from(text, "base64").toString());
    const at = Date.parse(expiration);
    return Array.isArray(conditions) && Number.isFinite(at)
      ? { expiration: at, conditions }
      : undefined;
  } catch {
    return undefined;
  }
}

/** Token, credential and signature: who may upload at all. */
function signerProblem(
  secret: string,
  fields: ReadonlyMap<string, string>,
  nowMs: number,
): Verdict<UploadScope> {
  const field = (name: string) => fields.get(name) ?? "";
  for (const name of [
    "key",
    "policy",
    "x-oss-signature-version",
    "x-oss-credential",
    "x-oss-date",
    "x-oss-signature",
    "x-oss-security-token",
  ])
    if (!field(name))
      return { problem: `field ${name} is missing; all fields come before the file` };
  if (field("x-oss-signature-version") !== signatureVersion)
    return { problem: `x-oss-signature-version must be ${signatureVersion}` };
  const token = field("x-oss-security-token");
  const scope = scopeOf(secret, token);
  if (!scope) return { problem: "the security token was not issued here" };
  if (nowMs >= scope.expire * 1000)
    return {
      problem: `the security token expired at ${new Date(scope.expire * 1000).toISOString()}`,
    };
  const [id, day = "", region = "", ...rest] = field("x-oss-credential").split("/");
  if (id !== scope.accessKeyId || rest.join("/") !== "oss/aliyun_v4_request")
    return { problem: "x-oss-credential does not belong to the security token" };
  if (!/^\d{8}T\d{6}Z$/.test(field("x-oss-date")) || !field("x-oss-date").startsWith(day))
    return { problem: "x-oss-date does not belong to the credential" };
  const key = temporarySecret(secret, token);
  if (!sameText(field("x-oss-signature"), policySignature(key, day, region, field("policy"))))
    return { problem: "the signature does not belong to this policy" };
  return { value: scope };
}

/**
 * Checks a form upload: signature chain, token, expiry and every condition of the policy. Sizes are answered
 * as limits, for the store to enforce while the file comes in.
 */
export function checkForm(
  secret: string,
  bucket: string,
  given: Readonly<Record<string, string>>,
  nowMs: number,
): Verdict<FormGrant> {
  const fields = new Map(Object.entries(given).map(([name, value]) => [name.toLowerCase(), value]));
  fields.set("bucket", bucket);
  const signer = signerProblem(secret, fields, nowMs);
  if (signer.problem !== undefined) return signer;
  if (signer.value.bucket !== bucket || !fields.get("key")?.startsWith(`${signer.value.dir}/`))
    return { problem: `the security token is for ${signer.value.bucket}/${signer.value.dir}/` };
  const policy = decodePolicy(fields.get("policy") ?? "");
  if (!policy) return { problem: "the policy is not base64 of a JSON policy" };
  if (nowMs >= policy.expiration)
    return { problem: `the policy expired at ${new Date(policy.expiration).toISOString()}` };
  const grant: FormGrant = { bytesMin: 0, bytesMax: Number.MAX_SAFE_INTEGER };
  for (const condition of policy.conditions) {
    if (Array.isArray(condition) && condition[0] === "content-length-range") {
      const [, min, max] = condition as unknown[];
      if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max))
        return { problem: "content-length-range needs two whole numbers" };
      grant.bytesMin = Math.max(grant.bytesMin, min as number);
      grant.bytesMax = Math.min(grant.bytesMax, max as number);
      continue;
    }
    const problem = conditionProblem(condition, fields);
    if (problem) return { problem };
  }
  return { value: grant };
}
