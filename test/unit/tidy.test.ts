import { globSync, readFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "@jest/globals";

/** House rules that a machine can check. A rule with an exception names it here, with the reason. */

const root = fileURLToPath(new URL("../../", import.meta.url));
const find = (...patterns: string[]) =>
  globSync(patterns, { cwd: root })
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => !path.includes("node_modules/"))
    .sort();

const code = find("{lib,services,mixins,scripts,bench}/**/*.ts", "*.ts");
const tests = find("test/**/*.ts");
const text = new Map(
  [...code, ...tests].map((path) => [path, readFileSync(resolve(root, path), "utf8")]),
);
const pure = code.filter((path) => /\.(step|policy|plan)\.ts$/.test(path));

/** Code without comments and strings: what is banned may be talked about. */
const bare = (source: string) =>
  source
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/(^|[^:])\/\/.*$/gm, "$1")
    .replace(/"(?:[^"\\\n]|\\.)*"/g, '""');

interface Import {
  from: string;
  typeOnly: boolean;
}
const importsOf = (path: string): Import[] => {
  const pattern = /^(?:import|export)\s+(type\s+)?(?:([\s\S]*?)\s+from\s+)?"([^"]+)"/gm;
  return [...text.get(path)!.matchAll(pattern)].map(([, type, names = "", from]) => {
    const inner = /^\{([\s\S]*)\}$/.exec(names.trim())?.[1];
    const parts =
      inner
        ?.split(",")
        .map((part) => part.trim())
        .filter(Boolean) ?? [];
    const allTypes = parts.length > 0 && parts.every((part) => part.startsWith("type "));
    return { from: from!, typeOnly: type !== undefined || allTypes };
  });
};
const localImports = (path: string): string[] =>
  importsOf(path)
    .filter(({ from, typeOnly }) => from.startsWith(".") && !typeOnly)
    .map(({ from }) => relative(root, resolve(root, dirname(path), from)).replaceAll("\\", "/"))
    .filter((target) => text.has(target));

/** The error table's class extends Moleculer's, so that errors cross the wire; throwing one is no I/O. */
const harmless = new Set(["lib/errors.ts: moleculer"]);

