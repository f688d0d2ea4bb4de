const entities: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/**
 * The global input filter of form bodies and query strings (platform document, MCP rule 3): control
 * characters go, save tab and line ends; characters with a meaning in HTML become entities. Requests with
 * Content-Type application/json skip it, body and query alike, so that signed URLs pass unharmed.
 */
export const filterText = (text: string): string =>
  text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: removing them is the point
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, "")
    .replace(/[&<>"']/g, (character) => entities[character]!);
