// The steps of the running call. A step is an iteration of a loop in the module, which takes it from a counter; the same call on the
// same index makes the same steps everywhere.

/** Thrown through the module when a call reaches a bound. `kind` is that of the error. */
export class Ended {
  constructor(kind, steps) {
    this.kind = kind;
    this.steps = steps;
  }
}

/** The steps of an unbounded call before the module asks for more. */
const MANY = 2 ** 30;
/** The steps between two looks at the clock, half a millisecond of most searches. */
const BETWEEN = 2_000;

let counter = null;
// Whether the running call may be ended now.
let mayEnd = false;
// The steps that it may make and the time at which it ends, or infinities.
let [most, deadline] = [Infinity, Infinity];
// The steps that it has got, and the ones that it has made.
let [granted, made] = [0, 0];

export function setCounter(global) {
  counter = global;
  counter.value = MANY;
}

/** Returns the result of a call of the module that may make `budget` steps until the time `end`. */
export function counted(call, bounds) {
  return countedParts(() => endable(call), bounds);
}

/** Returns the result of a call whose parts in `endable` together may make `budget` steps until the time `end`. */
export function countedParts(call, { budget, end }) {
  // The step behind the budget ends the call.
  most = budget + 1;
  deadline = end;
  made = 0;
  try {
    return call();
  } finally {
    [most, deadline] = [Infinity, Infinity];
  }
}

/** Returns the result of the part of a call that counts, and may be ended. */
export function endable(part) {
  granted = made;
  counter.value = 0;
  mayEnd = true;
  try {
    counter.value = grant();
    return part();
  } finally {
    mayEnd = false;
    made = granted - counter.value;
    counter.value = MANY;
  }
}

/** The steps of the last call. */
export function lastSteps() {
  return made;
}

/** Called by the module when its counter is at zero. Returns the new value of the counter. */
export function moreSteps() {
  if (!mayEnd) return MANY;
  if (granted < most && deadline !== Infinity && performance.now() >= deadline) throw new Ended("timeout", granted);
  return grant();
}

function grant() {
  if (granted >= most) throw new Ended("out_of_steps", granted - 1);
  const steps = Math.min(deadline === Infinity ? MANY : BETWEEN, most - granted);
  granted += steps;
  return steps;
}
