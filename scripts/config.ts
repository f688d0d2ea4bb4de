import { parseArgs } from "node:util";
import { ConfigError, describeConfig, loadConfig } from "../lib/config.ts";

const HELP = `Usage: npm run config [-- --json]

Lists every setting: what is in force, where it came from, what it means. Secrets are masked.
Nothing is written: secrets that the first start will make up are named as such.
`;

try {
  const { values } = parseArgs({
    options: { json: { type: "boolean" }, help: { type: "boolean", short: "h" } },
  });
  if (values.help) console.log(HELP);
  else {
    const rows = describeConfig(loadConfig(process.env, { generate: false }));
    if (values.json) console.log(JSON.stringify(rows, null, 2));
    else {
      const widest = (column: "name" | "value" | "source") =>
        Math.max(column.length, ...rows.map((row) => row[column].length));
      const [name, value, source] = [
        widest("name"),
        Math.min(44, widest("value")),
        widest("source"),
      ];
      const head = { name: "SETTING", value: "VALUE", source: "FROM", about: "MEANING" };
      for (const row of [head, ...rows])
        console.log(
          `${row.name.padEnd(name)}  ${row.value.padEnd(value)}  ${row.source.padEnd(source)}  ${row.about}`,
        );
    }
  }
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  const isSentence = error instanceof ConfigError || code?.startsWith("ERR_PARSE_ARGS");
  console.error(isSentence ? `reelmesh: ${message}` : error);
  process.exit(1);
}
