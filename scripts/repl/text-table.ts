/** Columns as wide as their longest cell, two spaces apart; Chinese characters count double. */
export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) =>
    Math.max(...[head, ...rows].map((row) => width(row[column] ?? ""))),
  );
  return [head, ...rows]
    .map((row) =>
      row
        .map((cell, column) => cell + " ".repeat(widths[column]! - width(cell)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

const width = (text: string): number =>
  [...text].reduce((sum, character) => sum + (character.codePointAt(0)! >= 0x1100 ? 2 : 1), 0);
