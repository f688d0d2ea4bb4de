import type { GraphDraft } from "./graph-parts.plan.ts";
import type { AudioPlan, Lane, RenderPlan, SoundPiece } from "./plan.types.ts";
import { toUs, type Us } from "./time.plan.ts";

/** Decoders of compressed sound need a moment before what they give is right. */
const warmUpUs = toUs(0.1);
/** Loudest level that leaves the mixer. */
const ceiling = 0.95;

const seconds = (n: number) => String(Math.round(n * 1e6) / 1e6);

/** `atempo` takes 0.5 and more; slower is twice slow. */
const tempo = (speed: number): string[] =>
  speed === 1
    ? []
    : speed < 0.5
      ? ["atempo=0.5", `atempo=${seconds(speed / 0.5)}`]
      : [`atempo=${seconds(speed)}`];

const exactly = (samples: number) => [`apad=whole_len=${samples}`, `atrim=end_sample=${samples}`];

const fade = (type: "in" | "out", start: number, samples: number) =>
  samples > 0 ? `afade=t=${type}:ss=${start}:ns=${samples}:curve=qsin` : undefined;

function soundStream(piece: SoundPiece, gap: number, draft: GraphDraft, rate: number): string {
  const leadUs: Us = Math.min(piece.fromUs, warmUpUs);
  const lengthUs = Math.ceil(leadUs + (piece.samples / rate) * 1e6 * piece.speed + 500_000);
  const input = draft.open(piece.src, piece.path, { seekUs: piece.fromUs - leadUs, lengthUs });
  const lead = Math.round((leadUs * rate) / 1e6);
  return draft.chain(
    [`${input}:a:0`],
    [
      `aresample=${rate}:async=1:first_pts=0`,
      // Left to itself, FFmpeg would lower one channel by 3 dB for each of the two sides.
      piece.mono ? "pan=stereo|c0=c0|c1=c0" : undefined,
      "aformat=sample_fmts=fltp:channel_layouts=stereo",
      lead > 0 ? `atrim=start_sample=${lead},asetpts=N` : undefined,
      ...tempo(piece.speed),
      piece.volume === 1 ? undefined : `volume=${seconds(piece.volume)}`,
      ...exactly(piece.samples),
      fade("in", 0, piece.fadeInSamples),
      fade("out", piece.samples - piece.fadeOutSamples, piece.fadeOutSamples),
      gap > 0 ? `adelay=delays=${gap}S:all=1` : undefined,
    ],
  );
}

function laneStream(lane: Lane, draft: GraphDraft, rate: number): string {
  let end = 0;
  const streams = lane.map((piece) => {
    const stream = soundStream(piece, piece.startSample - end, draft, rate);
    end = piece.startSample + piece.samples;
    return stream;
  });
  if (streams.length === 1) return streams[0] as string;
  return draft.chain(streams, [`concat=n=${streams.length}:v=0:a=1`]);
}

const mixed = (streams: readonly string[]) =>
  streams.length > 1
    ? [`amix=inputs=${streams.length}:duration=longest:dropout_transition=0:normalize=0`]
    : [];

/** Lanes of one bus as one stream of the video's length. */
function busStream(lanes: readonly Lane[], draft: GraphDraft, plan: RenderPlan) {
  if (lanes.length === 0) return undefined;
  const streams = lanes.map((lane) => laneStream(lane, draft, plan.sampleRate));
  return draft.chain(streams, [...mixed(streams), ...exactly(plan.samples)]);
}

/** A second label for the same stream. */
function forked(stream: string, draft: GraphDraft): [string, string] {
  const label = draft.chain([stream], ["asplit"]);
  draft.chains.push(`${draft.chains.pop() ?? ""}[${label}b]`);
  return [label, `${label}b`];
}

function musicStream(
  music: NonNullable<AudioPlan["music"]>,
  draft: GraphDraft,
  plan: RenderPlan,
): string {
  const last = music.lane.at(-1);
  const end = last ? last.startSample + last.samples : 0;
  return draft.chain(
    [laneStream(music.lane, draft, plan.sampleRate)],
    [
      `volume=${seconds(music.volume)}`,
      fade("in", music.startSample, music.fadeInSamples),
      fade("out", end - music.fadeOutSamples, music.fadeOutSamples),
      ...exactly(plan.samples),
    ],
  );
}

/** The whole sound as one stream, exactly as long as the picture. */
export function soundGraph(audio: AudioPlan, draft: GraphDraft, plan: RenderPlan): string {
  const buses = {
    voice: busStream(audio.voice, draft, plan),
    program: busStream(audio.program, draft, plan),
  };
  let music = audio.music && musicStream(audio.music, draft, plan);
  const duck = audio.music?.duck;
  const key = duck && buses[duck.key];
  if (music && duck && key) {
    const [kept, side] = forked(key, draft);
    buses[duck.key] = kept;
    // The filter ends with the first of its inputs and loses what waits for the other: neither ends.
    const inputs = [music, side].map((stream) => draft.chain([stream], ["apad"]));
    music = draft.chain(inputs, [
      `sidechaincompress=threshold=${seconds(duck.threshold)}:ratio=${seconds(duck.ratio)}:attack=${seconds(duck.attackMs)}:release=${seconds(duck.releaseMs)}:detection=rms`,
      ...exactly(plan.samples),
    ]);
  }
  const streams = [buses.voice, buses.program, music].filter((bus) => bus !== undefined);
  return draft.chain(streams, [
    ...mixed(streams),
    `alimiter=limit=${ceiling}:level=0:latency=1`,
    ...exactly(plan.samples),
  ]);
}
