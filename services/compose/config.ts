import { z } from "zod";

const ms = (min: number, max: number, value: number) => z.int().min(min).max(max).default(value);

/** Every limit of a compose node's runtime, once. Heartbeat and lease: design, section 4, rule 4. */
export const NodeLimits = z.strictObject({
  heartbeatMs: ms(100, 60_000, 5_000),
  /** An attempt that was not renewed for this long is killed by its node. */
  leaseMsMax: ms(1_000, 600_000, 20_000),
  /** Progress is reported between heartbeats at most this often. */
  progressMs: ms(50, 60_000, 1_000),
  /** First and longest pause between two tries to reach the scheduler or the storage. */
  retryMsMin: ms(10, 10_000, 200),
  retryMsMax: ms(100, 60_000, 5_000),
  /** Output of a lost attempt: tries to delete it before it is left to the operator. */
  discardTriesMax: z.int().min(1).max(1_000).default(8),
  /** Attempts whose end is not yet known to the scheduler; a node with more takes no new ones. */
  unsettledMax: z.int().min(1).max(10_000).default(256),
  /** Ended attempts that are remembered, so that a late duplicate of an order starts nothing. */
  rememberedMax: z.int().min(100).max(1_000_000).default(10_000),
});
export type NodeLimits = z.output<typeof NodeLimits>;
export const nodeLimits: NodeLimits = NodeLimits.parse({});

/** Limits of executions. */
export const ExecutionLimits = z.strictObject({
  /** Time between asking a process group to end and forcing it. */
  killGraceMs: ms(0, 60_000, 2_000),
  /** An executor that has not returned this long after its abort is given up; its processes are gone by then. */
  abortMsMax: ms(1_000, 120_000, 10_000),
  stderrTailChars: z.int().min(100).max(100_000).default(8_000),
  lineCharsMax: z.int().min(100).max(1_000_000).default(64_000),
  logFlushMs: ms(10, 10_000, 500),
  /** Log lines that wait for the scheduler; more are dropped and counted. */
  logLinesMax: z.int().min(10).max(10_000).default(1_000),
  /** Lines of one call and characters of one line: bounds of the action `scheduler.addLog`. */
  logBatchMax: z.int().min(1).max(200).default(200),
  logLineCharsMax: z.int().min(80).max(4_000).default(4_000),
  /** Answer time of the scheduler; shorter than a heartbeat, so that one lost answer costs one beat. */
  callMs: ms(100, 60_000, 4_000),
  /** An attempt waits so long for the object storage without a byte moving; it may come up after its node. */
  storageWaitMs: ms(0, 600_000, 60_000),
  /** And for so many tries: one of a large output may take longer than that. */
  transferTriesMin: z.int().min(1).max(100).default(3),
  /** First and longest pause between two tries of a transfer. */
  transferPauseMsMin: ms(1, 10_000, 50),
  transferPauseMsMax: ms(1, 60_000, 5_000),
  /** Validity of the link of one try; it has to be begun in that time, not to be ended. */
  linkSeconds: z.int().min(1).max(86_400).default(900),
  connectMs: ms(1, 60_000, 10_000),
  /** Longest silence of a server that sends or takes an object. */
  silenceMs: ms(1, 600_000, 30_000),
  /** An upload that was sent whole when its attempt ended is given so long for its answer. */
  settleMs: ms(0, 60_000, 5_000),
  /** Time for running work to be stopped and handed back when the node stops. */
  stopMsMax: ms(1_000, 60_000, 8_000),
  /** Time after that for the scheduler's answer. */
  handBackMsMax: ms(0, 60_000, 1_000),
  /** Load values are not measured more often than this; GPU values cost a process and are rarer. */
  loadMs: ms(100, 600_000, 4_000),
  gpuMs: ms(1_000, 600_000, 15_000),
  journalLinesMax: z.int().min(100).max(1_000_000).default(5_000),
});
export type ExecutionLimits = z.output<typeof ExecutionLimits>;
export const executionLimits: ExecutionLimits = ExecutionLimits.parse({});

/** Limits of a bridge outside the mesh. */
export const StandaloneLimits = z.strictObject({
  /** How often the node inside looks at the leases that the scheduler's polls have renewed. */
  leaseLookMs: ms(100, 5_000, 1_000),
  /** A renewal that was longer on its way than this is not believed: its answer may have been overtaken. */
  renewalMsMax: ms(1_000, 60_000, 5_000),
  /** Longest time that a scheduler may wait for the next question with one request. */
  statusWaitMsMax: ms(0, 30_000, 5_000),
  /** Questions to the scheduler that may be open; more are refused. */
  questionsMax: z.int().min(10).max(10_000).default(2_000),
  /** Objects that one task may name. */
  inputsMax: z.int().min(1).max(10_000).default(4_000),
  slotsMax: z.int().min(1).max(1_024).default(64),
  /** Time for the scheduler to hear of a stop in good order. */
  handBackMsMax: ms(0, 60_000, 8_000),
  /** Jobs of the plain bridge that may wait. */
  plainPendingMax: z.int().min(1).max(100_000).default(1_000),
});
export type StandaloneLimits = z.output<typeof StandaloneLimits>;
export const standaloneLimits: StandaloneLimits = StandaloneLimits.parse({});
