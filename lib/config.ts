import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { addresses, list, mongoUrl, networks, secret, url, whole } from "./config-values.ts";

/** Roles that a node may host, in the words of `SERVICES`; each names the services of one folder group. */
export const roles = ["gateway", "platform", "scheduler", "compose", "fleet", "publish"] as const;
export type Role = (typeof roles)[number];

interface Setting {
  schema: z.ZodType;
  about: string;
  secret?: boolean;
  /** A secret that is made up on the first start and kept in the data directory. */
  generated?: () => string;
}

const token = () => randomBytes(24).toString("base64url");
/** Every environment variable that the product reads, once. */
const settings = {
  HOST: {
    schema: z.string().min(1).default("127.0.0.1"),
    about: "Address that the gateway listens on",
  },
  PORT: {
    schema: whole(0, 65535).default(3000),
    about: "Port of the gateway; 0 picks a free one",
  },
  PUBLIC_URL: {
    schema: url(["http:", "https:"]).optional(),
    about:
      "Address under which clients reach the gateway, for links in answers; default http://HOST:PORT",
  },
  INTERNAL_URL: {
    schema: url(["http:", "https:"]).optional(),
    about:
      "Address under which the product's own nodes reach a gateway, for media on its way to and from compose nodes; default: PUBLIC_URL, else a gateway that the mesh knows",
  },
  DATA_DIR: {
    schema: z
      .string()
      .min(1)
      .default("data")
      .transform((path) => resolve(path)),
    about: "Directory for records, jobs, objects and generated secrets",
  },
  ADMIN_PASSWORD: {
    schema: secret,
    about: "Password of the first administrator, user name admin",
    secret: true,
    generated: token,
  },
  MCP_TOKEN: {
    schema: secret,
    about: "Bearer token of AI agents at /mcp",
    secret: true,
    generated: token,
  },
  BRIDGE_URL: {
    schema: url(["http:", "https:"]).optional(),
    about:
      "Composition bridge outside the mesh (npm run bridge), beside the compose nodes of the mesh; with its BRIDGE_TOKEN",
  },
  BRIDGE_TOKEN: {
    schema: secret,
    about: "Bearer token of the composition bridge",
    secret: true,
    generated: token,
  },
  MESH_KEY: {
    schema: secret,
    about: "Key that seals what local tools (the REPL) and the running product say to each other",
    secret: true,
    generated: token,
  },
  TRANSPORTER: {
    schema: addresses(["nats:", "tls:", "tcp:"]).optional(),
    about:
      "Messaging between nodes, nats://host:port, several separated by commas; default: none, one process",
  },
  NAMESPACE: {
    schema: z
      .string()
      .regex(/^[\w-]{1,32}$/, "must be 1 to 32 letters, digits, dashes")
      .default("reelmesh"),
    about: "Name of the mesh: nodes of different names do not see each other on the same NATS",
  },
  NATS_USER: { schema: z.string().min(1).optional(), about: "User at the NATS server" },
  NATS_PASSWORD: {
    schema: z.string().min(1).optional(),
    about: "Password at the NATS server",
    secret: true,
  },
  NATS_TOKEN: {
    schema: z.string().min(1).optional(),
    about: "Token at the NATS server, instead of user and password",
    secret: true,
  },
  NATS_CREDS_FILE: {
    schema: z.string().min(1).optional(),
    about: "File with NATS credentials (JWT and seed), instead of user and password",
  },
  NATS_CA_FILE: {
    schema: z.string().min(1).optional(),
    about: "Certificate authority of the NATS server; asks for TLS",
  },
  NATS_CERT_FILE: {
    schema: z.string().min(1).optional(),
    about: "Certificate of this client for NATS over TLS, with NATS_KEY_FILE",
  },
  NATS_KEY_FILE: {
    schema: z.string().min(1).optional(),
    about: "Key of NATS_CERT_FILE",
  },
  REDIS_URL: {
    schema: url(["redis:", "rediss:"]).optional(),
    about:
      "Cache, login tokens, limits and verification codes for all nodes; default: memory of each node",
  },
  MONGO_URL: {
    schema: mongoUrl.optional(),
    about:
      "Records and jobs, mongodb://host/database, database reelmesh unless named; default: SQLite in DATA_DIR",
  },
  S3_ENDPOINT: {
    schema: url(["http:", "https:"]).optional(),
    about: "Object storage; default: files in DATA_DIR",
  },
  S3_ADDRESSING: {
    schema: z.enum(["path", "virtual"]).default("path"),
    about: "Where the bucket's name stands in requests to S3_ENDPOINT: in the path or in the host",
  },
  S3_PUBLIC_ENDPOINT: {
    schema: url(["http:", "https:"]).optional(),
    about: "Address under which clients reach S3_ENDPOINT, for links; default: S3_ENDPOINT",
  },
  OSS_ACCESSKEY_ID: {
    schema: z.string().min(1).optional(),
    about: "Access key id of the object storage",
  },
  OSS_ACCESSKEY_SECRET: {
    schema: z.string().min(1).optional(),
    about: "Access key secret of the object storage",
    secret: true,
  },
  OSS_BUCKET_NAME: {
    schema: z
      .string()
      .regex(
        /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/,
        "must be a bucket name: 3 to 63 lower-case letters, digits, dashes",
      )
      .default("reelmesh"),
    about: "Bucket for the product's own objects",
  },
  OSS_REGION: {
    schema: z.string().min(1).default("cn-shenzhen"),
    about: "Region of the object storage",
  },
  OSS_DOMAIN: {
    schema: url(["http:", "https:"]).optional(),
    about: "Public address of the bucket, for media_url; default: signed links",
  },
  STORAGE_SECRET: {
    schema: secret,
    about: "Key that signs storage links and uploads; the same on all nodes of a cluster",
    secret: true,
    generated: token,
  },
  FFMPEG_PATH: {
    schema: z.string().min(1).optional(),
    about: "FFmpeg to use; default: the one on PATH, else the one that npm installed",
  },
  RENDER_SLOTS: {
    schema: whole(1, 64).default(1),
    about: "Jobs that a compose node runs at the same time",
  },
  FETCH_ALLOW: {
    schema: list.default([]),
    about:
      "Hosts or CIDR ranges in private networks that media may be fetched from, comma-separated",
  },
  TRUSTED_PROXIES: {
    schema: networks.prefault(""),
    about:
      "Addresses or CIDR ranges of proxies whose X-Forwarded-For is believed, comma-separated; default: none",
  },
  RATE_LIMIT_PER_MINUTE: {
    schema: whole(0, 10_000_000).default(6_000),
    about: "Requests that one client may send in a minute; 0 sets no limit",
  },
  HEALTH_PORT: {
    schema: whole(0, 65535).default(0),
    about:
      "Port on HOST for /healthz, /readyz and /metrics alone, for nodes without gateway; 0 opens none",
  },
  METRICS: {
    schema: z.enum(["on", "off"]).default("on"),
    about: "Whether /metrics answers and numbers are collected",
  },
  METRICS_TOKEN: {
    schema: secret.optional(),
    about: "Bearer token for /metrics; default: only this machine may read it",
    secret: true,
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    schema: url(["http:", "https:"]).optional(),
    about: "Where traces are sent (OTLP over HTTP); default: no tracing",
  },
  OTEL_TRACES_SAMPLER_ARG: {
    schema: z.coerce.number().min(0).max(1).default(1),
    about: "Share of requests that is traced, 0 to 1; at most 50 a second on each gateway",
  },
  LOG_FORMAT: {
    schema: z.enum(["text", "json"]).default("text"),
    about: "Logs for people or, one JSON object a line, for machines",
  },
  LOG_LEVEL: {
    schema: z.enum(["fatal", "error", "warn", "info", "debug", "trace"]).default("warn"),
    about: "Least severe log level that is written",
  },
  NODE_ID: {
    schema: z
      .string()
      .regex(/^[\w.-]{1,64}$/, "must be 1 to 64 letters, digits, dots, dashes")
      .optional(),
    about: "Name of this node in the mesh; default: host name and process id",
  },
  SERVICES: {
    schema: list
      .pipe(
        z
          .array(z.enum(roles, { error: `must be a comma-separated list of ${roles.join(", ")}` }))
          .min(1),
      )
      .prefault(roles.join(",")),
    about: "Roles that this node hosts, comma-separated",
  },
} satisfies Record<string, Setting>;

