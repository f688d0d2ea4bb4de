import { AppError } from "../../lib/errors.ts";
import type { Prompt } from "./mcp.contract.ts";
import { nearestName } from "./nearest-name.policy.ts";

interface PromptDefinition {
  listed: Prompt;
  text: (given: Record<string, string>) => string;
}

const argument = (name: string, description: string, required = false) => ({
  name,
  description,
  required,
});

/** Ways of working that have proved themselves, ready for an agent. */
export const prompts: readonly PromptDefinition[] = [
  {
    listed: {
      name: "make_short_video",
      title: "Make a short video",
      description: "From an idea to a finished upright video: storyboard, voice, render, check.",
      arguments: [
        argument("topic", "What the video is about", true),
        argument("language", "zh or en; default: the language of the topic"),
        argument("seconds", "Length in seconds; default 30"),
        argument("materials", "URLs of pictures and videos to use, separated by spaces"),
        argument("run_id", "Agent app run that gets the result"),
      ],
    },
    text: ({ topic, language, seconds = "30", materials, run_id }) =>
      `Make a short upright video about: ${topic}
Length: about ${seconds} seconds.${language ? ` Language: ${language}.` : ""}${materials ? `\nUse these materials: ${materials}` : ""}

Work like this:
1. Write a script of short spoken sentences: a first sentence that makes people stay, one thought per sentence, a last sentence that says what to do.
2. Call generate_storyboard with that script${materials ? " and the materials" : ""}. Read its scenes; improve text and order until they tell one story.
3. Call batch_dubbing with the scenes' text. Make each scene at least as long as its line plus 0.3 seconds, and put the audio on a track of type audio with role voice.
4. Add subtitles with the same words and times. Add a title in the first two seconds.
5. Call compose_timeline_ffmpeg with output.quality "draft"${run_id ? ` and run_id "${run_id}"` : ""}. Wait with jobs_wait.
6. Look at it with preview_job: are faces and captions inside the frame, is every picture right? Correct the timeline if not.
7. Render again with quality "standard"${run_id ? " and the same run_id" : ""}, wait, and answer with media_url, the length and one sentence on what it shows.

If a tool reports an error, it names the field and what would be right: correct exactly that.`,
  },
  {
    listed: {
      name: "edit_video",
      title: "Change a video",
      description:
        "Change a video that was rendered before: what to keep, what to alter, how to check it.",
      arguments: [
        argument("job_id", "Job of the video", true),
        argument("changes", "What should be different", true),
      ],
    },
    text: ({ job_id, changes }) =>
      `Change the video of job ${job_id}: ${changes}

1. Call preview_job with job_id ${job_id} to see what it looks like now, and jobs_get for its length and outputs.
2. Take the timeline that it was made from (from this conversation, or from its storyboard among the resources). Change only what was asked for: parts that stay the same are not rendered again.
3. Render with compose_timeline_ffmpeg, wait with jobs_wait, and look at the result with preview_job.
4. Answer with media_url and what is different now, scene by scene. Say so if something could not be done.`,
  },
  {
    listed: {
      name: "subtitle_video",
      title: "Add subtitles to a video",
      description: "Burn subtitles in one or two languages into an existing video.",
      arguments: [
        argument("video", "URL or storage key of the video", true),
        argument("srt", "Text of an SRT file, if there is one"),
        argument("second_language", "Also show a translation into this language"),
      ],
    },
    text: ({ video, srt, second_language }) =>
      `Add subtitles to this video: ${video}
${srt ? `The subtitles:\n${srt}` : "There is no subtitle file: ask for the spoken words and their times; don't invent them."}

1. Build a timeline with one video track that holds the video as its only clip.
2. Add a track of type subtitle with these words.${second_language ? ` Add a second one below it with a faithful translation into ${second_language}, in smaller letters (style.size 0.04).` : ""}
3. Render with compose_timeline_ffmpeg, wait with jobs_wait, and look at the result with preview_job: no line may hide a face or run out of the frame.
4. Answer with media_url.`,
  },
];

/** @throws NOT_FOUND or INVALID_INPUT, in words that an agent can act on. */
export function findPrompt(name: string, given: Record<string, string>) {
  const prompt = prompts.find(({ listed }) => listed.name === name);
  if (!prompt) {
    const known = prompts.map(({ listed }) => listed.name);
    const meant = nearestName(name, known);
    throw new AppError("NOT_FOUND", {
      what: `Prompt "${name}" (${meant ? `did you mean ${meant}? ` : ""}there are ${known.join(", ")})`,
    });
  }
  const { listed, text } = prompt;
  const missing = listed.arguments
    .filter(({ name: key, required }) => required && !given[key]?.trim())
    .map(({ name: key }) => ({ path: key, message: "is missing" }));
  const unknown = Object.keys(given)
    .filter((key) => !listed.arguments.some((one) => one.name === key))
    .map((key) => ({
      path: key,
      message: `unknown argument; there are ${listed.arguments.map((one) => one.name).join(", ")}`,
    }));
  const issues = [...missing, ...unknown];
  if (issues.length > 0)
    throw new AppError("INVALID_INPUT", {
      reason: issues.map(({ path, message }) => `${path}: ${message}`).join("; "),
      issues,
    });
  return {
    description: listed.description,
    messages: [{ role: "user" as const, content: { type: "text" as const, text: text(given) } }],
  };
}
