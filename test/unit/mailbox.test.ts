import { describe, expect, test } from "@jest/globals";
import { Mailbox, MailboxFullError } from "../../mixins/mailbox.ts";

/** A handler that ends when the test says so. */
function controlled() {
  const running: { actor: string; message: string; end: (error?: Error) => void }[] = [];
  const handle = (actor: string, message: string) =>
    new Promise<string>((resolve, reject) => {
      const end = (error?: Error) => (error ? reject(error) : resolve(`${message} done`));
      running.push({ actor, message, end });
    });
  return { running, handle };
}
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe("mailbox", () => {
  test("an actor gets its messages one at a time in order, other actors do not wait", async () => {
    const { running, handle } = controlled();
    const mailbox = new Mailbox({ handle, waitingMax: 8 });
    const first = mailbox.send("a", "1");
    const second = mailbox.send("a", "2");
    const other = mailbox.send("b", "3");
    expect(running.map(({ message }) => message)).toEqual(["1", "3"]);
    running[0]!.end();
    expect(await first).toBe("1 done");
    await settled();
    expect(running.map(({ message }) => message)).toEqual(["1", "3", "2"]);
    running[1]!.end();
    running[2]!.end();
    expect(await Promise.all([second, other])).toEqual(["2 done", "3 done"]);
    expect(mailbox.busyCount).toBe(0);
  });

  test("a handler that fails rejects its sender only, the next message goes on", async () => {
    const { running, handle } = controlled();
    const mailbox = new Mailbox({ handle, waitingMax: 8 });
    const first = mailbox.send("a", "1");
    const second = mailbox.send("a", "2");
    running[0]!.end(new Error("disk full"));
    await expect(first).rejects.toThrow("disk full");
    await settled();
    running[1]!.end();
    expect(await second).toBe("2 done");
  });

  test("one message too many for an actor is refused at once", async () => {
    const { running, handle } = controlled();
    const mailbox = new Mailbox({ handle, waitingMax: 1 });
    const kept = [mailbox.send("a", "1"), mailbox.send("a", "2")];
    await expect(mailbox.send("a", "3")).rejects.toThrow(MailboxFullError);
    running[0]!.end();
    await settled();
    running[1]!.end();
    expect(await Promise.all(kept)).toEqual(["1 done", "2 done"]);
  });
});
