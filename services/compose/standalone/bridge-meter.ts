import { Counter } from "prom-client";
import type { Config } from "../../../lib/config.ts";
import { telemetryOf } from "../../../lib/telemetry/node-telemetry.ts";
import type { StopCause } from "../held-attempt.ts";

type AttemptEnd = "success" | "failed" | StopCause;

/** What a bridge holds at the moment. */
interface BridgeUse {
  /** Slots by who takes them. */
  slots: { total: number; scheduler: number; plain: number };
  /** Questions that wait for the scheduler's answer. */
  questions: number;
  /** Since the scheduler's last look; absent: none has looked in this run. */
  lastPollMs?: number;
}

/** Numbers of a bridge outside the mesh. Nothing is kept with METRICS=off. */
export class BridgeMeter {
  readonly #attempts: Counter<"outcome"> | undefined;
  readonly #fenced: Counter | undefined;

  constructor(config: Config, read: () => BridgeUse) {
    const { metrics } = telemetryOf(config);
    if (!metrics) return;
    const registers = [metrics.registry];
    this.#attempts = new Counter({
      name: "reelmesh_bridge_attempts_total",
      help: "Attempts whose work ended here; lease: its renewal did not come in time",
      labelNames: ["outcome"],
      registers,
    });
    for (const outcome of ["success", "failed", "fenced", "lease", "drain"] as const)
      this.#attempts.inc({ outcome }, 0);
    this.#fenced = new Counter({
      name: "reelmesh_bridge_fenced_reports_total",
      help: "Ends of attempts that the scheduler refused, since another attempt holds the job",
      registers,
    });
    metrics.gauge("reelmesh_bridge_slots", "Slots of this bridge, by use", ["use"], (set) => {
      const { total, scheduler, plain } = read().slots;
      set({ use: "total" }, total);
      set({ use: "scheduler" }, scheduler);
      set({ use: "plain" }, plain);
    });
    metrics.gauge(
      "reelmesh_bridge_questions",
      "Questions that wait for the scheduler's answer",
      [],
      (set) => set({}, read().questions),
    );
    metrics.gauge(
      "reelmesh_bridge_last_poll_seconds",
      "Time since the scheduler looked last; no line: it has not looked yet",
      [],
      (set) => {
        const { lastPollMs } = read();
        if (lastPollMs !== undefined) set({}, lastPollMs / 1000);
      },
    );
  }

  attemptEnded(outcome: AttemptEnd): void {
    this.#attempts?.inc({ outcome });
  }

  reportFenced(): void {
    this.#fenced?.inc();
  }
}
