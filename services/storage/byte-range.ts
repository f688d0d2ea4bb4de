export interface ByteRange {
  start: number;
  /** Inclusive. */
  end: number;
}

/**
 * The one range that a `Range` header asks for (RFC 9110, section 14). Undefined: answer the whole object,
 * as for a header that cannot be understood or names several ranges. "unsatisfiable": answer 416.
 */
export function byteRangeOf(
  header: string | undefined,
  bytes: number,
): ByteRange | "unsatisfiable" | undefined {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.replaceAll(" ", "") ?? "");
  if (!match || (match[1] === "" && match[2] === "")) return undefined;
  const [first, last] = [match[1]!, match[2]!];
  if (first === "") {
    const suffix = Number(last);
    if (suffix === 0 || bytes === 0) return "unsatisfiable";
    return { start: Math.max(bytes - suffix, 0), end: bytes - 1 };
  }
  const start = Number(first);
  const end = last === "" ? bytes - 1 : Math.min(Number(last), bytes - 1);
  if (last !== "" && Number(last) < start) return undefined;
  return start >= bytes ? "unsatisfiable" : { start, end };
}
