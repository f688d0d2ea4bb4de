import { Errors } from "moleculer";

/** How a caller should treat a failure: the same call may work later, only after a change, or never. */
export type Retry = "never" | "later";

export interface ErrorEntry {
  /** HTTP status of the answer. */
  status: number;
  /** `returnCode` of the platform envelope (platform document, section 7). */
  returnCode: number;
  retry: Retry;
  /** Message templates; `{name}` is replaced by the field of that name in the error's data. */
  en: string;
  zh: string;
}

/**
 * Every error that the product answers with, once. Codes 0, 1000, 1003 and 2000 are given by the
 * platform document, section 7; the others are ours and grouped by hundreds.
 */
export const errorTable = {
  DIRECT_UPLOAD_FAILED: {
    status: 502,
    returnCode: 1000,
    retry: "later",
    en: "Cannot get a direct-upload URL: {reason}",
    zh: "获取直传地址失败：{reason}",
  },
  UNAUTHENTICATED: {
    status: 401,
    returnCode: 1001,
    retry: "never",
    en: "Sign in first: {reason}",
    zh: "请先登录：{reason}",
  },
  LOGIN_REJECTED: {
    status: 401,
    returnCode: 1010,
    retry: "never",
    en: "User name or password is wrong",
    zh: "用户名或密码错误",
  },
  FORBIDDEN: {
    status: 403,
    returnCode: 1002,
    retry: "never",
    en: "Not permitted: {reason}",
    zh: "没有权限：{reason}",
  },
  INVALID_INPUT: {
    status: 400,
    returnCode: 1003,
    retry: "never",
    en: "Invalid parameters: {reason}",
    zh: "参数错误：{reason}",
  },
  NOT_FOUND: {
    status: 404,
    returnCode: 1004,
    retry: "never",
    en: "{what} not found",
    zh: "找不到{what}",
  },
  ROUTE_NOT_FOUND: {
    status: 404,
    returnCode: 1004,
    retry: "never",
    en: "No such route: {method} {path}",
    zh: "接口不存在：{method} {path}",
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    returnCode: 1005,
    retry: "never",
    en: "{method} is not allowed on {path}; allowed: {allowed}",
    zh: "{path} 不支持 {method}，可用：{allowed}",
  },
  CONFLICT: {
    status: 409,
    returnCode: 1006,
    retry: "never",
    en: "Conflict: {reason}",
    zh: "冲突：{reason}",
  },
  VERSION_CONFLICT: {
    status: 409,
    returnCode: 1006,
    retry: "never",
    en: "{what} was changed by somebody else (version {actual}, expected {expected}); read it again",
    zh: "{what}已被他人修改（当前版本 {actual}，提交版本 {expected}），请重新读取",
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    returnCode: 1007,
    retry: "never",
    en: "Too large: at most {limit}",
    zh: "内容过大：最多 {limit}",
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    returnCode: 1008,
    retry: "never",
    en: "Content type {type} is not supported here; use {allowed}",
    zh: "不支持的内容类型 {type}，请使用 {allowed}",
  },
  RATE_LIMITED: {
    status: 429,
    returnCode: 1009,
    retry: "later",
    en: "Too many requests; try again in {seconds} s",
    zh: "请求过于频繁，请在 {seconds} 秒后重试",
  },
  INTERNAL: {
    status: 500,
    returnCode: 1500,
    retry: "later",
    en: "Internal error (reference {reference})",
    zh: "系统内部错误（编号 {reference}）",
  },
  UNAVAILABLE: {
    status: 503,
    returnCode: 1503,
    retry: "later",
    en: "Not available now: {reason}",
    zh: "暂不可用：{reason}",
  },
  NOT_CONFIGURED: {
    status: 503,
    returnCode: 1504,
    retry: "never",
    en: "{what} is not set up here: {fix}",
    zh: "{what}未配置：{fix}",
  },
  TIMEOUT: {
    status: 504,
    returnCode: 1505,
    retry: "later",
    en: "No answer within {seconds} s: {what}",
    zh: "{what}在 {seconds} 秒内没有响应",
  },

  STORAGE_FAILED: {
    status: 502,
    returnCode: 2000,
    retry: "later",
    en: "Storage operation failed: {reason}",
    zh: "存储操作失败：{reason}",
  },
  OBJECT_NOT_FOUND: {
    status: 404,
    returnCode: 2001,
    retry: "never",
    en: "No object {bucket}/{key}",
    zh: "对象不存在：{bucket}/{key}",
  },
  LINK_REJECTED: {
    status: 403,
    returnCode: 2006,
    retry: "never",
    en: "The link is not valid: {reason}",
    zh: "链接无效：{reason}",
  },
  UPLOAD_REJECTED: {
    status: 403,
    returnCode: 2002,
    retry: "never",
    en: "Upload rejected: {reason}",
    zh: "上传被拒绝：{reason}",
  },
  BUCKET_NOT_FOUND: {
    status: 404,
    returnCode: 2000,
    retry: "never",
    en: "No bucket {bucket}; storing an object or a folder in it makes it where the store is embedded",
    zh: "存储空间不存在：{bucket}（内置存储会在首次写入时自动创建）",
  },
  OBJECT_CHANGED: {
    status: 412,
    returnCode: 2005,
    retry: "later",
    en: "Object {bucket}/{key} has been replaced meanwhile",
    zh: "对象已被替换：{bucket}/{key}",
  },
  RANGE_NOT_SATISFIABLE: {
    status: 416,
    returnCode: 2003,
    retry: "never",
    en: "Range not satisfiable; the object has {size} bytes",
    zh: "请求范围无效，对象大小为 {size} 字节",
  },
  DISK_FULL: {
    status: 507,
    returnCode: 2004,
    retry: "later",
    en: "No space left on {where}",
    zh: "{where}磁盘空间不足",
  },

  JOB_NOT_FOUND: {
    status: 404,
    returnCode: 3000,
    retry: "never",
    en: "No job {id}",
    zh: "任务不存在：{id}",
  },
  JOB_ENDED: {
    status: 409,
    returnCode: 3001,
    retry: "never",
    en: "Job {id} has already ended as {state}",
    zh: "任务 {id} 已结束（{state}）",
  },
  JOB_FENCED: {
    status: 409,
    returnCode: 3002,
    retry: "never",
    en: "Attempt {attempt} of job {id} was superseded; delete its output and report no more",
    zh: "任务 {id} 的第 {attempt} 次执行已被取代",
  },
  JOB_KIND_UNKNOWN: {
    status: 400,
    returnCode: 3003,
    retry: "never",
    en: "No such job kind: {kind}; known: {known}",
    zh: "未知任务类型：{kind}，可用：{known}",
  },
  JOB_TIMEOUT: {
    status: 504,
    returnCode: 3004,
    retry: "later",
    en: "The job ran longer than {seconds} s",
    zh: "任务执行超过 {seconds} 秒",
  },
  JOB_STALLED: {
    status: 504,
    returnCode: 3005,
    retry: "later",
    en: "The job made no progress for {seconds} s",
    zh: "任务在 {seconds} 秒内没有进展",
  },
  JOB_PARKED: {
    status: 500,
    returnCode: 3006,
    retry: "never",
    en: "Parked: {nodes} nodes were lost while they ran this job",
    zh: "已搁置：执行该任务时有 {nodes} 个节点失联",
  },
  JOB_CANCELLED: {
    status: 409,
    returnCode: 3007,
    retry: "never",
    en: "The job was cancelled",
    zh: "任务已取消",
  },
  QUEUE_FULL: {
    status: 429,
    returnCode: 3008,
    retry: "later",
    en: "The queue is full: {limit} jobs wait already",
    zh: "队列已满：已有 {limit} 个任务等待",
  },
  IDEMPOTENCY_MISMATCH: {
    status: 409,
    returnCode: 3009,
    retry: "never",
    en: "Idempotency key {key} was used before with another request",
    zh: "幂等键 {key} 已用于另一个不同的请求",
  },

  NOT_LEADER: {
    status: 503,
    returnCode: 3010,
    retry: "later",
    en: "This scheduler does not lead; nothing was done",
    zh: "本调度节点不是主节点，未执行任何操作",
  },

  TIMELINE_INVALID: {
    status: 400,
    returnCode: 4000,
    retry: "never",
    en: "Invalid timeline: {reason}",
    zh: "时间线无效：{reason}",
  },
  MEDIA_UNREADABLE: {
    status: 422,
    returnCode: 4001,
    retry: "never",
    en: "{clip}: cannot be read as {expected}: {reason}",
    zh: "{clip}：无法作为{expected}读取：{reason}",
  },
  MEDIA_FETCH_FAILED: {
    status: 422,
    returnCode: 4002,
    retry: "later",
    en: "{clip}: cannot fetch the media: {reason}",
    zh: "{clip}：素材下载失败：{reason}",
  },
  ADDRESS_FORBIDDEN: {
    status: 422,
    returnCode: 4003,
    retry: "never",
    en: "The address {host} may not be fetched: {reason}",
    zh: "禁止访问地址 {host}：{reason}",
  },
  RENDER_FAILED: {
    status: 500,
    returnCode: 4004,
    retry: "later",
    en: "FFmpeg failed: {reason}",
    zh: "FFmpeg 执行失败：{reason}",
  },
  RENDER_INEXACT: {
    status: 500,
    returnCode: 4005,
    retry: "later",
    en: "The result did not pass its check: {reason}",
    zh: "渲染结果校验未通过：{reason}",
  },
  FFMPEG_MISSING: {
    status: 503,
    returnCode: 4006,
    retry: "never",
    en: "No usable FFmpeg: {reason}",
    zh: "没有可用的 FFmpeg：{reason}",
  },
  VOICE_MISSING: {
    status: 503,
    returnCode: 4007,
    retry: "never",
    en: "No speech voice is installed: {fix}",
    zh: "未安装语音合成：{fix}",
  },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorType = keyof typeof errorTable;
export type ErrorData = Record<string, unknown>;
export type Language = "zh" | "en";

export const isErrorType = (type: unknown): type is ErrorType =>
  typeof type === "string" && Object.hasOwn(errorTable, type);

/** The message of an error in one language, its placeholders filled from `data`. */
export function errorMessage(
  type: ErrorType,
  data: ErrorData = {},
  language: Language = "en",
): string {
  return errorTable[type][language].replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = inLanguage(data[name], language);
    return value === undefined ? "?" : Array.isArray(value) ? value.join(", ") : String(value);
  });
}

