/** What a file is by its first bytes, and the one FFmpeg demuxer that may open it. */
export interface MediaSignature {
  kind: "video" | "audio" | "image";
  /** Name for people. */
  name: string;
  /** Value of FFmpeg's `-f`. */
  demuxer: string;
  /** For the local copy: FFmpeg picks the decoder of a still image by it. */
  extension: string;
}

/** Bytes from the start of a file that are enough to tell. */
export const signatureBytes = 4096;

const ascii = (bytes: Uint8Array, start: number, length: number): string =>
  String.fromCharCode(...bytes.subarray(start, start + length));
const starts = (bytes: Uint8Array, ...values: number[]): boolean =>
  values.every((value, index) => bytes[index] === value);

type Rule = Omit<MediaSignature, "extension"> & { test: (bytes: Uint8Array) => boolean };
const riff = (form: string) => (bytes: Uint8Array) =>
  ["RIFF", "RF64"].includes(ascii(bytes, 0, 4)) && ascii(bytes, 8, 4) === form;
const boxed = (bytes: Uint8Array) =>
  ["ftyp", "moov", "mdat", "wide", "free", "skip", "pnot"].includes(ascii(bytes, 4, 4));
const brand = (bytes: Uint8Array) => (ascii(bytes, 4, 4) === "ftyp" ? ascii(bytes, 8, 4) : "");

const extensions: Readonly<Record<string, string>> = {
  PNG: "png",
  JPEG: "jpg",
  WebP: "webp",
  BMP: "bmp",
  TIFF: "tif",
};

/** First match wins. A format that is not here is not opened: playlists, scripts and vector graphics can name other files. */
const rules: readonly Rule[] = [
  { kind: "image", name: "PNG", demuxer: "image2", test: (b) => starts(b, 0x89, 0x50, 0x4e, 0x47) },
  { kind: "image", name: "JPEG", demuxer: "image2", test: (b) => starts(b, 0xff, 0xd8, 0xff) },
  { kind: "video", name: "GIF", demuxer: "gif", test: (b) => ascii(b, 0, 4) === "GIF8" },
  { kind: "image", name: "WebP", demuxer: "image2", test: riff("WEBP") },
  {
    kind: "image",
    name: "BMP",
    demuxer: "image2",
    test: (b) => ascii(b, 0, 2) === "BM" && [12, 40, 52, 56, 108, 124].includes(b[14] ?? 0),
  },
  {
    kind: "image",
    name: "TIFF",
    demuxer: "image2",
    test: (b) => starts(b, 0x49, 0x49, 0x2a, 0) || starts(b, 0x4d, 0x4d, 0, 0x2a),
  },
  { kind: "video", name: "MP4 or MOV", demuxer: "mov", test: boxed },
  {
    kind: "video",
    name: "Matroska or WebM",
    demuxer: "matroska",
    test: (b) => starts(b, 0x1a, 0x45, 0xdf, 0xa3),
  },
  { kind: "video", name: "AVI", demuxer: "avi", test: riff("AVI ") },
  { kind: "audio", name: "WAV", demuxer: "wav", test: riff("WAVE") },
  { kind: "audio", name: "FLAC", demuxer: "flac", test: (b) => ascii(b, 0, 4) === "fLaC" },
  { kind: "audio", name: "Ogg", demuxer: "ogg", test: (b) => ascii(b, 0, 4) === "OggS" },
  {
    kind: "audio",
    name: "AIFF",
    demuxer: "aiff",
    test: (b) => ascii(b, 0, 4) === "FORM" && ["AIFF", "AIFC"].includes(ascii(b, 8, 4)),
  },
  { kind: "audio", name: "AMR", demuxer: "amr", test: (b) => ascii(b, 0, 5) === "#!AMR" },
  { kind: "audio", name: "CAF", demuxer: "caf", test: (b) => ascii(b, 0, 4) === "caff" },
  { kind: "video", name: "FLV", demuxer: "flv", test: (b) => ascii(b, 0, 3) === "FLV" },
  {
    kind: "video",
    name: "Windows Media",
    demuxer: "asf",
    test: (b) => starts(b, 0x30, 0x26, 0xb2, 0x75, 0x8e, 0x66, 0xcf, 0x11),
  },
  {
    kind: "video",
    name: "MPEG program stream",
    demuxer: "mpeg",
    test: (b) => starts(b, 0, 0, 1, 0xba),
  },
  {
    kind: "video",
    name: "MPEG transport stream",
    demuxer: "mpegts",
    test: (b) => b[0] === 0x47 && b[188] === 0x47 && b[376] === 0x47,
  },
  {
    kind: "audio",
    name: "AAC",
    demuxer: "aac",
    test: (b) => b[0] === 0xff && ((b[1] ?? 0) & 0xf6) === 0xf0,
  },
  {
    kind: "audio",
    name: "MP3",
    demuxer: "mp3",
    test: (b) => ascii(b, 0, 3) === "ID3" || (b[0] === 0xff && ((b[1] ?? 0) & 0xe0) === 0xe0),
  },
];

