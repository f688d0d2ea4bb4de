import { factsOf } from "./clip.plan.ts";
import type { GraphDraft } from "./graph-parts.plan.ts";
import type { Facts, PicturePiece, Placement, RenderPlan, Take } from "./plan.types.ts";
import { type Rate, rateText } from "./time.plan.ts";

export interface PictureContext {
  draft: GraphDraft;
  facts: Facts;
  plan: RenderPlan;
}

/**
 * Part of an output frame that source times are moved by before they are put on the frame grid. Frames
 * of equal rates then lie far from the middle between two places, where rounding could go either way;
 * the number has no small denominator, so that other pairs of rates keep clear of it too.
 */
const gridBias = 0.27;
/**
 * Frames that may be missing at the end of a source against what it says of itself; they are held. Few
 * where it counts its frames, so that a broken source is noticed. Where its rate varies, the last frame
 * may be shown for any time; where it only tells the length of the whole file, the sound may be longer.
 */
function slackOf(piece: PicturePiece, { facts, plan }: PictureContext): number {
  const { frames, vfr } = factsOf(facts, piece.takes[0]?.src ?? "", piece.path);
  if (vfr) return piece.frames;
  return frames ? 3 : Math.ceil(plan.rate.num / plan.rate.den);
}

const colourFilter = (colour: string) => `0x${colour.slice(1)}`;
const cut = ({ crop }: Placement) =>
  crop && `crop=${crop.width}:${crop.height}:${crop.x}:${crop.y}:exact=1`;
const evenTags =
  "setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709,setsar=1";

/**
 * One stretch of a video on the output's frame grid: the frame that is shown at each time. Frames that the source lacks
 * are held here, before scaling: a frame that `tpad` keeps would be copied where text is drawn on it.
 */
function takeStream(take: Take, piece: PicturePiece, context: PictureContext): string {
  const { draft, facts, plan } = context;
  const { path } = piece;
  const { fps } = factsOf(facts, take.src, path);
  const halfUs = fps ? Math.round((500_000 * fps.den) / fps.num) : 0;
  // Half a source frame early, so that rounding of the position cannot lose the first frame.
  const seekUs = Math.max(0, take.fromUs - Math.min(halfUs, 100_000));
  const leadUs = take.fromUs - seekUs;
  const { num, den } = plan.rate;
  const usedUs = ((take.frames * den * 1e6) / num) * take.speed;
  const lengthUs = Math.ceil(leadUs + usedUs + 2 * halfUs + 500_000);
  const input = draft.open(take.src, path, { seekUs, lengthUs });
  const biasUs = Math.round((gridBias * den * 1e6) / num);
  return draft.chain(
    [`${input}:v:0`],
    [
      "settb=AVTB",
      `setpts=(PTS-${leadUs})/${take.speed}+${biasUs}`,
      `fps=${rateText(plan.rate)}:start_time=0:round=near`,
      `tpad=stop_mode=clone:stop=${slackOf(piece, context)}`,
      `trim=end_frame=${take.frames}`,
    ],
  );
}

function stillStream(take: Take, path: string, { draft }: PictureContext): string {
  return `${draft.open(take.src, path)}:v:0`;
}

/** Several takes of one source, one after another on the frame grid. */
function joinTakes(piece: PicturePiece, context: PictureContext): string {
  const { draft, plan } = context;
  const streams = piece.takes.map((take) => takeStream(take, piece, context));
  if (streams.length === 1) return streams[0] as string;
  return draft.chain(streams, [`concat=n=${streams.length}`, ...onGrid(plan.rate)]);
}

/** Numbers frames anew on the grid; what comes in has one frame for each place. */
const onGrid = (rate: Rate) => [
  `settb=${rate.den}/${rate.num}`,
  "setpts=N",
  `fps=${rateText(rate)}`,
];

