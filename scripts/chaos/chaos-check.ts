import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { ListMultipartUploadsCommand, ListObjectsV2Command, S3Client } from "@aws-sdk/client-s3";
import { markVariable } from "../../services/compose/process-group.ts";
import type { JobView } from "../../services/scheduler/scheduler.contract.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { AcceptedJob } from "./chaos-jobs.ts";
import { type ProductClient, Refused } from "./product-client.ts";

const READS_AT_ONCE = 8;

/** What is committed of a job; once seen, none of it may ever change. */
type Commit = Pick<JobView, "attempt" | "endedAt"> & { hash?: string };

const commitOf = ({ attempt, endedAt, result }: JobView): Commit => ({
  attempt,
  endedAt,
  hash: result?.hash,
});

/** Watches the jobs while the run goes on: a success that changes afterwards was committed twice. */
export class CommitWatch {
  readonly #seen = new Map<string, Commit>();
  readonly changed = new Set<string>();

  note(job: JobView): void {
    const { id } = job;
    const seen = this.#seen.get(id);
    if (job.state === "success") {
      const now = commitOf(job);
      if (!seen) this.#seen.set(id, now);
      else if (JSON.stringify(seen) !== JSON.stringify(now)) this.changed.add(id);
    } else if (seen) this.changed.add(id);
  }
}

export async function readJobs(
  admin: ProductClient,
  accepted: readonly AcceptedJob[],
): Promise<{ jobs: JobView[]; missing: string[] }> {
  const jobs: JobView[] = [];
  const missing: string[] = [];
  const ids = accepted.map(({ id }) => id);
  const work = async () => {
    for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
      try {
        jobs.push((await admin.send("GET", `/admin/scheduler/jobs/${id}`)).responseData);
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 404) throw error;
        missing.push(id);
      }
    }
  };
  await Promise.all(Array.from({ length: READS_AT_ONCE }, work));
  return { jobs, missing };
}

/** Programs that some attempt has started and that still run. Call when no job runs any more. */
export async function orphanProcesses(dir: string): Promise<string[]> {
  const found: string[] = [];
  const mark = Buffer.from(`${markVariable}=${dir}`);
  for (const pid of await readdir("/proc").catch(() => [])) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      if ((await readFile(`/proc/${pid}/environ`)).includes(mark)) found.push(pid);
    } catch {
      // It has ended, or is not ours to read.
    }
  }
  return found;
}

/** Working directories of attempts that nobody works on any more. */
export async function leftDirectories(cluster: Cluster): Promise<string[]> {
  const found: string[] = [];
  for (const { dataDir } of cluster.of("compose")) {
    const work = join(dataDir, "work");
    for (const name of await readdir(work).catch(() => [])) found.push(join(work, name));
  }
  return found;
}

export interface ObjectFindings {
  /** Objects of attempts that did not win. */
  orphans: string[];
  /** Outputs of successful jobs that are not there. */
  absent: string[];
  /** Uploads in parts that were neither completed nor aborted. */
  unfinished: string[];
}

/** Compares what lies in the bucket with what the jobs say. */
export async function checkObjects(
  cluster: Cluster,
  jobs: readonly JobView[],
): Promise<ObjectFindings> {
  const { env } = cluster.servers;
  const s3 = new S3Client({
    endpoint: env["S3_ENDPOINT"],
    region: env["OSS_REGION"],
    forcePathStyle: true,
    credentials: {
      accessKeyId: env["OSS_ACCESSKEY_ID"] ?? "",
      secretAccessKey: env["OSS_ACCESSKEY_SECRET"] ?? "",
    },
  });
  const Bucket = cluster.env["OSS_BUCKET_NAME"];
  try {
    const wanted = new Set(
      jobs.flatMap(({ result }) => (result?.outputs ?? []).map(({ key }) => key)),
    );
    const stored = new Set<string>();
    let ContinuationToken: string | undefined;
    do {
      const page = await s3.send(
        new ListObjectsV2Command({ Bucket, Prefix: "jobs/", ContinuationToken }),
      );
      for (const { Key } of page.Contents ?? []) if (Key) stored.add(Key);
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken);
    const uploads = await s3.send(new ListMultipartUploadsCommand({ Bucket }));
    return {
      orphans: [...stored].filter((key) => !wanted.has(key) && !key.endsWith("/")),
      absent: [...wanted].filter((key) => !stored.has(key)),
      unfinished: (uploads.Uploads ?? []).map(({ Key }) => Key ?? ""),
    };
  } finally {
    s3.destroy();
  }
}
