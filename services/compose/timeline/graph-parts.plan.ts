import { inputArgs } from "../media/probe-facts.policy.ts";
import { factsOf } from "./clip.plan.ts";
import type { Facts } from "./plan.types.ts";
import { secondsText, type Us } from "./time.plan.ts";

/** A source as one input of the command. */
export interface GraphInput {
  src: string;
  /** Options before `-i`. */
  args: string[];
}

/** A filter graph under construction: inputs, chains and fresh labels. */
export interface GraphDraft {
  inputs: GraphInput[];
  chains: string[];
  /** Opens a stretch of a source and returns the input's number. */
  open(src: string, path: string, range?: { seekUs: Us; lengthUs: Us }): number;
  /** Adds `[in]filters[out]` and returns the new label. */
  chain(inputs: readonly string[], filters: readonly (string | undefined)[]): string;
}

export function draftGraph(facts: Facts): GraphDraft {
  const inputs: GraphInput[] = [];
  const chains: string[] = [];
  let labels = 0;
  return {
    inputs,
    chains,
    open(src, path, range) {
      const args = inputArgs(factsOf(facts, src, path));
      if (range) {
        if (range.seekUs > 0) args.push("-ss", secondsText(range.seekUs));
        args.push("-t", secondsText(range.lengthUs));
      }
      inputs.push({ src, args });
      return inputs.length - 1;
    },
    chain(from, filters) {
      const label = `s${labels++}`;
      const text = filters.filter((filter) => filter !== undefined && filter !== "").join(",");
      chains.push(`${from.map((name) => `[${name}]`).join("")}${text || "null"}[${label}]`);
      return label;
    },
  };
}

/**
 * A value inside a filter's options. It is read twice, as an option and as part of the graph, so each
 * special letter is escaped once for each reading.
 */
export const escapeFilterValue = (value: string): string =>
  value.replace(/[\\':]/g, "\\$&").replace(/[\\'[\],;]/g, "\\$&");
