import { readFileSync } from "node:fs";
import { credsAuthenticator } from "nats";
import { type Config, ConfigError } from "./config.ts";

/** What Moleculer's NATS transporter hands to the client library. */
export interface NatsOptions {
  servers: string[];
  user?: string;
  pass?: string;
  token?: string;
  authenticator?: ReturnType<typeof credsAuthenticator>;
  tls?: { ca?: string; cert?: string; key?: string };
  /** Pause between two tries to reach a server again. */
  reconnectTimeWait: number;
  pingInterval: number;
  maxPingOut: number;
  name: string;
}

/** A server that is back is noticed within this time; the library's two seconds would be felt by every caller. */
const RECONNECT_MS = 250;

/**
 * A line that is cut without a word is given up after this often two pings. The library's two minutes are longer than a
 * node's lease: the node would stay alone after the cut has healed.
 */
const PING_MS = 4_000;

type Setting =
  | "TRANSPORTER"
  | "NATS_USER"
  | "NATS_PASSWORD"
  | "NATS_TOKEN"
  | "NATS_CREDS_FILE"
  | "NATS_CA_FILE"
  | "NATS_CERT_FILE"
  | "NATS_KEY_FILE";

function textOf(config: Pick<Config, Setting>, name: Setting): string | undefined {
  const path = config[name];
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new ConfigError(`${name}: ${path} cannot be read (${(error as Error).message})`);
  }
}

/**
 * Options for NATS from the settings; several servers are separated by commas. `tls://` or any NATS_*_FILE of TLS asks
 * for TLS. User and password may also stand in the address.
 * @throws ConfigError for a file that cannot be read, or credentials that exclude each other.
 */
export function natsOptions(config: Pick<Config, Setting>, name: string): NatsOptions {
  const urls = (config.TRANSPORTER ?? "")
    .split(",")
    .map((part) => part.trim())
    .map((part) => new URL(part.includes("://") ? part : `nats://${part}`));
  const creds = textOf(config, "NATS_CREDS_FILE");
  const ways = [config.NATS_USER, config.NATS_TOKEN, creds].filter((way) => way !== undefined);
  if (ways.length > 1)
    throw new ConfigError(
      "NATS_USER, NATS_TOKEN, NATS_CREDS_FILE: more than one is set. Choose one way to sign in at NATS",
    );
  const [ca, cert, key] = [
    textOf(config, "NATS_CA_FILE"),
    textOf(config, "NATS_CERT_FILE"),
    textOf(config, "NATS_KEY_FILE"),
  ];
  if ((cert === undefined) !== (key === undefined))
    throw new ConfigError(
      `${cert === undefined ? "NATS_CERT_FILE" : "NATS_KEY_FILE"}: missing. Certificate and key belong together; set both or neither`,
    );
  const wantsTls =
    urls.some(({ protocol }) => protocol === "tls:") || ca !== undefined || cert !== undefined;
  const [first] = urls;
  const inUrl = (text: string | undefined) => (text ? decodeURIComponent(text) : undefined);
  return {
    servers: urls.map(({ host }) => host),
    user: config.NATS_USER ?? inUrl(first?.username),
    pass: config.NATS_PASSWORD ?? inUrl(first?.password),
    token: config.NATS_TOKEN,
    authenticator:
      creds === undefined ? undefined : credsAuthenticator(new TextEncoder().encode(creds)),
    tls: wantsTls ? { ca, cert, key } : undefined,
    reconnectTimeWait: RECONNECT_MS,
    pingInterval: PING_MS,
    maxPingOut: 2,
    name,
  };
}