/** Scales to the place; pictures that are not video bring other colour rules along. */
const scaled = ({ width, height }: Placement, still: boolean, flags = "") =>
  `scale=${width}:${height}${flags}${still ? ":out_color_matrix=bt709:out_range=tv" : ""}`;

function surrounded(
  stream: string,
  upright: string,
  piece: PicturePiece,
  { draft, plan }: PictureContext,
): string {
  const { placement, surround, still } = piece;
  if (!surround) return stream;
  const { x, y, backdrop } = surround;
  if (!backdrop) {
    const bars = `pad=${plan.width}:${plan.height}:${x}:${y}:color=${colourFilter(plan.background)}`;
    return draft.chain(
      [stream],
      [upright, cut(placement), scaled(placement, still), "format=yuv420p", bars],
    );
  }
  const front = draft.chain([stream], [upright, "split"]);
  // The label of a split names two outputs.
  const last = draft.chains.pop() ?? "";
  draft.chains.push(`${last}[${front}b]`);
  const back = draft.chain(
    [`${front}b`],
    [
      cut(backdrop),
      scaled(backdrop, still, ":flags=area"),
      "format=yuv420p",
      "gblur=sigma=5:steps=2",
      "lutyuv=y=16+(val-16)*0.72",
      `scale=${plan.width}:${plan.height}:flags=bicubic`,
    ],
  );
  const middle = draft.chain([front], [cut(placement), scaled(placement, still), "format=yuv420p"]);
  return draft.chain([back, middle], [`overlay=${x}:${y}`]);
}

/** Lays a picture with transparent parts on the background colour. */
function flattened(stream: string, { draft, plan }: PictureContext): string {
  const upper = draft.chain([stream], ["format=rgba", "split"]);
  const last = draft.chains.pop() ?? "";
  draft.chains.push(`${last}[${upper}b]`);
  const [red, green, blue] = (plan.background.slice(1).match(/../g) ?? []).map((hex) =>
    Number.parseInt(hex, 16),
  );
  // Not drawbox: that of FFmpeg 5.1 crashes on a frame that a split shares.
  const ground = draft.chain([`${upper}b`], [`lutrgb=r=${red}:g=${green}:b=${blue}:a=255`]);
  return draft.chain([ground, upper], ["overlay=0:0:format=rgb"]);
}

/**
 * Zoom and pan by mapping corners, which places pixels to 1/256: cutting and scaling moves by whole
 * pixels, and a slow zoom then trembles.
 */
function zoomFilter(zoom: NonNullable<PicturePiece["zoom"]>, draft: boolean): string {
  const { from, to } = zoom;
  const linear = `clip(on/${Math.max(1, zoom.frames - 1)},0,1)`;
  const progress =
    zoom.ease === "smooth" ? `st(0,${linear});st(0,ld(0)*ld(0)*(3-2*ld(0)))` : `st(0,${linear})`;
  const half = `st(1,0.5/(${from.scale}*pow(${to.scale / from.scale},ld(0))))`;
  const corner = (side: "W" | "H", a: number, b: number, sign: "+" | "-") =>
    `'${progress};${half};${side}*(clip(${a}+(${b - a})*ld(0),ld(1),1-ld(1))${sign}ld(1))'`;
  const left = corner("W", from.x, to.x, "-");
  const right = corner("W", from.x, to.x, "+");
  const top = corner("H", from.y, to.y, "-");
  const bottom = corner("H", from.y, to.y, "+");
  return [
    `perspective=x0=${left}:y0=${top}:x1=${right}:y1=${top}`,
    `x2=${left}:y2=${bottom}:x3=${right}:y3=${bottom}`,
    `interpolation=${draft ? "linear" : "cubic"}:eval=frame`,
  ].join(":");
}

function fades(piece: PicturePiece, how: string): string[] {
  const { fadeInFrames, fadeOutFrames, frames } = piece;
  return [
    ...(fadeInFrames > 0 ? [`fade=t=in:s=0:n=${fadeInFrames}:${how}`] : []),
    ...(fadeOutFrames > 0
      ? [`fade=t=out:s=${frames - fadeOutFrames}:n=${fadeOutFrames}:${how}`]
      : []),
  ];
}

