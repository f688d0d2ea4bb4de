import { factsOf, usedRange } from "./clip.plan.ts";
import { TimelineLimits } from "./config.ts";
import type { AudioPlan, Facts, Lane, SoundPiece } from "./plan.types.ts";
import type { SoundTrack } from "./sound-track.plan.ts";
import { type Rate, toUs } from "./time.plan.ts";
import type { Music, Timeline } from "./timeline.schema.ts";
import { timelineError } from "./timeline-error.ts";

interface AudioRequest {
  timeline: Timeline;
  facts: Facts;
  sounds: readonly SoundTrack[];
  clipSounds: readonly SoundPiece[];
  rate: Rate;
  /** Length of the whole video. */
  samples: number;
}

const sampleOf = (us: number) => Math.round((us * TimelineLimits.sampleRate) / 1e6);

/** Cuts a sound at the end of the video; one that begins after it is gone. */
function clipToEnd(piece: SoundPiece, end: number): SoundPiece[] {
  const samples = Math.min(piece.samples, end - piece.startSample);
  if (samples <= 0 || piece.volume === 0) return [];
  return [
    {
      ...piece,
      samples,
      fadeInSamples: Math.min(piece.fadeInSamples, samples),
      fadeOutSamples: samples < piece.samples ? 0 : piece.fadeOutSamples,
    },
  ];
}

/** Packs sounds into as few lanes as have no overlaps: what a lane costs does not grow with its clips. */
export function packLanes(pieces: readonly SoundPiece[]): Lane[] {
  const lanes: { end: number; lane: Lane }[] = [];
  const order = pieces
    .map((piece, index) => ({ piece, index }))
    .sort((a, b) => a.piece.startSample - b.piece.startSample || a.index - b.index);
  for (const { piece } of order) {
    const free = lanes.find(({ end }) => end <= piece.startSample);
    const end = piece.startSample + piece.samples;
    if (free) {
      free.lane.push(piece);
      free.end = end;
    } else lanes.push({ end, lane: [piece] });
  }
  return lanes.map(({ lane }) => lane);
}

/** The music as a lane of its own: repeated to the end of the video if it loops. */
function musicLane(music: Music, facts: Facts, samples: number): Lane {
  const { audio } = factsOf(facts, music.src, "music");
  if (!audio) throw timelineError("music", "its source has no sound");
  const used = usedRange(music.trim, audio.durationMs * 1000, "music");
  const length = sampleOf(used.lengthUs);
  const start = sampleOf(toUs(music.start));
  const lane: Lane = [];
  for (let at = start; at < samples && length > 0; at += length) {
    if (lane.length >= TimelineLimits.takes)
      throw timelineError(
        "music.loop",
        `would repeat the music more than ${TimelineLimits.takes} times; use a longer file`,
      );
    lane.push({
      path: "music",
      src: music.src,
      mono: audio.channels === 1,
      fromUs: used.fromUs,
      speed: 1,
      volume: 1,
      startSample: at,
      samples: Math.min(length, samples - at),
      fadeInSamples: 0,
      fadeOutSamples: 0,
    });
    if (!music.loop) break;
  }
  return lane;
}

function planDuck(music: Music, voice: boolean, program: boolean) {
  if (music.duck === false || !(voice || program)) return undefined;
  const duck =
    music.duck === true ? { amount: 0.7, threshold: 0.02, attack: 0.05, release: 0.6 } : music.duck;
  if (duck.amount === 0) return undefined;
  return {
    key: voice ? ("voice" as const) : ("program" as const),
    threshold: duck.threshold,
    ratio: Math.min(20, 1 / Math.max(0.05, 1 - duck.amount)),
    attackMs: duck.attack * 1000,
    releaseMs: duck.release * 1000,
  };
}

function planMusic(request: AudioRequest, voice: boolean, program: boolean): AudioPlan["music"] {
  const { music } = request.timeline;
  if (!music || music.volume === 0) return undefined;
  const lane = musicLane(music, request.facts, request.samples);
  if (lane.length === 0) return undefined;
  const startSample = lane[0]?.startSample ?? 0;
  const last = lane.at(-1);
  const length = (last ? last.startSample + last.samples : 0) - startSample;
  const fadeInSamples = Math.min(length, sampleOf(toUs(music.fadeIn ?? 0)));
  return {
    lane,
    volume: music.volume,
    startSample,
    fadeInSamples,
    fadeOutSamples: Math.min(length - fadeInSamples, sampleOf(toUs(music.fadeOut ?? 0))),
    duck: planDuck(music, voice, program),
  };
}

/** Buses and lanes of everything that sounds; undefined when nothing does. */
export function planAudio(request: AudioRequest): AudioPlan | undefined {
  const end = request.samples;
  const byRole = (role: SoundTrack["role"]) =>
    request.sounds.filter((track) => track.role === role).flatMap((track) => track.pieces);
  const cut = (pieces: readonly SoundPiece[]) =>
    packLanes(pieces.flatMap((piece) => clipToEnd(piece, end)));
  const voice = cut(byRole("voice"));
  const program = cut([...request.clipSounds, ...byRole("effects")]);
  const music = planMusic(request, voice.length > 0, program.length > 0);
  if (voice.length === 0 && program.length === 0 && !music) return undefined;
  return { voice, program, music };
}
