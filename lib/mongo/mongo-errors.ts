import mongoose from "mongoose";
import { ConfigError } from "../config.ts";
import { AppError, asAppError } from "../errors.ts";

const { mongo } = mongoose;

/** Hosts and database of an address, without user, password and options: fit for logs and messages. */
const shownMongoUrl = (url: string): string =>
  url.replace(/^(mongodb(?:\+srv)?:\/\/)(?:[^/?#]*@)?([^?#]*).*$/s, "$1$2");

/** Server codes (MongoDB's error_codes.yml) that mean: not now, because of the server's state or the way to it. */
const AWAY = new Set([
  1, // InternalError: a server before another engine answers so while that one is away or starts
  6, // HostUnreachable
  7, // HostNotFound
  24, // LockTimeout
  50, // MaxTimeMSExpired
  64, // WriteConcernTimeout: written, but not yet by the majority
  89, // NetworkTimeout
  91, // ShutdownInProgress
  112, // WriteConflict
  189, // PrimarySteppedDown
  262, // ExceededTimeLimit
  9001, // SocketException
  10058, // LegacyNotPrimary
  10107, // NotWritablePrimary
  11600, // InterruptedAtShutdown
  11602, // InterruptedDueToReplStateChange
  13435, // NotPrimaryNoSecondaryOk
  13436, // NotPrimaryOrSecondary
]);
const UNAUTHORIZED = 13;
const AUTHENTICATION_FAILED = new Set([18, 11, 8000]);
const OUT_OF_DISK = 14031;
const DUPLICATE_KEY = 11000;

const codeOf = (error: unknown): number | undefined => {
  const code = (error as { code?: unknown })?.code;
  return typeof code === "number" ? code : undefined;
};

export const isDuplicateKey = (error: unknown): boolean => codeOf(error) === DUPLICATE_KEY;

const isAway = (error: unknown): boolean =>
  error instanceof mongo.MongoNetworkError ||
  error instanceof mongo.MongoServerSelectionError ||
  error instanceof mongoose.Error.MongooseServerSelectionError ||
  error instanceof mongo.MongoNotConnectedError ||
  error instanceof mongo.MongoTopologyClosedError ||
  error instanceof mongo.MongoOperationTimeoutError ||
  (error as Error)?.name === "MongoWaitQueueTimeoutError" ||
  AWAY.has(codeOf(error) ?? -1) ||
  /before initial connection is complete/.test((error as Error)?.message ?? "");

const isRefused = (error: unknown): boolean =>
  AUTHENTICATION_FAILED.has(codeOf(error) ?? -1) ||
  (error as { cause?: unknown })?.cause instanceof mongo.MongoMissingCredentialsError;

/** A bulk wraps whatever broke the line under it. */
const underBulk = (error: unknown): unknown =>
  error instanceof mongo.MongoBulkWriteError && (error.errorResponse as unknown) instanceof Error
    ? error.errorResponse
    : error;

/** What a failure of the database means to a caller; what is none of its failures stays as it is. */
export function mongoFailure(failure: unknown): unknown {
  if (asAppError(failure)) return failure;
  const error = underBulk(failure);
  if (codeOf(error) === OUT_OF_DISK) return new AppError("DISK_FULL", { where: "MongoDB" }, error);
  if (isAway(error))
    return new AppError(
      "UNAVAILABLE",
      { reason: { en: "the database does not answer", zh: "数据库没有响应" } },
      error,
    );
  if (isRefused(error) || codeOf(error) === UNAUTHORIZED)
    return new AppError(
      "UNAVAILABLE",
      { reason: { en: "the database refuses this node's user", zh: "数据库拒绝了该节点的用户" } },
      error,
    );
  return error;
}

/** Runs what talks to the database; its failures come out as errors of the table. */
export async function overMongo<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw mongoFailure(error);
  }
}

/** One sentence about a start that the database made fail: which setting, what is wrong, what to do. No secrets. */
export function mongoStartFailure(url: string, failure: unknown): unknown {
  const error = asAppError(failure) ? ((failure as Error).cause ?? failure) : failure;
  const where = shownMongoUrl(url);
  if (isRefused(error))
    return new ConfigError(
      `MONGO_URL: ${where} refuses the user or password. Check both, and authSource where the user is kept in another database.`,
    );
  if (codeOf(error) === UNAUTHORIZED)
    return new ConfigError(
      `MONGO_URL: the user may not use the database at ${where}. Give it the role readWrite there.`,
    );
  if (isAway(error))
    return new ConfigError(
      `MONGO_URL: no MongoDB server answers at ${where} (${reasonOf(error)}). Start it, or correct the address.`,
    );
  return failure;
}

/** As `mongoStartFailure`; whatever keeps from connecting lies in the address. */
export function mongoConnectFailure(url: string, failure: unknown): unknown {
  const known = mongoStartFailure(url, failure);
  if (known instanceof ConfigError) return known;
  const reason = withoutSecrets(url, (failure as Error).message);
  return new ConfigError(
    `MONGO_URL: ${shownMongoUrl(url)} cannot be used as an address: ${reason}.`,
  );
}

/** The innermost cause: "connect ECONNREFUSED 127.0.0.1:27017" rather than a topology description. */
function reasonOf(error: unknown): string {
  const servers = (error as { reason?: { servers?: Map<string, { error?: Error }> } }).reason
    ?.servers;
  const inner = [...(servers?.values() ?? [])].find((server) => server.error)?.error;
  return (inner ?? (error as Error)).message.split("\n")[0]!.replace(/\.$/, "");
}

/** The parser of addresses may quote what it was given. */
function withoutSecrets(url: string, message: string): string {
  const password = /^[^:]+:\/\/[^/?#]*?:([^/?#]*)@/.exec(url)?.[1];
  return (password ? message.replaceAll(password, "…") : message).replace(/\.$/, "");
}