const heic = ["heic", "heix", "hevc", "heim", "heis", "mif1", "msf1"];
const textual = (bytes: Uint8Array) =>
  bytes.length > 0 &&
  bytes.subarray(0, 512).every((b) => b >= 0x20 || b === 9 || b === 10 || b === 13);

/** The format of a file from its first bytes, or why it cannot be media. */
export function readSignature(bytes: Uint8Array): MediaSignature | { reason: string } {
  if (bytes.length === 0) return { reason: "the file is empty" };
  const major = brand(bytes);
  if (heic.includes(major)) return { reason: "it is a HEIC picture; convert it to JPEG or PNG" };
  if (major === "avif" || major === "avis")
    return { reason: "it is an AVIF picture; convert it to JPEG, PNG or WebP" };
  if (riff("WEBP")(bytes) && ascii(bytes, 12, 4) === "VP8X" && ((bytes[20] ?? 0) & 0x02) !== 0)
    return { reason: "it is an animated WebP; convert it to GIF or MP4" };
  const rule = rules.find(({ test }) => test(bytes));
  if (rule) {
    const { kind, name, demuxer } = rule;
    return { kind, name, demuxer, extension: extensions[name] ?? demuxer };
  }
  const text = ascii(bytes, 0, 256).trimStart();
  if (text.startsWith("#EXTM3U") || text.startsWith("ffconcat"))
    return { reason: "it is a playlist; give the media files themselves" };
  if (/^<(\?xml|svg|!doctype svg)/i.test(text) && /<svg/i.test(ascii(bytes, 0, 2048)))
    return { reason: "it is an SVG drawing; convert it to PNG" };
  if (/^<(!doctype|html|\?xml)/i.test(text))
    return { reason: "it is a web page; the link does not lead to the media itself" };
  if (textual(bytes)) return { reason: "it is a text file" };
  return { reason: "its format is not known" };
}

/** Turns of a picture as the Exif standard numbers them, as FFmpeg filters. */
const orientationFilters: Record<number, string> = {
  2: "hflip",
  3: "hflip,vflip",
  4: "vflip",
  5: "transpose=cclock_flip",
  6: "transpose=clock",
  7: "transpose=clock_flip",
  8: "transpose=cclock",
};

/** Filters that set a JPEG upright, from its Exif orientation; "" when it is upright already. */
export function jpegOrientation(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 2; at + 4 <= bytes.length && bytes[at] === 0xff; ) {
    const marker = bytes[at + 1] ?? 0;
    const length = view.getUint16(at + 2);
    if (marker === 0xe1 && ascii(bytes, at + 4, 4) === "Exif")
      return orientationFilters[exifOrientation(view, at + 10)] ?? "";
    if (marker === 0xda || length < 2) return "";
    at += 2 + length;
  }
  return "";
}

function exifOrientation(view: DataView, start: number): number {
  if (start + 8 > view.byteLength) return 1;
  const little = view.getUint16(start) === 0x4949;
  const directory = start + view.getUint32(start + 4, little);
  if (directory + 2 > view.byteLength) return 1;
  const count = view.getUint16(directory, little);
  for (let n = 0; n < count; n++) {
    const entry = directory + 2 + n * 12;
    if (entry + 12 > view.byteLength) return 1;
    if (view.getUint16(entry, little) === 0x0112) return view.getUint16(entry + 8, little);
  }
  return 1;
}