export type SettingName = keyof typeof settings;
export type Config = { readonly [N in SettingName]: z.output<(typeof settings)[N]["schema"]> };
export type Source =
  | "environment"
  | "default"
  | "generated"
  | "generated by the first start"
  | "not set";

export interface LoadedConfig {
  config: Config;
  sources: Record<SettingName, Source>;
  /** Secrets that this very call made up: nobody knows them yet. */
  fresh: readonly SettingName[];
}

/** A setting with a wrong value; the message names it and says what would be right. */
export class ConfigError extends Error {}

const secretsFile = (dataDir: string) => join(dataDir, "secrets.json");

function readSecrets(dataDir: string): Record<string, string> {
  const file = secretsFile(dataDir);
  if (!existsSync(file)) return {};
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new ConfigError(
      `${file} cannot be read (${(error as Error).message}); restore or delete it`,
    );
  }
}

function writeSecrets(dataDir: string, secrets: Record<string, string>): void {
  const temporary = `${secretsFile(dataDir)}.${process.pid}.tmp`;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    writeFileSync(temporary, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
    renameSync(temporary, secretsFile(dataDir));
  } catch (error) {
    throw new ConfigError(
      `DATA_DIR: ${dataDir} cannot be written (${(error as Error).message}). Set it to a directory of yours`,
    );
  }
}

