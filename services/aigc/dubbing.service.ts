import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { AppError } from "../../lib/errors.ts";
import { type ActionContext, implementService, type TypedCall } from "../../lib/service.ts";
import { OpenCalls, reportProgress, signals } from "../mcp/call-signals.ts";
import { nearestName } from "../mcp/nearest-name.policy.ts";
import { aigcLimits } from "./config.ts";
import { type DubbingRequest, dubbingContract } from "./dubbing.contract.ts";
import { EspeakVoice } from "./speech/espeak-voice.ts";
import type { SpeechVoice } from "./speech/speech-voice.ts";

/** Runs work with at most `width` at a time, over all batches of this node. */
class Lanes {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(width: number) {
    this.#free = width;
  }

  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((go) => this.#waiting.push(go));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}

interface State {
  voice: SpeechVoice;
  lanes: Lanes;
  calls: OpenCalls;
}

/** Lines with everything filled in; a voice that does not exist is named with the nearest that does. */
async function planLines(request: DubbingRequest, voice: SpeechVoice) {
  const known = (await voice.voices()).map(({ name }) => name);
  const taken = new Set(request.lines.flatMap(({ id }) => id ?? []));
  const freeId = (number: number) => {
    let id = `line-${number}`;
    while (taken.has(id)) id = `${id}-`;
    return id;
  };
  return request.lines.map((line, index) => {
    const name = line.voice ?? request.voice ?? voice.defaultVoice(line.text);
    if (!known.includes(name)) {
      const meant = nearestName(name, known);
      const path = line.voice === undefined ? "voice" : `lines[${index}].voice`;
      const message = `there is no voice "${name}"${meant ? `; did you mean "${meant}"?` : ""} list_voices gives all ${known.length}`;
      throw new AppError("INVALID_INPUT", {
        reason: `${path}: ${message}`,
        issues: [{ path, message }],
      });
    }
    return {
      id: line.id ?? freeId(index + 1),
      text: line.text,
      voice: name,
      speed: line.speed ?? request.speed,
      pitch: line.pitch ?? request.pitch,
    };
  });
}

async function speakBatch(
  ctx: ActionContext<DubbingRequest>,
  { voice, lanes }: State,
  { bucket, signal }: { bucket: string; signal: AbortSignal },
) {
  const lines = await planLines(ctx.params, voice);
  const batchId = randomUUID();
  const prefix = `dubbing/${batchId}/`;
  const call = ctx.call as TypedCall;
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  let done = 0;
  const speakLine = async (line: (typeof lines)[number]) => {
    stop.throwIfAborted();
    const limit = AbortSignal.any([stop, AbortSignal.timeout(aigcLimits.dubbing.lineMs)]);
    const { wav, durationMs } = await voice.speak(line, limit);
    const key = `${prefix}${line.id}.wav`;
    await call(
      "storage.put",
      { bucket, key, contentType: "audio/wav", bytes: wav.length },
      { stream: Readable.from([wav]) },
    );
    const { url } = await call("storage.link", { bucket, key });
    done += 1;
    await reportProgress(ctx, done, lines.length, `spoke ${line.id}`);
    const { id, text } = line;
    return {
      id,
      text,
      voice: line.voice,
      duration_ms: durationMs,
      bucket,
      key,
      url,
      bytes: wav.length,
    };
  };
  const outcomes = await Promise.allSettled(
    lines.map((line) =>
      lanes.use(() =>
        speakLine(line).catch((error) => {
          failed.abort();
          throw error;
        }),
      ),
    ),
  );
  const failures = outcomes.flatMap((outcome) =>
    outcome.status === "rejected" ? [outcome.reason as Error] : [],
  );
  if (failures.length > 0) {
    // Half a voice track is of no use to anybody.
    await call("storage.removePrefix", { bucket, prefix });
    if (signal.aborted) throw new AppError("JOB_CANCELLED");
    const cause = failures.find(({ name }) => name !== "AbortError") ?? failures[0];
    if (cause?.name === "TimeoutError" || cause?.name === "AbortError")
      throw new AppError("TIMEOUT", {
        seconds: aigcLimits.dubbing.lineMs / 1000,
        what: "espeak-ng",
      });
    throw cause;
  }
  const spoken = outcomes.flatMap((outcome) =>
    outcome.status === "fulfilled" ? [outcome.value] : [],
  );
  return {
    batch_id: batchId,
    provider: voice.provider,
    total_ms: spoken.reduce((sum, line) => sum + line.duration_ms, 0),
    lines: spoken,
  };
}

export const dubbingService = implementService(dubbingContract, {
  start: (): State => ({
    voice: new EspeakVoice(),
    lanes: new Lanes(aigcLimits.dubbing.processes),
    calls: new OpenCalls(),
  }),
  stop: ({ calls }) => calls.cancelAll(),
  events: {
    [signals.cancelled]: (payload, { calls }) =>
      calls.cancel((payload as { callId: string }).callId),
  },
  handlers: {
    batch: (ctx, state, { config }) =>
      state.calls.run(ctx, (signal) =>
        speakBatch(ctx, state, { bucket: config.OSS_BUCKET_NAME, signal }),
      ),
    voices: async (ctx, { voice }) => {
      const { language } = ctx.params;
      const all = await voice.voices();
      const wanted = language?.toLowerCase();
      return {
        provider: voice.provider,
        voices: all.filter(
          (one) => !wanted || one.language === wanted || one.language.startsWith(`${wanted}-`),
        ),
      };
    },
  },
});
