import type { TimelineRequestInput } from "../compose/timeline/timeline.schema.ts";
import { transitionKinds } from "../compose/timeline/timeline.schema.ts";

/** A complete request with one of everything; a test holds it against the schema. */
export const exampleRequest: TimelineRequestInput = {
  timeline: {
    tracks: [
      {
        type: "video",
        clips: [
          {
            src: "https://example.com/street.jpg",
            duration: 4,
            zoom: { from: { scale: 1 }, to: { scale: 1.2, y: 0.4 }, ease: "smooth" },
            transition: { kind: "fade", duration: 0.6 },
          },
          {
            src: "https://example.com/cook.mp4",
            trim: { start: 2, end: 7 },
            fit: "blur",
            volume: 0.3,
          },
          { src: "https://example.com/dish.jpg", duration: 3, zoom: {} },
        ],
      },
      {
        type: "overlay",
        clips: [
          {
            src: "https://example.com/logo.png",
            start: 0,
            duration: 11,
            scale: 0.18,
            position: { anchor: "top-right" },
            opacity: 0.9,
          },
        ],
      },
      {
        type: "audio",
        role: "voice",
        clips: [{ src: "https://example.com/voice.wav", start: 0.5 }],
      },
      {
        type: "text",
        clips: [
          { text: "深夜面馆", start: 0.3, duration: 3, animation: "rise", style: { size: 0.12 } },
        ],
      },
      {
        type: "subtitle",
        cues: [
          { start: 0.5, end: 3, text: "这家店，只在晚上开门。" },
          { start: 3.2, end: 6, text: "一碗面，十五分钟。" },
        ],
      },
      {
        type: "subtitle",
        cues: [
          { start: 0.5, end: 3, text: "This place opens only at night." },
          { start: 3.2, end: 6, text: "One bowl, fifteen minutes." },
        ],
        style: { size: 0.04, colour: "#FFE9B0" },
      },
    ],
    music: { src: "https://example.com/music.mp3", volume: 0.4, fadeOut: 1.5 },
  },
  output: { width: 1080, height: 1920, fps: 30, quality: "standard" },
};

/** How a timeline is written, for agents: short enough to read before every video. */
export const timelineGuide = `# Timelines

A request to \`compose_timeline_ffmpeg\` is \`{ timeline, output?, options?, run_id?, idempotency_key?, priority? }\`.
All times are seconds. Unknown fields are errors, so that a typing mistake is never ignored.

## Tracks

\`timeline.tracks\` is a list of tracks, \`timeline.music\` the background music.

| type | what it holds | note |
|---|---|---|
| video | the main picture: \`clips\` of videos and images, one after another | at most one |
| overlay | pictures or videos on top: \`position\`, \`scale\`, \`opacity\` | later tracks lie above |
| audio | voice (\`role: "voice"\`) or \`"effects"\` | music goes down while a voice sounds |
| text | titles and captions placed by hand: \`text\`, \`style\`, \`animation\` (none, fade, rise) | |
| subtitle | exactly one of \`cues\`, \`srt\` (text of the file), \`src\` (the file) | several are stacked |

- \`src\` is an http(s) URL, \`oss://bucket/key\`, or the key of an object in the default bucket.
- A clip without \`start\` begins where the one before it ends. Images last 3 s unless \`duration\` is given.
- \`trim: {start, end}\` uses a part of a video; \`speed\` 0.25 to 4; \`volume\` 0 to 4.
- \`fit\`: cover (fills, cuts off), contain (bars), blur (in front of a blurred copy of itself).
- \`zoom: {}\` is a gentle zoom in on a still; \`from\` and \`to\` take \`scale\`, \`x\`, \`y\`.
- \`transition\` belongs to the clip that ends. The clips overlap, so the video gets shorter by its duration.
  Kinds: ${transitionKinds.join(", ")}.
- \`music\` loops and goes down under the voice unless told otherwise (\`loop\`, \`duck\`).
- \`output\`: default 1080x1920 at 30 frames a second; width and height even; \`quality\` draft, standard or high.
  \`durationFrom\`: "video" (default) cuts sound that is longer than the pictures; "longest" holds the last frame.

## Steps

1. \`generate_storyboard\` from an idea or a script, or write the timeline yourself.
2. \`batch_dubbing\` for the voice. Each line has \`url\` and \`duration_ms\`: give its scene at least that long.
3. \`compose_timeline_ffmpeg\`, first with \`quality: "draft"\` if you want to look before you spend time.
4. \`jobs_wait\` until \`ended\`, then \`preview_job\` to see it, then hand over \`media_url\`.

## Complete example

\`\`\`json
${JSON.stringify(exampleRequest, null, 2)}
\`\`\`
`;