/** Made up by each node for itself, these would differ from node to node. */
const agreedSecrets = ["ADMIN_PASSWORD", "MCP_TOKEN", "BRIDGE_TOKEN", "STORAGE_SECRET"] as const;

/** Settings that are wrong only beside each other. */
function checkTogether(values: Record<string, unknown>): void {
  if (values["MONGO_URL"] !== undefined && values["TRANSPORTER"] !== undefined)
    for (const name of agreedSecrets)
      if (values[name] === undefined && (values["SERVICES"] as Role[]).includes("platform"))
        throw new ConfigError(
          `${name}: missing. Nodes of one mesh that share MONGO_URL answer for each other: give all of them the same one.`,
        );
  const [id, secretKey] = [values["OSS_ACCESSKEY_ID"], values["OSS_ACCESSKEY_SECRET"]];
  if ((id === undefined) !== (secretKey === undefined))
    throw new ConfigError(
      `${id === undefined ? "OSS_ACCESSKEY_ID" : "OSS_ACCESSKEY_SECRET"}: missing. Key id and secret belong together; set both or neither.`,
    );
  if (values["BRIDGE_URL"] !== undefined && values["BRIDGE_TOKEN"] === undefined)
    throw new ConfigError(
      "BRIDGE_TOKEN: missing. BRIDGE_URL needs the token that the bridge there was started with.",
    );
  if (values["S3_ENDPOINT"] !== undefined && id === undefined)
    throw new ConfigError(
      "OSS_ACCESSKEY_ID: missing. S3_ENDPOINT needs OSS_ACCESSKEY_ID and OSS_ACCESSKEY_SECRET.",
    );
}

/**
 * Reads and checks all settings. Secrets that are not given are generated once and kept in the data
 * directory, so that a second start has the same ones.
 * @param generate false: look only; missing secrets stay undefined and nothing is written. A list: only these are
 * generated, for a process that has no use for the others.
 * @throws ConfigError naming the first wrong variable.
 */
export function loadConfig(
  env: Record<string, string | undefined> = process.env,
  { generate = true }: { generate?: boolean | readonly SettingName[] } = {},
): LoadedConfig {
  const values: Record<string, unknown> = {};
  const sources = {} as Record<SettingName, Source>;
  for (const [name, setting] of Object.entries(settings) as [SettingName, Setting][]) {
    const given = env[name] === "" ? undefined : env[name];
    if (given === undefined && setting.generated) continue;
    const parsed = setting.schema.safeParse(given);
    if (!parsed.success) {
      const shown = setting.secret ? "its value" : JSON.stringify(given && withoutPassword(given));
      throw new ConfigError(
        `${name}: ${shown} is not usable: ${parsed.error.issues[0]?.message}. ${setting.about}.`,
      );
    }
    values[name] = parsed.data;
    sources[name] =
      given !== undefined ? "environment" : parsed.data === undefined ? "not set" : "default";
  }
  checkTogether(values);
  const dataDir = values["DATA_DIR"] as string;
  const kept = readSecrets(dataDir);
  const fresh: SettingName[] = [];
  for (const [name, setting] of Object.entries(settings) as [SettingName, Setting][]) {
    if (!setting.generated || name in values) continue;
    if (!kept[name] && (generate === true || (generate !== false && generate.includes(name)))) {
      kept[name] = setting.generated();
      fresh.push(name);
    }
    values[name] = kept[name];
    sources[name] = kept[name] ? "generated" : "generated by the first start";
  }
  if (fresh.length > 0) writeSecrets(dataDir, kept);
  return { config: Object.freeze(values) as unknown as Config, sources, fresh };
}

/** The secrets that this node knows, passwords in URLs too: what must not appear where people read. */
export const secretsOf = (config: Config): string[] =>
  (Object.entries(settings) as [SettingName, Setting][]).flatMap(([name, setting]) => {
    const value = config[name];
    if (typeof value !== "string" || value === "") return [];
    if (setting.secret) return [value];
    return [...value.matchAll(/:\/\/[^:/?#@\s]*:([^/?#@\s]+)@/g)].map((match) => match[1]!);
  });

/** A URL without the password in it. */
const withoutPassword = (text: string): string =>
  text.replace(/(:\/\/[^:/?#@\s]*):[^/?#@\s]*@/g, "$1:…@");

/** One line per setting for people: what is in force and where it came from; secrets masked. */
export function describeConfig({ config, sources }: LoadedConfig) {
  return (Object.entries(settings) as [SettingName, Setting][]).map(([name, setting]) => {
    const value = config[name];
    const shown = value === undefined ? "" : Array.isArray(value) ? value.join(",") : String(value);
    return {
      name,
      value: setting.secret && shown ? `${shown.slice(0, 3)}…` : withoutPassword(shown),
      source: sources[name],
      about: setting.about,
    };
  });
}
