import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { z } from "zod";
import { TimelineTask } from "../../services/compose/bridge.contract.ts";
import { TimelineRequest } from "../../services/compose/timeline/timeline.schema.ts";
import { contracts } from "../../services/contracts.ts";
import { explainArguments } from "../../services/mcp/explain-arguments.policy.ts";
import { editDistance, nearestName } from "../../services/mcp/nearest-name.policy.ts";
import { exampleRequest, timelineGuide } from "../../services/mcp/timeline-guide.ts";
import { toolsOf } from "../../services/mcp/tool-registry.ts";

const json = z.toJSONSchema(TimelineTask, { io: "input" }) as Record<string, unknown>;

/** What an agent is told about arguments, as `path: message` lines. */
const explain = (given: unknown, max = 12) => {
  const parsed = TimelineTask.safeParse(given);
  return parsed.success
    ? []
    : explainArguments(parsed.error.issues, given, json, max).issues.map(
        ({ path, message }) => `${path}: ${message}`,
      );
};
const timeline = (clip: object, type = "video") => ({
  timeline: { tracks: [{ type, clips: [clip] }] },
});

describe("arguments explained to an agent", () => {
  test("a mistyped field: its path, the name that was meant, and all that are allowed in that kind of track", () => {
    const [line] = explain(timeline({ text: "Hi", duraton: 2 }, "text"));
    expect(line).toContain("timeline.tracks[0].clips[0].duraton: unknown field");
    expect(line).toContain('did you mean "duration"?');
    expect(line).toContain("animation");
    expect(line).not.toContain("transition");
  });

  test("another notation or a word for the same is recognised", () => {
    expect(explain(timeline({ src: "a.jpg", fade_in: 1 }))[0]).toContain('"fadeIn"');
    expect(explain({ ...timeline({ src: "a.jpg" }), idempotencyKey: "x" })[0]).toContain(
      '"idempotency_key"',
    );
  });

  test("a wrong choice: all choices, what was given, and the nearest", () => {
    const [line] = explain(timeline({ src: "a.jpg", fit: "covers" }));
    expect(line).toBe(
      'timeline.tracks[0].clips[0].fit: must be one of cover, contain, blur; not "covers"; did you mean "cover"?',
    );
  });

  test("a missing field is named as missing", () => {
    expect(explain({})).toEqual(["timeline: is missing; it must be object"]);
    expect(explain(timeline({}))[0]).toBe(
      "timeline.tracks[0].clips[0].src: is missing; it must be string",
    );
  });

  test("a value out of range: the rule and the value", () => {
    expect(explain({ ...timeline({ src: "a.jpg" }), priority: 0 })[0]).toMatch(
      /^priority: .*>=1 \(given: 0\)$/,
    );
  });

  test("more mistakes than an agent wants to read are counted", () => {
    const clips = Array.from({ length: 30 }, () => ({ src: "a.jpg", start: -1 }));
    const given = { timeline: { tracks: [{ type: "video", clips }] } };
    const parsed = TimelineTask.safeParse(given);
    const { issues, more } = explainArguments(parsed.error!.issues, given, json, 12);
    expect(issues).toHaveLength(12);
    expect(more).toBe(18);
  });

  test("anything at all is explained without a failure of the explanation", () => {
    fc.assert(
      fc.property(fc.anything({ withNullPrototype: false }), fc.anything(), (tracks, output) => {
        expect(Array.isArray(explain({ timeline: { tracks }, output }))).toBe(true);
      }),
    );
  });
});

describe("nearest name", () => {
  test("one typing error counts one, whether a letter is added, lost, replaced or swapped", () => {
    for (const typo of ["duraation", "duraton", "duratiom", "duratoin"])
      expect(editDistance(typo, "duration")).toBe(1);
    expect(editDistance("", "abc")).toBe(3);
  });

  test("a name that is like none of them finds none", () => {
    expect(nearestName("zebra", ["src", "start", "duration"])).toBeUndefined();
    expect(nearestName("", ["src"])).toBeUndefined();
    expect(nearestName("anything", [])).toBeUndefined();
  });
});

describe("what agents are told", () => {
  test("the example of the guide is a valid request and stands in the guide", () => {
    expect(TimelineRequest.safeParse(exampleRequest).error).toBeUndefined();
    expect(timelineGuide).toContain('"ease": "smooth"');
  });

  test("every track type and every field of a clip that the guide names exists in the schema", () => {
    const named = [...timelineGuide.matchAll(/^\| (\w+) \|/gm)].map(([, name]) => name);
    expect(named.filter((name) => name !== "type")).toEqual([
      "video",
      "overlay",
      "audio",
      "text",
      "subtitle",
    ]);
  });

  test("each tool has a name of its own in snake case, a title and a description to act on", () => {
    const tools = [...toolsOf(contracts).values()];
    for (const { listed, contract } of tools) {
      expect(listed.name).toMatch(/^[a-z]+(_[a-z]+)*$/);
      expect(listed.title.length).toBeGreaterThan(3);
      expect(listed.description.length).toBeGreaterThan(80);
      expect(contract.access).toContain("agent");
    }
    const twice = [...contracts, ...contracts];
    expect(() => toolsOf(twice)).toThrow(/two tools are named/);
  });
});
