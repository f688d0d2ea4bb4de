import { spawn } from "node:child_process";
import { readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HELP = `Usage: npm test [-- options]

Runs every test. Options go to Jest, for example:

  npm test -- test/unit             tests whose path contains this
  npm test -- --filter gateway      the same
  npm test -- -t "a wrong method"   tests whose name contains this
`;

/** Jest's report: it tells what ran, which its exit code does not when nothing matched. */
interface Report {
  numTotalTests: number;
  numPassedTests: number;
}

const given = process.argv.slice(2);
if (given.includes("--help") || given.includes("-h")) {
  console.log(HELP);
  process.exit(0);
}
// Jest's own --filter is a path to a module; here the word means what it says.
const args = given.flatMap((argument) =>
  argument === "--filter"
    ? []
    : argument.startsWith("--filter=")
      ? [argument.slice("--filter=".length)]
      : [argument],
);
const root = fileURLToPath(new URL("../", import.meta.url));
const jest = join(
  dirname(createRequire(import.meta.url).resolve("jest/package.json")),
  "bin/jest.js",
);
const ownReport = join(tmpdir(), `reelmesh-test-report-${process.pid}.json`);
const wanted = args.find((argument) => argument.startsWith("--outputFile="));
const reportFile = wanted ? wanted.slice("--outputFile=".length) : ownReport;

const child = spawn(
  process.execPath,
  [
    "--experimental-vm-modules",
    "--no-warnings",
    jest,
    "--json",
    ...(wanted ? [] : [`--outputFile=${ownReport}`]),
    ...args,
  ],
  // The report goes to the file; Jest would also print it, which nobody wants to read.
  { cwd: root, stdio: ["inherit", "ignore", "inherit"] },
);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
const code = await new Promise<number>((resolve) => {
  child.once("error", (error) => {
    console.error(`reelmesh: cannot run Jest: ${error.message}`);
    resolve(1);
  });
  child.once("exit", (exitCode, signal) => resolve(signal ? 1 : (exitCode ?? 1)));
});
try {
  const report = JSON.parse(await readFile(reportFile, "utf8")) as Report;
  if (report.numTotalTests === 0 || report.numPassedTests === 0) {
    console.error("reelmesh: no test ran");
    process.exitCode = 1;
  } else process.exitCode = code;
} catch {
  process.exitCode = code === 0 ? 1 : code;
} finally {
  await rm(ownReport, { force: true });
}
