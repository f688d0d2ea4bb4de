import type { IncomingMessage } from "node:http";
import { PassThrough, type Readable } from "node:stream";
import { AppError } from "../../lib/errors.ts";

/**
 * The body as a stream that may be given up without closing the connection, so that a refusal in the middle
 * of an upload still reaches the client. The rest of the body is then read and dropped.
 */
export async function withBody<T>(
  req: IncomingMessage,
  use: (body: Readable) => Promise<T>,
): Promise<T> {
  const body = new PassThrough();
  body.on("error", () => undefined);
  const onClose = () => {
    const reason = "the client has gone before the end of its upload";
    if (!req.complete) body.destroy(new AppError("UPLOAD_REJECTED", { reason }));
  };
  req.on("close", onClose).on("error", onClose);
  req.pipe(body);
  try {
    return await use(body);
  } finally {
    req.off("close", onClose);
    req.unpipe(body);
    body.destroy();
    if (!req.complete) req.resume();
  }
}
