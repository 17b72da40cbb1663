// Calls of the module.

import { BeTreeError } from "./error.js";

/** Calls the module, and turns what it throws into errors. */
export function attempt(call, adapt = (refusal) => refusal, textOf = () => null) {
  ensureStack();
  try {
    return call();
  } catch (thrown) {
    if (thrown instanceof WebAssembly.RuntimeError || thrown instanceof RangeError) {
      throw new BeTreeError({
        kind: "trap",
        message: `the module stopped (${thrown.message}); make a new index, or new rules`,
      });
    }
    if (typeof thrown?.kind !== "string" || thrown instanceof Error) throw thrown;
    const refusal = adapt(thrown);
    const text = textOf(refusal);
    throw new BeTreeError(refusal, typeof text === "string" ? text : null);
  }
}

const ARGUMENTS = new Array(2048).fill(0);
const nothing = () => undefined;

/**
 * Throws a `RangeError` if the stack has no room for a call of the module: 16 KB, since arguments are on the stack. An overflow inside
 * the module would leave its memory in the middle of a change.
 */
export function ensureStack() {
  Reflect.apply(nothing, undefined, ARGUMENTS);
}
