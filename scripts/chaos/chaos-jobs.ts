import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Random } from "../../test/simulation/random.ts";
import type { ProductClient } from "./product-client.ts";

export interface AcceptedJob {
  id: string;
  kind: "noop" | "timeline";
  /** From the first sending until the acceptance was heard. */
  acceptMs: number;
}

export interface SubmitTally {
  accepted: AcceptedJob[];
  /** Keys that got two different jobs: an acceptance that was done twice. */
  doubled: string[];
  /** Requests that were never answered with an acceptance. */
  refused: string[];
  /** Sendings of a key that had an answer already. */
  repeats: number;
}

const PICTURE = fileURLToPath(new URL("../../samples/coffee.jpg", import.meta.url));
const BUCKET = "reelmesh";
const OBJECT_KEY = "chaos/coffee.jpg";
/** One of so many jobs is a real render; the others wait and store a small object. */
const RENDER_SHARE = 0.05;
const REPEAT_SHARE = 0.15;
const OBJECT_SHARE = 0.5;
const NOOP_MS_MAX = 1_500;

/** A second of a still picture, as small as a render can be. */
const render = {
  output: { width: 160, height: 284, fps: 10 },
  timeline: {
    tracks: [{ type: "video", clips: [{ src: `oss://${BUCKET}/${OBJECT_KEY}`, duration: 1 }] }],
  },
};

export async function uploadSource(agent: ProductClient): Promise<void> {
  const form = new FormData();
  form.set("bucket", BUCKET);
  form.set("object_key", OBJECT_KEY);
  form.set("file", new Blob([await readFile(PICTURE)], { type: "image/jpeg" }), "coffee.jpg");
  await agent.send("POST", "/common/cloudvendor-oss/upload-file", form);
}

/** What is asked for under one idempotency key; asking twice asks for the same. */
function requestOf(random: Random, key: string): { kind: AcceptedJob["kind"]; body: object } {
  if (random.chance(RENDER_SHARE)) {
    const body = {
      name: "compose_timeline_ffmpeg",
      arguments: { ...render, idempotency_key: key },
    };
    return { kind: "timeline", body };
  }
  const output = random.chance(OBJECT_SHARE) ? { output: `written for ${key}` } : {};
  const payload = { ms: random.int(20, NOOP_MS_MAX), ...output };
  return {
    kind: "noop",
    body: { kind: "noop", payload, idempotencyKey: key, attemptsMax: 20, backoffMs: 500 },
  };
}

/** Submits jobs at an even pace over the time given, some of them twice at once or again later. */
export async function submitJobs(options: {
  admin: ProductClient;
  agent: ProductClient;
  random: Random;
  run: string;
  jobs: number;
  overMs: number;
  heard: (tally: SubmitTally) => void;
}): Promise<SubmitTally> {
  const { admin, agent, random, run, jobs, overMs } = options;
  const tally: SubmitTally = { accepted: [], doubled: [], refused: [], repeats: 0 };
  const submit = async (kind: AcceptedJob["kind"], body: object): Promise<string> => {
    if (kind === "timeline") {
      const answer = await agent.send("POST", "/mcp/tools/call", body);
      if (answer.isError) throw new Error(JSON.stringify(answer.content).slice(0, 300));
      return answer.job_id;
    }
    return (await admin.send("POST", "/admin/scheduler/jobs", body)).responseData.id;
  };
  const one = async (n: number): Promise<void> => {
    const key = `${run}-${n}`;
    const { kind, body } = requestOf(random, key);
    const twice = random.chance(REPEAT_SHARE);
    const startedAt = performance.now();
    try {
      const first = submit(kind, body);
      const second = twice ? submit(kind, body) : first;
      const [id, again] = await Promise.all([first, second]);
      if (twice) tally.repeats += 1;
      if (id !== again) tally.doubled.push(`${key}: ${id} and ${again}`);
      tally.accepted.push({ id, kind, acceptMs: performance.now() - startedAt });
      options.heard(tally);
    } catch (error) {
      tally.refused.push(`${key}: ${(error as Error).message}`);
    }
  };
  const startedAt = performance.now();
  const open: Promise<void>[] = [];
  for (let n = 0; n < jobs; n += 1) {
    const dueAt = startedAt + (n * overMs) / jobs;
    const early = dueAt - performance.now();
    if (early > 0) await pause(early);
    open.push(one(n));
  }
  await Promise.all(open);
  return tally;
}
