import { createRequire } from "node:module";
import { Loggers } from "moleculer";
import type { Logger as Pino } from "pino";
import { redactText, redactValue } from "./redact.policy.ts";
import { currentWork } from "./work-scope.ts";

type Level = "fatal" | "error" | "warn" | "info" | "debug" | "trace";

interface Bindings {
  mod?: string;
  svc?: string;
  nodeID?: string;
}

export interface JsonLogOptions {
  level: Level;
  /** Values that must not appear, whatever they stand in. */
  secrets: readonly string[];
  /** Where lines go; default: standard output. */
  write?: (line: string) => void;
}

const require = createRequire(import.meta.url);

/**
 * One JSON object a line: time, level, node, service, msg, and the job, attempt, trace and request that the line is
 * about, where that is known. Written at once, not buffered: the last lines before a crash are the ones that matter.
 */
export class JsonLogger extends Loggers.Base<{ level?: Level }> {
  readonly #pino: Pino;
  readonly #secrets: readonly string[];

  constructor({ level, secrets, write }: JsonLogOptions) {
    super({ level });
    this.#secrets = secrets;
    // Loaded only where it is asked for; the logger is made before anything can be waited for.
    const { pino } = require("pino") as typeof import("pino");
    const options = {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label: string) => ({ level: label }) },
      mixin: () => ({ ...shownOf(currentWork()) }),
    };
    this.#pino = write ? pino(options, { write }) : pino(options, pino.destination({ fd: 1 }));
  }

  override getLogHandler(bindings: Bindings | null | undefined) {
    const { nodeID: node, svc, mod } = bindings ?? {};
    const child = this.#pino.child({ node, service: svc ?? mod?.toLowerCase() });
    return (level: Level, args: unknown[]) => {
      if (!child.isLevelEnabled(level)) return;
      const { fields, text } = this.#split(args);
      child[level](fields, text);
    };
  }

  /** Moleculer's loggers take any list of values: the texts make the message, an error and the rest are fields. */
  #split(args: readonly unknown[]): { fields: Record<string, unknown>; text: string } {
    const fields: Record<string, unknown> = {};
    const texts: string[] = [];
    const more: unknown[] = [];
    for (const arg of args) {
      if (arg instanceof Error && fields["err"] === undefined)
        fields["err"] = redactValue(arg, this.#secrets);
      else if (typeof arg === "object" && arg !== null) more.push(redactValue(arg, this.#secrets));
      else if (arg !== undefined) texts.push(String(arg));
    }
    if (more.length > 0) fields["data"] = more.length === 1 ? more[0] : more;
    const text = texts.length > 0 ? texts.join(" ") : ((fields["err"] as Error)?.message ?? "");
    return { fields, text: redactText(text, this.#secrets) };
  }
}

function shownOf(work: ReturnType<typeof currentWork>) {
  const { jobId, attempt, traceId, requestId } = work ?? {};
  return { jobId, attempt, traceId, requestId };
}
