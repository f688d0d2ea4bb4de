import { readFileSync } from "node:fs";
import { expect, test } from "@jest/globals";
import { referencePage } from "../../scripts/generate/reference.ts";

test("the reference page says what the code says (else: npm run generate)", () => {
  const written = readFileSync(new URL("../../docs/REFERENCE.md", import.meta.url), "utf8");
  expect(written).toBe(referencePage());
});
