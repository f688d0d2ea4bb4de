export interface SheetOptions {
  columns: number;
  rows: number;
  /** Area of the whole sheet in pixels; about one and a half bytes each as PNG. */
  pixelsMax: number;
}
export interface SheetSource {
  width: number;
  height: number;
  frames: number;
  durationMs: number;
}
export interface SheetPlan {
  columns: number;
  rows: number;
  tileWidth: number;
  tileHeight: number;
  /** Space around the tiles. */
  gap: number;
  width: number;
  height: number;
  tiles: { frame: number; ms: number; x: number; y: number }[];
}

const gap = 4;
/** Pictures of a sheet unless told otherwise. */
export const sheetGrid = { columns: 4, rows: 3 } as const;

/** Frames from the middle of equal stretches, and the largest tiles that the area allows. */
export function planSheet(source: SheetSource, options: SheetOptions): SheetPlan {
  const count = Math.max(1, Math.min(options.columns * options.rows, source.frames));
  const columns = Math.min(options.columns, count);
  const rows = Math.ceil(count / columns);
  const area = options.pixelsMax / (columns * rows);
  const scale = Math.min(1, Math.sqrt(area / (source.width * source.height)));
  const tileWidth = Math.max(16, Math.floor(source.width * scale));
  const tileHeight = Math.max(16, Math.floor(source.height * scale));
  const frameMs = source.durationMs / Math.max(1, source.frames);
  return {
    columns,
    rows,
    tileWidth,
    tileHeight,
    gap,
    width: columns * tileWidth + (columns + 1) * gap,
    height: rows * tileHeight + (rows + 1) * gap,
    tiles: Array.from({ length: count }, (_, index) => {
      const frame = Math.floor(((index + 0.5) * source.frames) / count);
      return {
        frame,
        ms: Math.round(frame * frameMs),
        x: gap + (index % columns) * (tileWidth + gap),
        y: gap + Math.floor(index / columns) * (tileHeight + gap),
      };
    }),
  };
}

const clock = (ms: number): string => {
  const tenths = Math.floor(ms / 100);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${two(Math.floor(tenths / 600))}:${two(Math.floor(tenths / 10) % 60)}.${tenths % 10}`;
};

/** Times on the tiles, as an ASS script over the finished sheet. */
export function sheetLabels(plan: SheetPlan): string {
  const size = Math.max(11, Math.min(22, Math.round(plan.tileWidth / 11)));
  const style = `Style: T,Noto Sans SC,${size},&H00FFFFFF,&H00FFFFFF,&H90000000,&H90000000,0,0,0,0,100,100,0,0,3,2,0,1,0,0,0,1`;
  return [
    "[Script Info]",
    "ScriptType: v4.00+",
    `PlayResX: ${plan.width}`,
    `PlayResY: ${plan.height}`,
    "[V4+ Styles]",
    "Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding",
    style,
    "[Events]",
    "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text",
    ...plan.tiles.map(
      ({ ms, x, y }) =>
        `Dialogue: 0,0:00:00.00,9:00:00.00,T,,0,0,0,,{\\pos(${x + 4},${y + plan.tileHeight - 4})}${clock(ms)}`,
    ),
    "",
  ].join("\n");
}
