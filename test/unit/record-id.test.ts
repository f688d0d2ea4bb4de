import { describe, expect, test } from "@jest/globals";
import { idMaker, uuidV7 } from "../../lib/store/record-id.ts";

describe("record ids", () => {
  test("agree with the example of RFC 9562, appendix A.6", () => {
    const random = new Uint8Array([0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f]);
    expect(uuidV7(0x017f22e279b0, 0xcc3, random)).toBe("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  });

  test("rise within a millisecond, past the counter, and when the clock steps back", () => {
    const next = idMaker();
    const made = [
      ...Array.from({ length: 5000 }, () => next(1000)),
      next(400),
      next(1001),
      next(9000),
    ];
    expect([...made].sort()).toEqual(made);
    expect(new Set(made).size).toBe(made.length);
  });
});
