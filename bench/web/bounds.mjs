// Measures what bounds cost: how long searches go on behind their timeout, and what a bounded insertion copies. Prints medians.
import { BeTree } from "../../_build/web/package/node.js";

const CALLS = 41;
const MEGABYTE = 2 ** 20;

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

function milliseconds(call) {
  const started = performance.now();
  call();
  return performance.now() - started;
}

/** Calls until the kind of refusal that is expected. */
function refused(kind, call) {
  try {
    call();
  } catch (error) {
    if (error.kind === kind) return;
    throw error;
  }
  throw new Error(`the call ended before its bound; ${kind} was expected`);
}

function indexOf(schema, expressions) {
  const tree = new BeTree(schema);
  tree.insertAll(expressions.map((expression, place) => ({ id: place + 1, expression })));
  return tree;
}

const patterns = indexOf(
  { s: "string" },
  Array.from({ length: 200 }, (_, i) => `s matches '.*a.{${i + 1}}x'`),
);
const conjunctions = indexOf(
  { a: "integer", b: "integer" },
  Array.from({ length: 200_000 }, (_, i) => `a <> ${i} and b <> ${i + 1}`),
);

console.log("| searches of | timeout | ended behind it | 10,000 steps take |\n| --- | --- | --- | --- |");
for (const [name, tree, event] of [
  ["200 regular expressions", patterns, { s: "a".repeat(20_000) }],
  ["200,000 conjunctions", conjunctions, { a: -1, b: -1 }],
]) {
  const perStep = median(Array.from({ length: 5 }, () => milliseconds(() => tree.search(event)) / tree.steps));
  for (const timeout of [5, 10, 20]) {
    const search = () => refused("timeout", () => tree.search(event, { timeout }));
    const late = Array.from({ length: CALLS }, () => milliseconds(search) - timeout);
    console.log(`| ${name} | ${timeout} ms | ${median(late).toFixed(1)} ms | ${(10_000 * perStep).toFixed(2)} ms |`);
  }
}

const megabytes = conjunctions.info().memoryBytes / MEGABYTE;
const insertion = () => refused("out_of_steps", () => conjunctions.insert(0, "a = 1", { budget: 1 }));
insertion();
const both = median(
  Array.from({ length: CALLS }, () => {
    // A change of another index makes the copy outdated.
    patterns.insert(1_000, "s = 'b'");
    patterns.delete(1_000);
    return milliseconds(insertion);
  }),
);
const back = median(Array.from({ length: CALLS }, () => milliseconds(insertion)));
console.log(
  `a bounded insertion in ${megabytes.toFixed(0)} MB: the copy before it takes ${((both - back) / megabytes).toFixed(2)} ms a megabyte, ` +
    `the copy back ${(back / megabytes).toFixed(2)} ms`,
);
