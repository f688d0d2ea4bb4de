import { z } from "zod";

const ms = (min: number, max: number, value: number) => z.int().min(min).max(max).default(value);

/**
 * Every limit of the scheduler, once. Times are milliseconds. Lease, heartbeat and the number of lost nodes
 * are given by the design, section 4.
 */
export const SchedulerConfig = z.strictObject({
  /** A node that is not renewed for this long kills its own work; the job goes to another. */
  leaseMs: ms(1_000, 600_000, 20_000),
  /** How often nodes report. */
  heartbeatMs: ms(100, 60_000, 5_000),
  /** Least time between two sweeps of leases and time limits: how late an expiry may be noticed. */
  sweepMs: ms(10, 10_000, 500),
  /** A node whose last report is older gets no new work. */
  nodeFreshMs: ms(1_000, 600_000, 15_000),
  /** A node whose last report is older is forgotten. */
  nodeForgetMs: ms(10_000, 86_400_000, 600_000),
  /** Waiting lifts a job by one point of priority each time this much has passed. */
  agePointMs: ms(100, 3_600_000, 10_000),
  /** Standbys take over from a leader that has not renewed for this long; renewals and looks follow from it. */
  leaderLeaseMs: ms(1_000, 60_000, 6_000),
  /** Callers who find no leader wait for one at most this long. */
  failoverWaitMs: ms(0, 120_000, 10_000),
  /** Calls that are under way when a term ends have this long to end. */
  termEndMs: ms(10, 10_000, 1_000),
  /** How often the leader looks for jobs that an earlier one has stored after the take-over. */
  straysMs: ms(100, 60_000, 5_000),
  /** A write that got no answer may still come through within this time. */
  lateWriteMs: ms(1_000, 600_000, 30_000),
  /** Longest delay between two attempts. */
  backoffMsMax: ms(1_000, 86_400_000, 600_000),
  /** Jobs that may wait; one more is refused with QUEUE_FULL. */
  pendingMax: z.int().min(1).max(1_000_000).default(100_000),
  /** A job that was running on this many lost nodes is parked. */
  nodesLostMax: z.int().min(1).max(100).default(3),
  /** Messages that may wait for one job. */
  mailboxMax: z.int().min(1).max(10_000).default(64),
  /** Compare-and-set is tried this often before the caller is told to come back. */
  writeTriesMax: z.int().min(1).max(20).default(5),
  /** Callbacks under way at the same time. */
  deliveriesMax: z.int().min(1).max(1_000).default(16),
  deliveryBackoffMs: ms(10, 60_000, 1_000),
  deliveryBackoffMsMax: ms(1_000, 3_600_000, 300_000),
  /** Old runs of a node's process that are remembered, so that a late report of one is not taken for news. */
  retiredBootsMax: z.int().min(1).max(100).default(8),
  /** Answer time of a node to begin, halt and probe. */
  nodeCallMs: ms(100, 60_000, 5_000),
  /** Answer time of a callback's action. */
  deliveryCallMs: ms(100, 600_000, 60_000),
  /** Nodes that were passed over and are named in a placement's log line. */
  rejectedShownMax: z.int().min(0).max(100).default(5),
});
export type SchedulerConfig = z.output<typeof SchedulerConfig>;

export const schedulerConfig: SchedulerConfig = SchedulerConfig.parse({});

/** Lines of one job's log: the newest this many are kept whole, and older warnings and errors up to twice as many. */
export const logLinesMax = 2_000;

/** Limits of the links to bridges outside the mesh. */
export const BridgeLimits = z.strictObject({
  /** Longest wait of a bridge that has work for something to tell; how late a stage may be noticed. */
  busyMs: ms(100, 5_000, 1_000),
  /** The same for one that has none; within `nodeFreshMs`, or it gets no work. */
  idleMs: ms(100, 10_000, 5_000),
  /** Pause between two looks at a bridge that has work. */
  betweenMs: ms(1, 1_000, 20),
  /** First and longest pause after a look that failed. */
  retryMsMin: ms(10, 10_000, 500),
  retryMsMax: ms(100, 60_000, 5_000),
  /** Answer time of a bridge; two of them must fit between two renewals of a lease. */
  callMs: ms(100, 10_000, 2_500),
  /** Time for an order, which may carry a long task. */
  orderMs: ms(100, 60_000, 5_000),
  /** Largest answer that is read, in bytes. */
  answerBytesMax: z.int().min(10_000).max(100_000_000).default(8_388_608),
  /** Links to inputs last this many seconds. */
  inputLinkSeconds: z.int().min(60).max(604_800).default(14_400),
  /** Links that are asked of the storage at the same time. */
  linksAtOnce: z.int().min(1).max(100).default(8),
});
export type BridgeLimits = z.output<typeof BridgeLimits>;
export const bridgeLimits: BridgeLimits = BridgeLimits.parse({});

/** Limits of the job store in MongoDB. */
export const MongoJobLimits = z.strictObject({
  /** Writes of one kind that go to the server together. */
  groupMax: z.int().min(1).max(10_000).default(500),
  /** Groups of one kind under way at the same time. */
  groupsUnderWayMax: z.int().min(1).max(16).default(2),
  /** Long specifications that go together. */
  specGroupMax: z.int().min(1).max(1_000).default(50),
  /** Characters of a specification or of what changes; a document of the database holds 16 MiB. */
  jobCharsMax: z.int().min(1_000).max(4_000_000).default(4_000_000),
  /** A specification with more characters is kept apart from what changes. */
  specInlineChars: z.int().min(0).max(1_000_000).default(4_096),
  /** Lines of the scheduler in a job's document; when there are as many, they are moved to the log. */
  linesInJobMax: z.int().min(2).max(1_000).default(32),
  /** Old lines are removed each time that so many have come. */
  trimEachLines: z.int().min(1).max(10_000).default(500),
  /** Appends that may wait for one job. */
  appendsWaitingMax: z.int().min(1).max(100_000).default(1_000),
  /** A list looks at this many places first. */
  rangeMin: z.int().min(1).max(100_000).default(200),
  /** Jobs that are read from the server at a time. */
  readMax: z.int().min(1).max(10_000).default(500),
  /** The sums of ended jobs are moved on after so many writes. */
  tallyEach: z.int().min(1).max(100_000).default(1_000),
  /** After a take-over they are counted anew when this has passed. */
  tallyRecountMs: ms(0, 3_600_000, 60_000),
  /** A write without an answer may still come through for this long. */
  unsureMs: ms(0, 3_600_000, 120_000),
  /** How often a leader to be renews while it fences its predecessor off. */
  fenceRenewMs: ms(10, 60_000, 1_000),
});
export type MongoJobLimits = z.output<typeof MongoJobLimits>;
export const mongoJobLimits: MongoJobLimits = MongoJobLimits.parse({});