/** Repeats a still, or holds the last frame of a video that is shorter, to exactly the frames of the piece. */
function toLength(piece: PicturePiece, context: PictureContext): string[] {
  const { plan } = context;
  if (piece.still) {
    return [
      `loop=loop=${piece.frames - 1}:size=1:start=0`,
      ...onGrid(plan.rate),
      `trim=end_frame=${piece.frames}`,
    ];
  }
  const has = piece.takes.reduce((sum, take) => sum + take.frames, 0);
  if (has >= piece.frames) return [];
  return [`tpad=stop_mode=clone:stop=${piece.frames - has}`, `trim=end_frame=${piece.frames}`];
}

const sourceStream = (piece: PicturePiece, context: PictureContext): string => {
  const [first] = piece.takes;
  if (piece.still && first) return stillStream(first, piece.path, context);
  return joinTakes(piece, context);
};

/**
 * A main clip as a stream of canvas-sized frames. One that is mixed into its neighbours is scaled to 4:4:4 at once, the
 * only layout that `xfade` takes: scaling it to 4:2:0 first would be a second pass over every frame. What costs more
 * in 4:4:4 (zoom, a blurred backdrop) is done before.
 */
export function mainPicture(piece: PicturePiece, mixed: boolean, context: PictureContext): string {
  const { draft, facts, plan } = context;
  const { uprightFilters } = factsOf(facts, piece.takes[0]?.src ?? "", piece.path);
  let stream = sourceStream(piece, context);
  if (piece.alpha) stream = flattened(stream, context);
  let filters: (string | undefined)[] = [];
  if (piece.surround) stream = surrounded(stream, uprightFilters, piece, context);
  else filters = [uprightFilters, cut(piece.placement), scaled(piece.placement, piece.still)];
  const late = piece.surround !== undefined || piece.zoom !== undefined;
  return draft.chain(
    [stream],
    [
      ...filters,
      mixed && !late ? "format=yuv444p" : "format=yuv420p",
      evenTags,
      ...toLength(piece, context),
      piece.zoom && zoomFilter(piece.zoom, plan.quality === "draft"),
      ...fades(piece, `color=${colourFilter(plan.background)}`),
      mixed && late ? "format=yuv444p" : undefined,
    ],
  );
}

/** An overlay as a stream of its own size that begins at its frame of the timeline. */
export function overlayPicture(
  overlay: RenderPlan["overlays"][number],
  context: PictureContext,
): string {
  const { piece, opacity, startFrame } = overlay;
  const { draft, facts } = context;
  const { uprightFilters } = factsOf(facts, piece.takes[0]?.src ?? "", piece.path);
  const clear = piece.alpha || opacity < 1 || piece.fadeInFrames > 0 || piece.fadeOutFrames > 0;
  return draft.chain(
    [sourceStream(piece, context)],
    [
      uprightFilters,
      cut(piece.placement),
      scaled(piece.placement, piece.still),
      clear ? "format=yuva420p" : "format=yuv420p",
      evenTags,
      opacity < 1 ? `lutyuv=a=val*${opacity}` : undefined,
      ...toLength(piece, context),
      ...fades(piece, "alpha=1"),
      startFrame > 0 ? `setpts=PTS+${startFrame}` : undefined,
    ],
  );
}

export function colourStream(frames: number, { draft, plan }: PictureContext): string {
  const size = `${plan.width}x${plan.height}`;
  return draft.chain(
    [],
    [
      `color=c=${colourFilter(plan.background)}:s=${size}:r=${rateText(plan.rate)}`,
      "format=yuv420p",
      evenTags,
      `trim=end_frame=${frames}`,
    ],
  );
}

export { onGrid };
