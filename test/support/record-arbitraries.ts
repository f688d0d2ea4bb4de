import fc from "fast-check";
import { defineCollection, type Filter } from "../../lib/store/record-store.ts";

/** Records, filters, orders and searches that meet often enough to matter. */

export const clips = defineCollection({
  name: "clip",
  label: "clip",
  filters: { kind: "text", rank: "number", live: "boolean", "spec.codec": "text" },
  sorts: { title: "text", rank: "number" },
  search: ["title", "note"],
});

const titles = ["雨夜", "雨夜街头", "a", "B", "Ünter", "🎬 cut", "zoo", "Ａ"];
export const docArbitrary = fc.record(
  {
    title: fc.constantFrom(...titles),
    note: fc.constantFrom("手机拍摄的日出", "one two three", "iPhone手机", ""),
    kind: fc.constantFrom("video", "image", "Video", ""),
    rank: fc.oneof(fc.integer({ min: -3, max: 3 }), fc.constantFrom(0.5, 1e15)),
    live: fc.boolean(),
    spec: fc.record({ codec: fc.constantFrom("h264", "av1") }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
);
const condition = <T>(value: fc.Arbitrary<T>) =>
  fc.oneof(
    value,
    value.map((eq) => ({ eq })),
    value.map((ne) => ({ ne })),
    fc.array(value, { maxLength: 3 }).map((list) => ({ in: list })),
    fc.tuple(value, value).map(([gt, lte]) => ({ gt, lte })),
    fc.tuple(value, value).map(([gte, lt]) => ({ gte, lt })),
    fc.boolean().map((exists) => ({ exists })),
  );
export const filterArbitrary = fc.record(
  {
    kind: condition(fc.constantFrom("video", "image", "Video", "x")),
    rank: condition(fc.constantFrom(-1, 0, 0.5, 2, 1e15)),
    live: fc.oneof(
      fc.boolean(),
      fc.boolean().map((ne) => ({ ne })),
    ),
    "spec.codec": condition(fc.constantFrom("h264", "av1")),
  },
  { requiredKeys: [] },
) as fc.Arbitrary<Filter>;
export const sortArbitrary = fc.constantFrom(
  ...[
    "title",
    "-title",
    "rank,title",
    "-rank",
    "rank,-title",
    "-createdAt",
    "updatedAt,-rank",
    "-id",
  ],
);
export const searchArbitrary = fc.constantFrom(
  ...[
    "",
    "雨",
    "雨夜",
    "夜街",
    "手机 日出",
    "IPHONE",
    "iph",
    "one tw",
    "two one",
    "unter",
    "??",
    "a",
  ],
);