describe("pure files (*.step.ts, *.policy.ts, *.plan.ts)", () => {
  test("there are some", () => expect(pure.length).toBeGreaterThan(1));

  test.each(pure)("%s takes time and chance as arguments and waits for nothing", (path) => {
    const banned =
      /\bawait\b|\basync (?:function\b|\()|\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bprocess\.|\bperformance\.|\bset(?:Timeout|Interval|Immediate)\b|\bcrypto\b|\bfetch\(/g;
    expect(bare(text.get(path)!).match(banned) ?? []).toEqual([]);
  });

  test.each(pure)("%s reaches no broker, store or node module, however far", (path) => {
    const seen = new Set<string>();
    const open = [path];
    const reached: string[] = [];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      for (const { from, typeOnly } of importsOf(next))
        if (!typeOnly && /^(node:|moleculer|@aws-sdk|undici)/.test(from))
          reached.push(`${next}: ${from}`);
      open.push(...localImports(next));
    }
    expect(reached.filter((one) => !harmless.has(one))).toEqual([]);
  });
});

describe("files", () => {
  const LINES_MAX = 400;
  const TEST_LINES_MAX = 800;
  const FUNCTION_LINES_MAX = 70;
  /** Path to reason. */
  const longFiles: Record<string, string> = {
    "services/compose/node-agent.ts":
      "the life of an attempt on its node: phases, lease clock and journal change together",
    "services/compose/timeline/timeline.schema.ts":
      "the native timeline as one page, a schema for each kind of clip",
  };
  const longFunctions: Record<string, string> = {
    "services/compose/executor-tools.ts": "a list of small tools over one shared memory",
  };

  test("none is longer than it should be", () => {
    const lines = (path: string) => text.get(path)!.split("\n").length - 1;
    const long = [
      ...code.filter((path) => lines(path) > LINES_MAX && !(path in longFiles)),
      ...tests.filter((path) => lines(path) > TEST_LINES_MAX),
    ];
    expect(long.map((path) => `${path}: ${lines(path)}`)).toEqual([]);
  });

  test("no function is longer than it should be", () => {
    const opening =
      /^(\s*)(?:export |default |async |static |private |override |get |set |\*)*(?:function\b.*|(?:const|let) [\w$]+(?::[^=]+)? = (?:async )?(?:\(.*\)|[\w$]+)(?::[^=]+)? => |(?!if\b|for\b|while\b|switch\b|return\b|else\b|catch\b|do\b)#?[\w$]+\(.*\)(?:: [^=]+)? )\{$/;
    const long: string[] = [];
    for (const path of code) {
      const lines = text.get(path)!.split("\n");
      lines.forEach((line, start) => {
        const indent = opening.exec(line)?.[1];
        if (indent === undefined) return;
        const end = lines.findIndex(
          (other, at) => at > start && new RegExp(`^${indent}\\}`).test(other),
        );
        const name = `${path}:${start + 1} ${line.trim()}`;
        // A function that returns one object of handlers is a list, not a long procedure.
        if (end - start + 1 > FUNCTION_LINES_MAX && !(path in longFunctions)) long.push(name);
      });
    }
    expect(long).toEqual([]);
  });

  test("names are in kebab case and say what is inside", () => {
    const odd = [...code, ...tests].filter((path) => {
      const name = path.split("/").at(-1)!.replace(/\.ts$/, "");
      return !/^[a-z\d]+(-[a-z\d]+)*(\.[a-z\d]+(-[a-z\d]+)*)*$/.test(name);
    });
    const vague = [...code, ...tests].filter((path) =>
      /\b(utils?|common|misc|helpers?)\b/.test(path),
    );
    expect([...odd, ...vague]).toEqual([]);
  });

  test("none names a path of one machine", () => {
    const telling = [...code, ...tests].filter(
      (path) =>
        path !== "test/unit/tidy.test.ts" && /["'`](\/work|\/root|\/home)\//.test(text.get(path)!),
    );
    expect(telling).toEqual([]);
  });
});

describe("imports", () => {
  test("run in no circle", () => {
    const circles: string[] = [];
    const state = new Map<string, "open" | "done">();
    const visit = (path: string, trail: readonly string[]) => {
      if (state.get(path) === "done") return;
      if (state.get(path) === "open") {
        circles.push([...trail.slice(trail.indexOf(path)), path].join(" -> "));
        return;
      }
      state.set(path, "open");
      for (const next of localImports(path)) visit(next, [...trail, path]);
      state.set(path, "done");
    };
    for (const path of code) visit(path, []);
    expect(circles).toEqual([]);
  });

  test("libraries know no service", () => {
    const upward = code
      .filter((path) => path.startsWith("lib/"))
      .flatMap((path) =>
        localImports(path)
          .filter((target) => target.startsWith("services/"))
          .map((target) => `${path} -> ${target}`),
      );
    expect(upward).toEqual([]);
  });

  test("nothing is exported that nobody uses", () => {
    const words = new Map(
      [...text].map(([path, source]) => [path, bare(source).match(/[A-Za-z_$][\w$]*/g) ?? []]),
    );
    const dead = code.flatMap((path) =>
      [
        ...text
          .get(path)!
          .matchAll(/^export (?:async )?(?:const|function|class|type|interface) ([\w$]+)/gm),
      ]
        .map((match) => match[1]!)
        .filter((name) => {
          const uses = [...words].flatMap(([, list]) => list.filter((word) => word === name));
          return uses.length < 2;
        })
        .map((name) => `${path}: ${name}`),
    );
    expect(dead).toEqual([]);
  });

  test("none brings a second test runner, formatter or a local build step", () => {
    const manifest = JSON.parse(readFileSync(resolve(root, "package.json"), "utf8")) as {
      dependencies: Record<string, string>;
      devDependencies: Record<string, string>;
    };
    const all = { ...manifest.dependencies, ...manifest.devDependencies };
    expect(Object.entries(all).filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual(
      [],
    );
    const unwanted = Object.keys(all).filter((name) =>
      /^(vitest|mocha|prettier|eslint|ts-node|tsx|babel)/.test(name),
    );
    expect(unwanted).toEqual([]);
  });
});
