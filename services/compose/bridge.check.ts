import type { ComposePayload } from "./compose.payload.ts";
import { composeTimeline } from "./compose.plan.ts";
import { TimelineLimits } from "./timeline/config.ts";
import { checkKnownPictures } from "./timeline/known-pictures.plan.ts";
import { timelineSources } from "./timeline/sources.plan.ts";
import { parseSrt } from "./timeline/srt.plan.ts";
import { planTimeline } from "./timeline/timeline.plan.ts";
import { type Cue, TimelineRequest } from "./timeline/timeline.schema.ts";

/**
 * What a timeline contradicts by itself, without a look at its media: subtitles that are none, times of
 * pictures that cannot be together, and where no media are needed, everything.
 * @throws AppError TIMELINE_INVALID naming the clip by path.
 */
export function checkTimeline(request: TimelineRequest): void {
  const { timeline, output } = request;
  const cues = new Map<number, readonly Cue[]>();
  for (const [at, track] of timeline.tracks.entries()) {
    if (track.type !== "subtitle") continue;
    if (track.cues) cues.set(at, track.cues);
    if (track.srt !== undefined)
      cues.set(at, parseSrt(track.srt, `timeline.tracks[${at}].srt`, TimelineLimits.cues));
  }
  const { media, subtitles } = timelineSources(timeline);
  if (media.length === 0 && subtitles.length === 0) planTimeline(timeline, output, new Map(), cues);
  else checkKnownPictures(request);
}

/** The same for media in a row: their subtitles. */
export const checkComposition = (task: ComposePayload): void =>
  checkTimeline(TimelineRequest.parse(composeTimeline(task)));
