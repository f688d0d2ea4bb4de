import { describe, expect, test } from "@jest/globals";
import { DependencyStates, dependenciesOf } from "../../lib/dependency-state.ts";

describe("states of dependencies", () => {
  test("a declared server is down until it is reported up, and keeps the time of the change", () => {
    let now = 1_000;
    const states = new DependencyStates(() => now);
    const redis = states.declare("redis", { degrades: "Nothing is cached." });
    expect(states.list()).toEqual([
      {
        name: "redis",
        state: "down",
        since: 1_000,
        degrades: ["Nothing is cached."],
        essential: false,
        reason: "not connected yet",
      },
    ]);
    now = 2_000;
    redis.up();
    now = 3_000;
    redis.up();
    expect(states.list()).toMatchObject([{ state: "up", since: 2_000 }]);
    expect(states.list()[0]).not.toHaveProperty("reason");
    now = 4_000;
    redis.down("closed");
    now = 5_000;
    redis.down("refused");
    expect(states.list()).toMatchObject([{ state: "down", since: 4_000, reason: "refused" }]);
  });

  test("users of one server share its state, and it leaves the list with the last of them", () => {
    const states = new DependencyStates();
    const cache = states.declare("redis", { degrades: "Nothing is cached." });
    const limits = states.declare("redis", { degrades: "Limits count per node." });
    states.declare("mongodb", { degrades: "No records.", essential: true }).up();
    cache.up();
    expect(states.list().map(({ name, state, essential }) => [name, state, essential])).toEqual([
      ["mongodb", "up", true],
      ["redis", "up", false],
    ]);
    expect(states.list()[1]!.degrades).toEqual(["Nothing is cached.", "Limits count per node."]);
    cache.withdraw();
    expect(states.list()[1]!.degrades).toEqual(["Limits count per node."]);
    limits.withdraw();
    limits.withdraw();
    expect(states.list().map(({ name }) => name)).toEqual(["mongodb"]);
  });

  test("two nodes of one process have registries of their own", () => {
    const [a, b] = [{}, {}];
    dependenciesOf(a).declare("redis", { degrades: "x" });
    expect(dependenciesOf(a).list()).toHaveLength(1);
    expect(dependenciesOf(b).list()).toEqual([]);
  });
});
