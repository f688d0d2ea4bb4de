import { healthLimits } from "./config.ts";
import {
  type DependencyLine,
  type Finding,
  type Health,
  type ReadinessReport,
  statusOf,
} from "./readiness.policy.ts";

type Look = Pick<Finding, "state" | "reason">;

/** A look that takes longer than its bound counts as down; what it finds later is not waited for. */
export async function bounded<T extends Look>(look: Promise<T> | T): Promise<T | Look> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Look>((resolve) => {
    const reason = `no answer within ${healthLimits.checkMs} ms`;
    timer = setTimeout(() => resolve({ state: "down", reason }), healthLimits.checkMs + 100);
  });
  const failed = (): Look => ({ state: "down", reason: "the check failed" });
  const found = await Promise.race([Promise.resolve(look).catch(failed), late]);
  clearTimeout(timer);
  return found;
}

/** Reports of one node: one look serves all who ask within a while, and since when a state lasts is kept. */
export class ReportKeeper {
  readonly #node: string;
  readonly #roles: readonly string[];
  readonly #look: () => Promise<readonly Finding[]>;
  readonly #states = new Map<string, { state: Health; since: number }>();
  #last: { at: number; report: Promise<ReadinessReport> } | undefined;

  constructor(node: string, roles: readonly string[], look: () => Promise<readonly Finding[]>) {
    this.#node = node;
    this.#roles = roles;
    this.#look = look;
  }

  read(): Promise<ReadinessReport> {
    const now = performance.now();
    if (!this.#last || now - this.#last.at > healthLimits.cacheMs)
      this.#last = { at: now, report: this.#report() };
    return this.#last.report;
  }

  async #report(): Promise<ReadinessReport> {
    const findings = await this.#look();
    return {
      status: statusOf(findings),
      node: this.#node,
      roles: this.#roles,
      dependencies: findings.map((finding) => this.#lineOf(finding)),
    };
  }

  #lineOf({ since, affects, ...finding }: Finding): DependencyLine {
    const before = this.#states.get(finding.name);
    if (before?.state !== finding.state)
      this.#states.set(finding.name, { state: finding.state, since: since ?? Date.now() });
    const at = since ?? this.#states.get(finding.name)?.since ?? Date.now();
    const isOk = finding.state === "ok";
    return { ...finding, since: new Date(at).toISOString(), ...(isOk ? {} : { affects }) };
  }
}
