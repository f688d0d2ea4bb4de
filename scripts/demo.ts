import { existsSync, mkdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { ConfigError, loadConfig } from "../lib/config.ts";
import { makeDemo } from "./demo/make-demo.ts";
import { openProduct } from "./demo/open-product.ts";

const help = `Makes a short vertical video through the public interface.

  npm run demo                              with the sample material
  npm run demo -- a.jpg b.mp4 voice.wav     with your own: pictures and clips in this order,
                                            the first sound is the voice, the second the music
  --out DIR    where the video and the contact sheet go (default: out)
  --help`;

// npm runs scripts in the project's folder; the user's paths are meant from where they stand.
const from = process.env["INIT_CWD"] ?? process.cwd();

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { out: { type: "string", default: "out" }, help: { type: "boolean", short: "h" } },
  });
  if (values.help) return console.log(help);
  const files = positionals.map((file) => resolve(from, file));
  const absent = files.find((file) => !existsSync(file));
  if (absent) throw new ConfigError(`there is no file ${absent}`);
  const out = resolve(from, values.out);
  mkdirSync(out, { recursive: true });

  const { config } = loadConfig();
  const product = await openProduct(config);
  const interrupted = new AbortController();
  process.once("SIGINT", () => interrupted.abort());
  process.once("SIGTERM", () => interrupted.abort());
  try {
    console.log(`product    ${product.url}${product.own ? "" : " (was running already)"}`);
    const made = await makeDemo({
      config,
      url: product.url,
      files,
      out,
      signal: interrupted.signal,
    });
    const shown = (file: string) => relative(from, file) || file;
    console.log(`video      ${shown(made.video)}`);
    await writeFile(join(out, "demo-contact-sheet.png"), made.sheet);
    console.log(`pictures   ${shown(join(out, "demo-contact-sheet.png"))}`);
  } finally {
    await product.close();
  }
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(`demo: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  },
);
