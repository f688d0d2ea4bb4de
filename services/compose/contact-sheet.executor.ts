import { join } from "node:path";
import { ContactSheetPayload } from "./contact-sheet.payload.ts";
import type { Executor } from "./executor.ts";
import { contactSheet } from "./media/contact-sheet.ts";
import { readRender } from "./media/verify-render.ts";

/** A contact sheet of a video that was stored without one, so that an agent can see it all the same. */
export const contactSheetExecutor: Executor<typeof ContactSheetPayload> = {
  kind: "contact-sheet",
  payload: ContactSheetPayload,
  async execute(source, tools) {
    const file = join(tools.workDir, "video");
    await tools.download(source, file);
    tools.progress(0.3, "sheet");
    const facts = await readRender(file, tools);
    const sheet = join(tools.workDir, "contact-sheet.png");
    await contactSheet(file, sheet, facts, tools);
    const output = { name: "contact-sheet.png", contentType: "image/png", role: "contact-sheet" };
    return { outputs: [await tools.upload(sheet, output)], info: { ...facts } };
  },
};
