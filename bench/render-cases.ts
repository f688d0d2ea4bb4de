import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { output as demoOutput, sampleTimeline } from "../scripts/demo/timeline.ts";
import type { Ffmpeg } from "../services/compose/media/ffmpeg.ts";
import { filterValue } from "../services/compose/media/ffmpeg-command.ts";
import type { TimelineRequestInput } from "../services/compose/timeline/timeline.schema.ts";

export interface RenderCase {
  name: string;
  request: TimelineRequestInput;
  /** Source name to file. */
  files: ReadonlyMap<string, string>;
  /** The command that somebody who knows FFmpeg well would write for the same picture and sound. */
  byHand: (assFile: string, output: string) => string[];
}

const run = promisify(execFile);
/** The encoding of quality "standard", as the product does it. */
// biome-ignore format: option and value side by side
const encode = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "21", "-pix_fmt", "yuv420p", "-g", "50",
  "-c:a", "aac", "-b:a", "160k", "-ar", "48000", "-movflags", "+faststart"];
const texts = (assFile: string, ffmpeg: Ffmpeg) =>
  `ass=filename=${filterValue(assFile)}:fontsdir=${filterValue(ffmpeg.fontsDir)}`;

/** Zoom to a point by moving the corners; `zoom` is the scale as an expression of the share in register 0. */
function zoom(frames: number, scale: string, x: string, y: string): string {
  const share = `st(0,clip(on/${frames - 1},0,1));st(1,0.5/(${scale}));`;
  const edge = (side: string, centre: string, sign: string) =>
    `'${share}${side}*(clip(${centre},ld(1),1-ld(1))${sign}ld(1))'`;
  const [left, right, top, bottom] = [
    edge("W", x, "-"),
    edge("W", x, "+"),
    edge("H", y, "-"),
    edge("H", y, "+"),
  ];
  return `perspective=x0=${left}:y0=${top}:x1=${right}:y1=${top}:x2=${left}:y2=${bottom}:x3=${right}:y3=${bottom}:interpolation=cubic:eval=frame`;
}

/** The timeline of `npm run demo`: 10 s, 720x1280. */
export function demoCase(ffmpeg: Ffmpeg, samples: string): RenderCase {
  const names = ["sea.mp4", "coffee.jpg", "pool.jpg", "voice.m4a", "music.m4a"];
  const files = new Map(names.map((name) => [name, join(samples, name)]));
  const [sea = "", coffee = "", pool = "", voice = "", music = ""] = files.values();
  const still = (frames: number) =>
    `crop=810:1440:134:0,scale=720:1280:out_color_matrix=bt709:out_range=tv,format=yuv420p,setsar=1,loop=${frames - 1}:1,settb=1/25,setpts=N,fps=25,trim=end_frame=${frames}`;
  const graph = (assFile: string) =>
    [
      "[0:v]scale=720:1280,setsar=1,format=yuv420p,tpad=stop_mode=clone:stop=15,settb=1/25[sea]",
      `[1:v]${still(85)},${zoom(85, "pow(1.16,ld(0))", "0.5+0.02*ld(0)", "0.5+0.08*ld(0)")}[coffee]`,
      `[2:v]${still(105)},${zoom(105, "1.18*pow(1/1.18,ld(0))", "0.5", "0.6-0.1*ld(0)")}[pool]`,
      "[sea][coffee]xfade=duration=0.6:offset=3[a]",
      // A frame less than 5.8 s: here xfade is a frame late, which somebody who looks would correct.
      "[a][pool]xfade=duration=0.6:offset=5.76[b]",
      `[b]${texts(assFile, ffmpeg)}[v]`,
      "[3:a]aresample=48000,pan=stereo|c0=c0|c1=c0,adelay=1000:all=1,apad=whole_dur=10,asplit[voice][key]",
      "[4:a]atrim=end=10,volume=0.5,afade=t=out:st=9:d=1:curve=qsin[music]",
      "[music][key]sidechaincompress=threshold=0.02:ratio=3.333333:attack=50:release=600:detection=rms[quiet]",
      "[voice][quiet]amix=normalize=0,alimiter=limit=0.95:level=0,atrim=end=10[a2]",
    ].join(";");
  return {
    name: "demo, 10 s, 720x1280 at 25",
    request: {
      timeline: sampleTimeline({
        sea: "sea.mp4",
        coffee: "coffee.jpg",
        pool: "pool.jpg",
        voice: "voice.m4a",
        music: "music.m4a",
      }) as TimelineRequestInput["timeline"],
      output: demoOutput,
    },
    files,
    // biome-ignore format: option and value side by side
    byHand: (assFile, output) => ["-i", sea, "-i", coffee, "-i", pool, "-i", voice, "-i", music,
      "-filter_complex", graph(assFile), "-map", "[v]", "-map", "[a2]", "-t", "10", ...encode, output],
  };
}

