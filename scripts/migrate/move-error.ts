/** Something that the operator can put right; the message says how. */
export class MoveError extends Error {}
