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
// The steps that the running call may make and the time at which it ends, or infinities.
let [most, deadline] = [Infinity, Infinity];
// The steps that it has got, and the ones that the last call made.
let [granted, made] = [0, 0];

export function setCounter(global) {
  counter = global;
}

/** Returns the result of a call of the module that may make `budget` steps until the time `end`. */
export function counted(call, { budget, end }) {
  // The step behind the budget ends the call.
  most = budget + 1;
  deadline = end;
  granted = 0;
  counter.value = grant();
  try {
    return call();
  } finally {
    made = granted - counter.value;
    [most, deadline] = [Infinity, Infinity];
  }
}

/** The steps of the last call. */
export function lastSteps() {
  return made;
}

/** Called by the module when its counter is at zero. Returns the new value of the counter. */
export function moreSteps() {
  if (granted >= most) throw new Ended("out_of_steps", granted - 1);
  if (deadline !== Infinity && performance.now() >= deadline) throw new Ended("timeout", granted);
  return grant();
}

function grant() {
  const steps = Math.min(deadline === Infinity ? MANY : BETWEEN, most - granted);
  granted += steps;
  return steps;
}