/** A text that knows both languages; may stand in an error's data wherever a string may. */
export type LocalText = { en: string; zh: string };

const inLanguage = (value: unknown, language: Language): unknown => {
  const local = value as LocalText | null;
  return typeof local === "object" && typeof local?.en === "string" && typeof local.zh === "string"
    ? local[language]
    : value;
};

/** An error's data as a client sees it: each local text in the client's language. */
export const localData = (data: ErrorData, language: Language): ErrorData =>
  Object.fromEntries(
    Object.entries(data).map(([name, value]) => [name, inLanguage(value, language)]),
  );

/**
 * The one error class of the product. Callers test `type`, never the class or the text: an error
 * that crossed the wire arrives as a plain object with the same `type`, `code` and `data`.
 */
export class AppError extends Errors.MoleculerError {
  declare readonly type: ErrorType;
  declare readonly data: ErrorData;
  /** Read by Moleculer's own retry middleware. */
  override readonly retryable: boolean;

  constructor(type: ErrorType, data: ErrorData = {}, cause?: unknown) {
    const entry = errorTable[type];
    super(errorMessage(type, data), entry.status, type, data);
    this.name = "AppError";
    this.retryable = entry.retry === "later";
    if (cause !== undefined) this.cause = cause;
  }
}

/** What any thrown thing is in terms of the table; `undefined` when it is none of ours. */
export function asAppError(error: unknown): { type: ErrorType; data: ErrorData } | undefined {
  const candidate = error as { type?: unknown; data?: unknown } | null | undefined;
  if (!candidate || !isErrorType(candidate.type)) return undefined;
  return { type: candidate.type, data: (candidate.data ?? {}) as ErrorData };
}
