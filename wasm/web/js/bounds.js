// Calls with bounds. A call that reaches a bound stops anywhere, also in the middle of an insertion. So a copy of the module's memory
// from before a change replaces its memory. A read changes nothing that later calls depend on, and needs no copy.

import { checkTimeout, describe, wrong } from "./arguments.js";
import { BeTreeError } from "./error.js";
import { counted, countedParts, Ended, setCounter } from "./steps.js";

const PAGE = 2 ** 16;
const MOST_MEMORY = 2 ** 32;
const NONE = { budget: Infinity, end: Infinity };

let wasm = null;
let copy = new Uint8Array(0);
// Whether an index has changed since.
let isStale = true;

/** Takes the exports of the module. */
export function setModule(exports) {
  wasm = exports;
  setCounter(exports.steps);
}

/** Called by all that changes an index, makes one or frees one. */
export function noteChange() {
  isStale = true;
}

/** Returns the bounds of a call, which begins now, from its options. */
export function toBounds({ budget, timeout }) {
  if (budget === undefined && timeout === undefined) return null;
  if (budget !== undefined && !(Number.isSafeInteger(budget) && budget >= 1))
    throw wrong(`the option budget is a number of steps, an integer from 1, but this is ${describe(budget)}`);
  checkTimeout(timeout);
  const end = timeout === undefined ? Infinity : performance.now() + timeout;
  return { budget: budget ?? Infinity, timeout, end };
}

/** Returns the result of a change of the module. If it stops at a bound, or traps, and it has bounds, all is as before. */
export function bounded(change, bounds) {
  if (bounds !== null && isStale) save();
  try {
    return withStacks(() => counted(change, bounds ?? NONE));
  } catch (thrown) {
    if (bounds !== null && (thrown instanceof Ended || isTrap(thrown))) restore();
    throw refused(thrown, bounds);
  }
}

/** Returns the result of a read of the module, and calls `end` behind it. If the read stops at a bound, all is as before. */
export function boundedRead(read, end, bounds) {
  try {
    return withStacks(() => countedParts(read, bounds ?? NONE));
  } catch (thrown) {
    throw refused(thrown, bounds);
  } finally {
    end();
  }
}

/** An exception leaves the stacks of the module where they are. */
function withStacks(call) {
  const { stack, references } = wasm;
  const pointers = [stack.value, references.value];
  try {
    return call();
  } catch (thrown) {
    [stack.value, references.value] = pointers;
    throw thrown;
  }
}

const isTrap = (thrown) => thrown instanceof WebAssembly.RuntimeError || thrown instanceof RangeError;

/** Copies the memory, into the last copy if that has the size, because new memory takes longer. */
function save() {
  const used = new Uint8Array(wasm.memory.buffer, 0, PAGE * wasm.pages.value);
  if (copy.length === used.length) copy.set(used);
  else copy = used.slice();
  isStale = false;
}

/** The module takes the pages behind the copy as new ones, which are empty. */
function restore() {
  const all = new Uint8Array(wasm.memory.buffer);
  all.set(copy);
  all.fill(0, copy.length);
  wasm.pages.value = copy.length / PAGE;
}

/** Returns the error for what a call threw. */
function refused(thrown, bounds) {
  if (!(thrown instanceof Ended)) return thrown;
  const { kind, steps } = thrown;
  const { budget, timeout } = bounds;
  const bound = kind === "timeout" ? `timeout of ${timeout} ms` : `budget of ${budget} steps`;
  return new BeTreeError({ kind, message: `the call reached its ${bound}, after ${steps} steps`, steps });
}

/** The most memory that the module may have, in bytes. */
export function maxMemory() {
  return PAGE * wasm.max_pages.value;
}

export function setMaxMemory(bytes) {
  if (!(Number.isSafeInteger(bytes) && bytes >= PAGE && bytes <= MOST_MEMORY))
    throw wrong(`maxMemory is a number of bytes from ${PAGE} to ${MOST_MEMORY}, but this is ${describe(bytes)}`);
  wasm.max_pages.value = Math.floor(bytes / PAGE);
}
