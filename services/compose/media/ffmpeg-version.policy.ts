/** What the first lines of `ffmpeg -version`, `-encoders` and `-filters` tell. */
export interface FfmpegBuild {
  /** As the program prints it, e.g. "5.1.9-0+deb12u1". */
  version: string;
  /** Absent for a build from a source snapshot, which carries no release number. */
  release?: { major: number; minor: number };
  encoders: readonly string[];
  filters: readonly string[];
}

/** Oldest release whose filters and options the plans use. */
export const oldestRelease = { major: 5, minor: 1 };
export const neededEncoders = ["libx264", "aac", "png"];
export const neededFilters = ["ass", "xfade", "loudnorm", "zoompan"];

const words = (listing: string, row: RegExp): string[] =>
  listing.split("\n").flatMap((line) => row.exec(line)?.[1] ?? []);

export function readBuild(
  versionText: string,
  encodersText: string,
  filtersText: string,
): FfmpegBuild {
  const version = /^ffmpeg version (\S+)/.exec(versionText)?.[1] ?? "unknown";
  const numbers = /^n?(\d+)\.(\d+)/.exec(version);
  return {
    version,
    release: numbers ? { major: Number(numbers[1]), minor: Number(numbers[2]) } : undefined,
    encoders: words(encodersText, /^ [VAS][A-Z.]{5} (\w+)/),
    filters: words(filtersText, /^ [A-Z.]{2,3} (\w+) +[AVN|]+->/),
  };
}

/** Why a build cannot be used, in words that follow "it"; none: it can. */
export function buildShortcoming(build: FfmpegBuild): string | undefined {
  const { release } = build;
  if (
    release &&
    (release.major < oldestRelease.major ||
      (release.major === oldestRelease.major && release.minor < oldestRelease.minor))
  )
    return `is version ${build.version}; ${oldestRelease.major}.${oldestRelease.minor} or newer is needed`;
  const missing = [
    ...neededEncoders.filter((name) => !build.encoders.includes(name)).map((n) => `encoder ${n}`),
    ...neededFilters.filter((name) => !build.filters.includes(name)).map((n) => `filter ${n}`),
  ];
  return missing.length > 0
    ? `was built without ${missing.join(", ")} (the ass filter needs libass)`
    : undefined;
}
