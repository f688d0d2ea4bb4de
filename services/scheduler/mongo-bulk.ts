import mongoose from "mongoose";

const { mongo } = mongoose;
const DUPLICATE = 11_000;

export interface OperationError {
  index: number;
  code: number;
  errmsg?: string;
}

export const isDuplicate = ({ code }: OperationError): boolean => code === DUPLICATE;

/** What the server says of single operations of a bulk; undefined when the outcome of others is open. */
function operationErrors(error: unknown): readonly OperationError[] | undefined {
  if (!(error instanceof mongo.MongoBulkWriteError)) return undefined;
  // Not confirmed by the majority: what has no error of its own may yet be taken back.
  if (error.result.getWriteConcernError()) return undefined;
  const errors = [error.writeErrors].flat();
  return errors.length > 0 ? errors : undefined;
}

/** Runs an unordered bulk; its operations' own errors by their index. Rejects when the outcome is open. */
export async function bulkErrors(
  run: () => Promise<unknown>,
): Promise<Map<number, OperationError>> {
  try {
    await run();
    return new Map();
  } catch (error) {
    const errors = operationErrors(error);
    if (!errors) throw error;
    return new Map(errors.map((one) => [one.index, one]));
  }
}

export const failureOf = ({ errmsg = "the write failed", code }: OperationError): Error =>
  Object.assign(new Error(errmsg), { code });
