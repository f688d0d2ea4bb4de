import { describe, expect, test } from "@jest/globals";
import { AppError } from "../../lib/errors.ts";
import { failureOf } from "../../services/compose/execution.ts";

describe("failure of an attempt", () => {
  test("an error that can never go well is not tried again", () => {
    const error = new AppError("TIMELINE_INVALID", { reason: "tracks[0] is empty" });
    expect(failureOf(error)).toMatchObject({
      retryable: false,
      error: { type: "TIMELINE_INVALID", message: "Invalid timeline: tracks[0] is empty" },
    });
  });

  test("an error that may pass is tried again", () => {
    const error = new AppError("STORAGE_FAILED", { reason: "connection reset" });
    expect(failureOf(error)).toMatchObject({ retryable: true, error: { type: "STORAGE_FAILED" } });
  });

  test("a full disk is named as that", () => {
    const error = Object.assign(new Error("ENOSPC: no space left on device, write"), {
      code: "ENOSPC",
    });
    expect(failureOf(error)).toMatchObject({ retryable: true, error: { type: "DISK_FULL" } });
  });

  test("an unknown error tells a reference and nothing of its text", () => {
    const { error, retryable } = failureOf(new Error("secret path"));
    expect(retryable).toBe(true);
    expect(error.type).toBe("INTERNAL");
    expect(JSON.stringify(error)).not.toContain("secret");
  });
});
