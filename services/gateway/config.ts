/** Limits of the HTTP edge, once. Times in milliseconds, sizes in bytes. */
export const gatewayLimits = {
  /** A JSON or form body. Media go as uploads, which have limits of their own. */
  bodyBytes: 8 * 1024 * 1024,
  /** Time for such a body to arrive. */
  bodyMs: 30_000,
  jsonDepthMax: 64,
  /** One file of a multipart form. */
  uploadBytes: 5 * 1024 ** 3,
  /** Silence on an upload after which it is given up. */
  uploadIdleMs: 60_000,
  /** Time for the head of a request to arrive. */
  headersMs: 15_000,
  /** Time for a whole request to arrive; large uploads over slow lines need long. */
  requestMs: 4 * 3_600_000,
  keepAliveMs: 5_000,
  /** Clients whose requests are counted at the same time; of more the least active are asked about anew. */
  clientsMax: 50_000,
  /** How often Node looks for requests that are too slow. */
  checkMs: 10_000,
  /** Answers under way get this long when the gateway stops. */
  drainMs: 5_000,
} as const;
