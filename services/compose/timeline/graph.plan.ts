import { draftGraph, escapeFilterValue, type GraphInput } from "./graph-parts.plan.ts";
import {
  colourStream,
  mainPicture,
  onGrid,
  overlayPicture,
  type PictureContext,
} from "./graph-picture.plan.ts";
import { soundGraph } from "./graph-sound.plan.ts";
import type { Facts, MainPiece, RenderPlan } from "./plan.types.ts";
import { frameUs, secondsText } from "./time.plan.ts";

/** A plan in FFmpeg's words, without a path of any machine. */
export interface RenderGraph {
  inputs: GraphInput[];
  filters: string;
  /** Labels to map. */
  picture: string;
  sound?: string;
}

export interface TextFiles {
  /** The ASS script of the plan's texts. */
  assFile: string;
  fontsDir: string;
}

const pieceStream = ({ piece }: MainPiece, mixed: boolean, context: PictureContext) =>
  piece.type === "colour"
    ? colourStream(piece.frames, context)
    : mainPicture(piece, mixed, context);

/** Pieces between two hard cuts, mixed one into the next. */
function chainStream(pieces: readonly MainPiece[], context: PictureContext): string {
  const [first, ...rest] = pieces as [MainPiece, ...MainPiece[]];
  let stream = pieceStream(first, rest.length > 0, context);
  let previous = first;
  const { rate } = context.plan;
  for (const next of rest) {
    const { kind = "fade", frames = 1 } = previous.transition ?? {};
    const offset = secondsText(frameUs(next.startFrame - first.startFrame, rate));
    const duration = secondsText(frameUs(frames, rate));
    stream = context.draft.chain(
      [stream, pieceStream(next, true, context)],
      [`xfade=transition=${kind}:duration=${duration}:offset=${offset}`],
    );
    previous = next;
  }
  return stream;
}

function mainStream(context: PictureContext): string {
  const { plan, draft } = context;
  const chains: MainPiece[][] = [];
  let joined = false;
  for (const piece of plan.main) {
    if (joined) chains.at(-1)?.push(piece);
    else chains.push([piece]);
    joined = piece.transition !== undefined;
  }
  const end = [...onGrid(plan.rate), `trim=end_frame=${plan.frames}`, "format=yuv420p"];
  const streams = chains.map((chain) => chainStream(chain, context));
  if (streams.length === 1) return draft.chain(streams, end);
  // All alike, or the whole video would be brought to the layout of its mixed parts and back.
  const even = streams.map((stream, at) =>
    chains[at]?.length === 1 ? stream : draft.chain([stream], ["format=yuv420p"]),
  );
  return draft.chain(even, [`concat=n=${even.length}`, ...end]);
}

/**
 * FFmpeg 5.1 takes a graph with one input for a copy of it and hands the turn of a phone's video on to the
 * result, where players would turn it again. A second input, of which one frame is dropped, ends that.
 */
function separateTurn({ draft, facts }: PictureContext) {
  const [only, ...others] = draft.inputs;
  if (!only || others.length > 0 || !facts.get(only.src)?.rotation) return;
  const input = draft.open(only.src, only.src, { seekUs: 0, lengthUs: 1 });
  draft.chains.push(`[${input}:v:0]trim=end_frame=1,nullsink`);
}

/** The filter graph of a plan. Pure; runs on FFmpeg 5.1 and later. */
export function planGraph(plan: RenderPlan, facts: Facts, files: TextFiles): RenderGraph {
  const draft = draftGraph(facts);
  const context: PictureContext = { draft, facts, plan };
  let picture = mainStream(context);
  for (const overlay of plan.overlays) {
    const stream = overlayPicture(overlay, context);
    picture = draft.chain([picture, stream], [`overlay=${overlay.x}:${overlay.y}:eof_action=pass`]);
  }
  const texts =
    plan.texts.length > 0
      ? `ass=filename=${escapeFilterValue(files.assFile)}:fontsdir=${escapeFilterValue(files.fontsDir)}`
      : undefined;
  // An overlay that is longer than the picture under it would go on alone.
  const end = plan.overlays.length > 0 ? `trim=end_frame=${plan.frames}` : undefined;
  picture = draft.chain([picture], [end, texts, "format=yuv420p"]);
  separateTurn(context);
  const sound = plan.audio && soundGraph(plan.audio, draft, plan);
  return { inputs: draft.inputs, filters: draft.chains.join(";\n"), picture, sound };
}
