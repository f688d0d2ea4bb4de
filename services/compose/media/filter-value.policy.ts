/**
 * A value inside a filter's options. It is read twice, as an option and as part of the graph, so each special
 * letter is escaped once for each reading.
 */
export const filterValue = (value: string): string =>
  value.replace(/[\\':]/g, "\\$&").replace(/[\\'[\],;]/g, "\\$&");
