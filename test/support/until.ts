/**
 * Waits for a condition, not for a time; rejects with the name of what did not come. The limit is what a busy machine of
 * two cores may take.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  { what = "the condition", limitMs = 30_000 } = {},
): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${what} did not come true in ${limitMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
