import { describeConfig, loadConfig } from "../../lib/config.ts";
import { routesOf } from "../../lib/contract.ts";
import { type ErrorEntry, errorTable } from "../../lib/errors.ts";
import { contracts } from "../../services/contracts.ts";
import { rawRoutes } from "../../services/gateway/raw-routes.ts";

const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [head, head.map(() => "---"), ...rows]
    .map((row) => `| ${row.map(cell).join(" | ")} |`)
    .join("\n");

const accessText = (access: "public" | readonly string[] | undefined) =>
  access === "public" ? "everybody" : (access ?? []).join(", ");

function settings(): string {
  // An empty environment: the page tells defaults, whatever is set on the machine that writes it.
  const rows = describeConfig(loadConfig({ DATA_DIR: "data" }, { generate: false }));
  return table(
    ["Setting", "Default", "Meaning"],
    rows.map(({ name, value, source, about }) => [
      `\`${name}\``,
      name === "DATA_DIR"
        ? "`data`"
        : source === "default" && value !== ""
          ? `\`${value}\``
          : source.startsWith("generated")
            ? "generated"
            : "",
      about,
    ]),
  );
}

const routes = (): string =>
  table(
    ["Method", "Path", "Who", "What"],
    [
      ...routesOf(contracts).map(({ method, path, contract }) => [
        method,
        `\`${path}\``,
        accessText(contract.access),
        contract.summary,
      ]),
      ...rawRoutes.map(({ method, path, access, summary }) => [
        method,
        `\`${path}\``,
        accessText(access),
        summary,
      ]),
    ],
  );

const tools = (): string =>
  table(
    ["Tool", "What"],
    contracts.flatMap((service) =>
      Object.values(
        service.actions as Record<string, { mcp?: { tool: string; description: string } }>,
      )
        .filter(({ mcp }) => mcp !== undefined)
        .map(({ mcp }) => [`\`${mcp!.tool}\``, mcp!.description.split(/(?<=\.)\s/)[0]!]),
    ),
  );

const errors = (): string =>
  table(
    ["Type", "returnCode", "HTTP", "Try again", "English", "Chinese"],
    (Object.entries(errorTable) as [string, ErrorEntry][]).map(([type, entry]) => [
      `\`${type}\``,
      String(entry.returnCode),
      String(entry.status),
      entry.retry,
      entry.en,
      entry.zh,
    ]),
  );

/** What the code knows of itself, as a page: settings, routes, tools, errors. */
export const referencePage = (): string => `# Reference

Written by \`npm run generate\` from the code; a test fails when the two differ.

## Settings

${settings()}

## Routes

The full description of each, with fields and answers, is at \`/docs\` of a running product.

${routes()}

## MCP tools

${tools()}

## Errors

${errors()}
`;
