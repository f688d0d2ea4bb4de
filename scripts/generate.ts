import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { referencePage } from "./generate/reference.ts";

/** Files that are derived from the code, by path from the root. */
const pages: Record<string, () => string> = { "docs/REFERENCE.md": referencePage };

for (const [name, make] of Object.entries(pages)) {
  const path = fileURLToPath(new URL(`../${name}`, import.meta.url));
  const text = make();
  let before: string | undefined;
  try {
    before = readFileSync(path, "utf8");
  } catch {
    // Written for the first time.
  }
  if (before !== text) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  console.log(`${name}: ${before === text ? "up to date" : "written"}`);
}
