const types: Record<string, string> = {
  aac: "audio/aac",
  ass: "text/plain; charset=utf-8",
  avif: "image/avif",
  csv: "text/csv; charset=utf-8",
  flac: "audio/flac",
  gif: "image/gif",
  html: "text/html; charset=utf-8",
  jpeg: "image/jpeg",
  jpg: "image/jpeg",
  json: "application/json",
  m4a: "audio/mp4",
  m4v: "video/mp4",
  md: "text/plain; charset=utf-8",
  mkv: "video/x-matroska",
  mov: "video/quicktime",
  mp3: "audio/mpeg",
  mp4: "video/mp4",
  ogg: "audio/ogg",
  opus: "audio/ogg",
  pdf: "application/pdf",
  png: "image/png",
  srt: "text/plain; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
  vtt: "text/vtt; charset=utf-8",
  wav: "audio/wav",
  webm: "video/webm",
  webp: "image/webp",
  zip: "application/zip",
};

/** Media type by the ending of an object's name, where nobody has said one. */
export function contentTypeOfKey(key: string): string {
  const ending = /\.(\w{1,5})$/.exec(key)?.[1]?.toLowerCase() ?? "";
  return types[ending] ?? "application/octet-stream";
}