const clipCount = 12;
const clipS = 5.4;
const crossS = 0.4;
/** 12 clips of 5.4 s that overlap by 0.4 s eleven times. */
const lengthS = clipCount * clipS - (clipCount - 1) * crossS;

/** Makes the sources of the long case: four moving pictures and two sounds. */
async function makeLongSources(
  ffmpeg: Ffmpeg,
  samples: string,
  dir: string,
): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const make = async (name: string, args: string[]) => {
    const file = join(dir, name);
    await run(ffmpeg.ffmpeg, ["-v", "error", "-nostdin", "-y", ...args, file], {
      timeout: 120_000,
    });
    files.set(name, file);
  };
  for (let n = 0; n < 4; n++)
    // biome-ignore format: option and value side by side
    await make(`clip-${n}.mp4`, ["-stream_loop", "-1", "-i", join(samples, "sea.mp4"), "-t", "17", "-vf", `hue=h=${n * 80},noise=alls=4:allf=t:all_seed=${n + 1}`,
      "-c:v", "libx264", "-preset", "ultrafast", "-crf", "23", "-pix_fmt", "yuv420p"]);
  await make("voice.wav", [
    "-f",
    "lavfi",
    "-i",
    `sine=220:d=${lengthS},volume='0.5*gt(mod(t,3),1)':eval=frame`,
  ]);
  await make("music.wav", ["-f", "lavfi", "-i", "sine=330:d=70", "-ac", "2"]);
  return files;
}

/** One minute: twelve cut clips with cross-fades, subtitles, voice and music; 360x640. */
export async function longCase(ffmpeg: Ffmpeg, samples: string, dir: string): Promise<RenderCase> {
  const files = await makeLongSources(ffmpeg, samples, dir);
  const clips = Array.from({ length: clipCount }, (_, n) => ({
    src: `clip-${n % 4}.mp4`,
    // On a frame: between two, both choices would be right.
    startS: Math.floor(n / 4) * 5.6,
  }));
  const step = clipS - crossS;
  const graph = (assFile: string) => {
    const pieces = clips.map(
      (_, n) => `[${n}:v]scale=-2:640,crop=360:640,setsar=1,settb=1/25[p${n}]`,
    );
    const fades = clips.slice(1).map((_, n) => {
      const from = n === 0 ? "p0" : `x${n - 1}`;
      return `[${from}][p${n + 1}]xfade=duration=${crossS}:offset=${((n + 1) * step).toFixed(2)}[x${n}]`;
    });
    const [voice, music] = [clipCount, clipCount + 1];
    return [
      ...pieces,
      ...fades,
      `[x${clipCount - 2}]${texts(assFile, ffmpeg)}[v]`,
      `[${voice}:a]aresample=48000,pan=stereo|c0=c0|c1=c0,apad=whole_dur=${lengthS},asplit[voice][key]`,
      `[${music}:a]aresample=48000,atrim=end=${lengthS},volume=0.5[music]`,
      "[music][key]sidechaincompress=threshold=0.02:ratio=3.333333:attack=50:release=600:detection=rms[quiet]",
      `[voice][quiet]amix=normalize=0,alimiter=limit=0.95:level=0,atrim=end=${lengthS}[a]`,
    ].join(";");
  };
  const inputs = clips.flatMap(({ src, startS }) => [
    "-ss",
    String(startS),
    "-t",
    String(clipS),
    "-i",
    files.get(src) ?? "",
  ]);
  return {
    name: `one minute, ${lengthS.toFixed(1)} s, 360x640 at 25`,
    request: {
      timeline: {
        tracks: [
          {
            type: "video",
            clips: clips.map(({ src, startS }, n) => ({
              src,
              trim: { start: startS, end: startS + clipS },
              transition: n < clipCount - 1 ? { kind: "fade", duration: crossS } : undefined,
            })),
          },
          { type: "audio", clips: [{ src: "voice.wav", start: 0 }] },
          {
            type: "subtitle",
            cues: Array.from({ length: 20 }, (_, n) => ({
              start: n * 3,
              end: n * 3 + 2.5,
              text: `第 ${n + 1} 句字幕 line ${n + 1}`,
            })),
          },
        ],
        music: { src: "music.wav", volume: 0.5 },
      },
      output: { width: 360, height: 640, fps: 25 },
    },
    files,
    // biome-ignore format: option and value side by side
    byHand: (assFile, output) => [...inputs, "-i", files.get("voice.wav") ?? "", "-i", files.get("music.wav") ?? "",
      "-filter_complex", graph(assFile), "-map", "[v]", "-map", "[a]", "-t", String(lengthS), ...encode, output],
  };
}
