import type { z } from "zod";

export interface InputIssue {
  /** Dotted path, list positions in brackets: `tracks[0].clips[2].start`. */
  path: string;
  message: string;
}

export const pathText = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, key) =>
      typeof key === "number" ? `${text}[${key}]` : text ? `${text}.${String(key)}` : String(key),
    "",
  );

/** Zod's issues flattened for people and agents: where and what, alternatives of a union merged. */
export function describeIssues(error: z.ZodError, limit = 20): InputIssue[] {
  const flat: InputIssue[] = [];
  const visit = (issues: readonly z.core.$ZodIssue[], prefix: readonly PropertyKey[]) => {
    for (const issue of issues) {
      const path = [...prefix, ...issue.path];
      if (issue.code === "invalid_union" && issue.errors.length > 0) {
        // The alternative that came furthest is the one that was meant.
        const nearest = [...issue.errors].sort(
          (a, b) => depth(b) - depth(a) || a.length - b.length,
        )[0]!;
        if (depth(nearest) > 0) {
          visit(nearest, path);
          continue;
        }
      }
      flat.push({ path: pathText(path), message: issue.message });
    }
  };
  visit(error.issues, []);
  return flat.slice(0, limit);
}

const depth = (issues: readonly z.core.$ZodIssue[]) =>
  Math.max(0, ...issues.map((issue) => issue.path.length));
