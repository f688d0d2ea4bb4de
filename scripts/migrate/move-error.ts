import { ConfigError } from "../../lib/config.ts";
import { asAppError } from "../../lib/errors.ts";

/** Something that the operator can put right; the message says how. */
export class MoveError extends Error {}

/** A store that cannot open says why in a sentence of its own; it lacks whose store it is. */
export function cannotOpen(option: string, error: unknown): unknown {
  if (error instanceof MoveError || error instanceof ConfigError || asAppError(error)) return error;
  return new MoveError(`${option} cannot be opened: ${(error as Error).message}`);
}
