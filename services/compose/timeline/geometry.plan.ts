import type { MediaFacts } from "../media/probe-facts.policy.ts";
import type { PicturePiece, Placement } from "./plan.types.ts";
import type { Anchor } from "./timeline.schema.ts";

interface Size {
  width: number;
  height: number;
}
/** Size of the stored picture, upright. */
interface Stored extends Size {
  /** Width of a stored pixel over its height as shown; 1 where absent. */
  stretch?: number;
}

/** The upright picture of a source; turning it turns the shape of its pixels too. */
export function storedSize(
  facts: Pick<MediaFacts, "width" | "height" | "pixelAspect" | "rotation">,
): Stored {
  const { num, den } = facts.pixelAspect;
  const turned = facts.rotation === 90 || facts.rotation === 270;
  return { width: facts.width, height: facts.height, stretch: turned ? den / num : num / den };
}

const shown = ({ width, height, stretch = 1 }: Stored): Size => ({
  width: width * stretch,
  height,
});

const even = (n: number) => Math.max(2, 2 * Math.round(n / 2));
const evenDown = (n: number) => Math.max(0, 2 * Math.floor(n / 2));

/** Largest part of the source with the canvas's shape, from its middle. Cutting first scales fewer pixels. */
export function coverCrop(stored: Stored, canvas: Size): Placement {
  const source = shown(stored);
  const wide = source.width * canvas.height > canvas.width * source.height;
  const width = wide ? Math.round((source.height * canvas.width) / canvas.height) : source.width;
  const height = wide ? source.height : Math.round((source.width * canvas.height) / canvas.width);
  const cut = {
    width: Math.max(1, Math.round(width / (stored.stretch ?? 1))),
    height: Math.max(1, height),
  };
  const whole = cut.width >= stored.width && cut.height >= stored.height;
  return {
    crop: whole
      ? undefined
      : {
          ...cut,
          x: evenDown((stored.width - cut.width) / 2),
          y: evenDown((stored.height - cut.height) / 2),
        },
    width: canvas.width,
    height: canvas.height,
  };
}

/** Largest even size with the source's shape inside the canvas. */
export function containSize(stored: Stored, canvas: Size): Size {
  const source = shown(stored);
  const ratio = Math.min(canvas.width / source.width, canvas.height / source.height);
  return {
    width: Math.min(canvas.width, even(source.width * ratio)),
    height: Math.min(canvas.height, even(source.height * ratio)),
  };
}

/** A backdrop is blurred at an eighth of the size: it looks the same and costs a sixtieth. */
const backdropSize = (canvas: Size): Size => ({
  width: even(canvas.width / 8),
  height: even(canvas.height / 8),
});

/** Placement of a main clip on the canvas. */
export function fitPicture(
  fit: "cover" | "contain" | "blur",
  source: Stored,
  canvas: Size,
): Pick<PicturePiece, "placement" | "surround"> {
  const inside = containSize(source, canvas);
  const fills = inside.width === canvas.width && inside.height === canvas.height;
  if (fit === "cover" || fills) {
    return { placement: fills ? { ...canvas } : coverCrop(source, canvas) };
  }
  return {
    placement: inside,
    surround: {
      x: evenDown((canvas.width - inside.width) / 2),
      y: evenDown((canvas.height - inside.height) / 2),
      backdrop: fit === "blur" ? coverCrop(source, backdropSize(canvas)) : undefined,
    },
  };
}

/** Horizontal and vertical part of an anchor: 0 left or top, 0.5 middle, 1 right or bottom. */
export const anchorPoint = (anchor: Anchor): { x: number; y: number } => ({
  x: anchor.includes("left") ? 0 : anchor.includes("right") ? 1 : 0.5,
  y: anchor.includes("top") ? 0 : anchor.includes("bottom") ? 1 : 0.5,
});

/** Distance from the edge, as a fraction, where a position gives none. */
const edge = 0.04;
const byDefault = (part: number) => (part === 0 ? edge : part === 1 ? 1 - edge : 0.5);

/** Size and upper left corner of an overlay. The corner is even, so that its colours stay sharp. */
export function placeOverlay(
  stored: Stored,
  canvas: Size,
  scale: number,
  position: { anchor: Anchor; x?: number; y?: number },
): { placement: Placement; x: number; y: number } {
  const source = shown(stored);
  const width = even(canvas.width * scale);
  const height = even((width * source.height) / source.width);
  const anchor = anchorPoint(position.anchor);
  const place = (part: number, at: number | undefined, whole: number, own: number) =>
    2 * Math.round(((at ?? byDefault(part)) * whole - part * own) / 2);
  return {
    placement: { width, height },
    x: place(anchor.x, position.x, canvas.width, width),
    y: place(anchor.y, position.y, canvas.height, height),
  };
}
