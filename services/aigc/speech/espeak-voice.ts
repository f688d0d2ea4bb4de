import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "../../../lib/errors.ts";
import { aigcLimits } from "../config.ts";
import type { Speech, SpeechRequest, SpeechVoice, Voice } from "./speech-voice.ts";
import { wavDurationMs } from "./wav-duration.policy.ts";

const PROGRAM = "espeak-ng";
const INSTALL =
  "install espeak-ng: apt-get install espeak-ng (Debian, Ubuntu), dnf install espeak-ng (Fedora), brew install espeak-ng (macOS), winget install eSpeak-NG.eSpeak-NG (Windows)";
/** Words a minute at speed 1: the program's own default. */
const WORDS_PER_MINUTE = 175;
const OUTPUT_MAX = 256 * 1024;

const chinese = /[\u3400-\u9fff\uf900-\ufaff]/;

interface Finished {
  code: number | null;
  output: string;
  errors: string;
}

/** Runs the program without a shell; the text goes in by standard input, so that no text is ever an option. */
function run(args: readonly string[], input: string, signal: AbortSignal): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const child = spawn(PROGRAM, args, {
      stdio: ["pipe", "pipe", "pipe"],
      // The tokens and keys of this process are none of the program's business.
      env: Object.fromEntries(
        ["PATH", "HOME", "SystemRoot", "ESPEAK_DATA_PATH"].flatMap((name) =>
          process.env[name] === undefined ? [] : [[name, process.env[name]]],
        ),
      ),
      signal,
      killSignal: "SIGKILL",
    });
    let output = "";
    let errors = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      if (output.length < OUTPUT_MAX) output += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors = (errors + text).slice(-2000);
    });
    child.stdin.on("error", () => undefined);
    child.on("error", (error: NodeJS.ErrnoException) =>
      reject(
        error.code === "ENOENT" || error.code === "EACCES"
          ? new AppError("VOICE_MISSING", { fix: INSTALL })
          : error,
      ),
    );
    child.on("close", (code) => resolve({ code, output, errors }));
    child.stdin.end(input);
  });
}

/** Rows of `espeak-ng --voices`: priority, language, age/gender, name, file, other languages. */
export function readVoices(table: string): Voice[] {
  return table
    .split("\n")
    .slice(1)
    .flatMap((line) => {
      const [, language, ageGender, name] = line.trim().split(/\s+/);
      if (!language || !name) return [];
      const gender = ageGender?.endsWith("F") ? "female" : "male";
      return [
        { name: language, language, about: `${name.replaceAll("_", " ")}, ${gender}, espeak-ng` },
      ];
    });
}

/** Text that the program reads as text: no control characters, no phonemes in double brackets. */
const speakable = (text: string) =>
  text
    .replace(/\p{Cc}+/gu, " ")
    .replaceAll("[[", "[ [")
    .trim();

/** The voice that works without a model or an account: the program espeak-ng on this machine. */
export class EspeakVoice implements SpeechVoice {
  readonly provider = "espeak-ng";
  #voices: readonly Voice[] | undefined;

  async voices(): Promise<readonly Voice[]> {
    if (!this.#voices) {
      const { output } = await run(
        ["--voices"],
        "",
        AbortSignal.timeout(aigcLimits.dubbing.lineMs),
      );
      this.#voices = readVoices(output);
    }
    return this.#voices;
  }

  defaultVoice(text: string): string {
    return chinese.test(text) ? "cmn" : "en-us";
  }

  async speak({ text, voice, speed, pitch }: SpeechRequest, signal: AbortSignal): Promise<Speech> {
    const directory = await mkdtemp(join(tmpdir(), "reelmesh-speech-"));
    try {
      // A file and not standard output: only there does the header get its real length.
      const file = join(directory, "line.wav");
      const { code, errors } = await run(
        [
          ...["-v", voice, "-b", "1", "--stdin", "-w", file],
          ...["-s", String(Math.round(WORDS_PER_MINUTE * speed))],
          ...["-p", String(Math.round(50 + 49 * pitch))],
        ],
        speakable(text),
        signal,
      );
      const wav = code === 0 ? await readFile(file).catch(() => undefined) : undefined;
      const durationMs = wav && wavDurationMs(wav);
      if (!wav || !durationMs)
        throw new AppError("UNAVAILABLE", {
          reason: `espeak-ng did not speak: ${errors.trim() || `it ended with code ${code}`}`,
        });
      return { wav, durationMs };
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }
}
