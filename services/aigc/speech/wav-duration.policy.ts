/**
 * Playing time of a WAV file in milliseconds, from its `fmt ` and `data` chunks. Undefined where the bytes
 * are not such a file. A data chunk that claims more than there is counts as far as the file goes.
 */
export function wavDurationMs(bytes: Uint8Array): number | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const tag = (at: number) => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (bytes.length < 12 || tag(0) !== "RIFF" || tag(8) !== "WAVE") return undefined;
  let bytesPerSecond = 0;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const size = view.getUint32(at + 4, true);
    if (tag(at) === "fmt " && at + 20 <= bytes.length)
      bytesPerSecond = view.getUint32(at + 16, true);
    if (tag(at) === "data")
      return bytesPerSecond > 0
        ? Math.round((Math.min(size, bytes.length - at - 8) * 1000) / bytesPerSecond)
        : undefined;
    at += 8 + size + (size % 2);
  }
  return undefined;
}
