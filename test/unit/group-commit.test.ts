import { expect, test } from "@jest/globals";
import { GroupCommit, type Outcome } from "../../services/scheduler/group-commit.ts";

/** A writer whose groups wait until they are let go. */
function held(groupMax: number, underWayMax = 1) {
  const groups: { items: string[]; settle: (outcomes: Outcome<string>[] | Error) => void }[] = [];
  const commit = new GroupCommit<string, string>({
    write: (items) =>
      new Promise((resolve, reject) => {
        const settle = (outcomes: Outcome<string>[] | Error) =>
          outcomes instanceof Error ? reject(outcomes) : resolve(outcomes);
        groups.push({ items: [...items], settle });
      }),
    keyOf: (item) => item.split(":")[0]!,
    groupMax,
    underWayMax,
  });
  const done = (at: number) =>
    groups[at]!.settle(groups[at]!.items.map((item) => ({ value: `${item} done` })));
  return { commit, groups, done };
}
const turn = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

test("what comes in one turn goes together, what comes meanwhile in the next group", async () => {
  const { commit, groups, done } = held(3);
  const results = ["a", "b", "c", "d"].map((item) => commit.add(item));
  await turn();
  expect(groups.map(({ items }) => items)).toEqual([["a", "b", "c"]]);
  results.push(commit.add("e"));
  done(0);
  await turn();
  expect(groups[1]?.items).toEqual(["d", "e"]);
  done(1);
  expect(await Promise.all(results)).toEqual(["a done", "b done", "c done", "d done", "e done"]);
});

test("items of one key go one after the other, in order, and hold up nobody else", async () => {
  const { commit, groups, done } = held(10, 2);
  const results = ["a:1", "a:2", "b:1", "a:3"].map((item) => commit.add(item));
  await turn();
  expect(groups.map(({ items }) => items)).toEqual([["a:1", "b:1"]]);
  results.push(commit.add("c:1"));
  await turn();
  expect(groups[1]?.items).toEqual(["c:1"]);
  done(1);
  done(0);
  await turn();
  expect(groups[2]?.items).toEqual(["a:2"]);
  done(2);
  await turn();
  expect(groups[3]?.items).toEqual(["a:3"]);
  done(3);
  expect(await Promise.all(results)).toHaveLength(5);
});

test("an item's own error is its own; a group whose outcome is unknown is refused whole, and the next one goes", async () => {
  const { commit, groups, done } = held(2);
  const results = ["a", "b", "c", "d", "a"].map((item) =>
    commit.add(item).catch((error: Error) => error.message),
  );
  await turn();
  groups[0]!.settle([{ error: new Error("full") }, { value: "fine" }]);
  await turn();
  groups[1]!.settle(new Error("line broken"));
  await turn();
  done(2);
  expect(await Promise.all(results)).toEqual([
    "full",
    "fine",
    "line broken",
    "line broken",
    "a done",
  ]);
});
