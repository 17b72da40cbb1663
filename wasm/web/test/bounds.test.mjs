// Calls with a budget of steps, a time, or a limit on memory. A call that reaches a bound changes nothing.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, test } from "node:test";

const built = fileURLToPath(new URL("../../../_build/web/", import.meta.url));
const { BeTree, BeTreeError } = await import(join(built, "package/node.js"));

const SCHEMA = {
  age: "integer",
  name: { type: "string", optional: true },
  tags: { type: "string_list", optional: true },
};
const EVENTS = [
  { age: 30, name: "bob", tags: ["a", "b", "c"] },
  { age: 64, name: "a".repeat(300) },
  { age: -5, tags: [] },
];
const EXPRESSIONS = Array.from({ length: 60 }, (_, i) => [
  `age >= ${i} and age < ${i + 20}`,
  `name like '*${"a".repeat(i % 7)}b*' or tags one of ('a', 't${i}')`,
  `not (age between ${i} and ${2 * i}) and name matches '(a|b)*c?'`,
]).flat();

function list(first) {
  return EXPRESSIONS.map((expression, place) => ({ id: first + place, expression }));
}

function made() {
  const tree = new BeTree(SCHEMA);
  tree.insertAll(list(1));
  return tree;
}

/** All that later calls can tell of an index. */
function state(tree) {
  const { memoryBytes, ...info } = tree.info();
  assert.ok(memoryBytes > 0);
  return { info, draw: tree.draw(), ids: tree.ids(), found: tree.searchMany(EVENTS) };
}

function refusal(call) {
  try {
    call();
  } catch (error) {
    assert.ok(error instanceof BeTreeError, error);
    return error;
  }
  assert.fail("the call returned");
}

/** Some budgets up to `steps`, among them the least and the greatest that do not suffice. */
function budgets(steps, count) {
  const some = Array.from({ length: count }, (_, i) => 1 + Math.floor((i * (steps - 2)) / count));
  return [...new Set([...some, steps - 1])];
}

const now = performance.now;
after(() => (performance.now = now));

/** Calls with a clock that goes on by a millisecond at each look. */
function withClock(call) {
  let time = 0;
  performance.now = () => (time += 1);
  try {
    return call();
  } finally {
    performance.now = now;
  }
}

test("a search makes the same steps in each index of the same subscriptions, and after other calls", () => {
  const [tree, other] = [made(), made()];
  const steps = EVENTS.map((event) => {
    tree.search(event);
    return tree.steps;
  });
  refusal(() => other.insert(1_000, "age >"));
  refusal(() => other.search({ age: "x" }));
  refusal(() => other.search(EVENTS[0], { budget: 100 }));
  other.explain(EVENTS[0], 1);
  EVENTS.forEach((event, place) => {
    for (const options of [{}, { budget: 1e6 }, { timeout: 1e6 }]) {
      other.search(event, options);
      assert.equal(other.steps, steps[place]);
    }
  });
});

test("reads succeed with exactly the steps that they make, and else tell what they spent", () => {
  const tree = made();
  const before = state(tree);
  const reads = [
    ...EVENTS.map((event) => (options) => tree.search(event, options)),
    (options) => tree.searchMany(EVENTS, options),
    (options) => tree.explain(EVENTS[0], 2, options),
    (options) => tree.search(JSON.stringify(EVENTS[1]), { ...options, ids: [1, 2, 3] }),
  ];
  for (const read of reads) {
    const expected = read({});
    const { steps } = tree;
    for (const budget of budgets(steps, 100)) {
      const error = refusal(() => read({ budget }));
      assert.deepEqual([error.kind, error.steps], ["out_of_steps", budget]);
      assert.match(error.message, new RegExp(`budget of ${budget} steps`));
      assert.deepEqual(read({ budget: steps }), expected);
    }
  }
  assert.deepEqual(state(tree), before);
});

test("an insertion that spends its budget leaves the index as it was", () => {
  const [tree, twin] = [made(), made()];
  const before = state(tree);
  const more = list(1_000);
  twin.insertAll(more);
  const { steps } = twin;
  for (const budget of budgets(steps, 150)) {
    assert.equal(refusal(() => tree.insertAll(more, { budget })).kind, "out_of_steps");
    assert.deepEqual(tree.ids(), before.ids);
  }
  assert.deepEqual(state(tree), before);
  assert.equal(tree.insertAll(more, { budget: steps }), more.length);
  assert.deepEqual(state(tree), state(twin));

  const text = EXPRESSIONS.join(" or ");
  const after = state(tree);
  assert.equal(refusal(() => tree.insert(5_000, text, { budget: 1_000 })).kind, "out_of_steps");
  assert.deepEqual(state(tree), after);
  tree.insert(5_000, text);
  assert.deepEqual(tree.search(EVENTS[0], { ids: [5_000] }), [5_000]);
});

test("a replacement that spends its budget leaves the old expression", () => {
  const [tree, other] = [made(), made()];
  const before = state(tree);
  const text = EXPRESSIONS.slice(0, 12).join(" or ");
  other.put(5, text);
  const { steps } = other;
  for (const budget of budgets(steps, 60)) {
    const error = refusal(() => tree.put(5, text, { budget }));
    assert.deepEqual([error.kind, error.steps], ["out_of_steps", budget]);
    assert.deepEqual([state(tree), tree.get(5).expression], [before, EXPRESSIONS[4]]);
  }
  tree.put(5, text, { budget: steps });
  assert.deepEqual([state(tree), tree.get(5).expression], [state(other), text]);
});

test("a replacement beside full memory succeeds, or leaves the old expression", () => {
  const { maxMemory } = BeTree;
  const tree = made();
  const oneOf = (first, count) => `age in (${Array.from({ length: count }, (_, i) => first + i).join(", ")})`;
  const outcomes = { put: 0, out_of_memory: 0 };
  let text = "age = 1000";
  tree.put(5, text);
  try {
    BeTree.maxMemory = tree.info().memoryBytes + 2 ** 20;
    assert.equal(refusal(() => fill(tree, (id) => oneOf(100_000 * id, 5_000))).kind, "out_of_memory");
    assert.equal(refusal(() => fill(tree, (id) => oneOf(100_000 * id, 100))).kind, "out_of_memory");
    // From expressions that do not fit, over those that fit once but not twice, to those that fit.
    for (let count = 1_500; count > 10; count = Math.floor(0.995 * count)) {
      const next = oneOf(1_000, count);
      try {
        tree.put(5, next);
        text = next;
        outcomes.put++;
      } catch (error) {
        assert.equal(error.kind, "out_of_memory");
        outcomes.out_of_memory++;
      }
      assert.equal(tree.get(5).expression, text);
      assert.deepEqual(tree.search({ age: 1_000 }), [5]);
      assert.equal(tree.info().expressions, tree.ids().length);
    }
  } finally {
    BeTree.maxMemory = maxMemory;
  }
  assert.ok(outcomes.put > 0 && outcomes.out_of_memory > 0, JSON.stringify(outcomes));
});

/** Inserts expressions under new ids until one is refused. */
function fill(tree, expression) {
  for (let id = 10_000; ; id++) if (!tree.has(id)) tree.insert(id, expression(id));
}

test("indexes beside one whose call stopped keep their subscriptions", () => {
  const [tree, neighbour] = [made(), made()];
  const before = state(neighbour);
  refusal(() => tree.search(EVENTS[1], { budget: 10 }));
  neighbour.insert(1_000, "age > 3");
  refusal(() => tree.search(EVENTS[1], { budget: 10 }));
  assert.deepEqual(neighbour.search({ age: 4 }, { ids: [1_000] }), [1_000]);
  const third = made();
  refusal(() => tree.insertAll(list(1_000), { budget: 10 }));
  neighbour.delete(1_000);
  assert.deepEqual([state(neighbour), state(third)], [before, before]);
  third.free();
  refusal(() => tree.search(EVENTS[1], { budget: 10 }));
  assert.deepEqual(state(tree), before);
});

test("a read that stops copies no memory", () => {
  const tree = made();
  const { prototype } = Uint8Array;
  const names = ["set", "slice", "fill"];
  const copied = [];
  const originals = names.map((name) => Object.getPrototypeOf(prototype)[name]);
  names.forEach((name, place) => {
    prototype[name] = function (...rest) {
      copied.push(this.length);
      return Reflect.apply(originals[place], this, rest);
    };
  });
  try {
    for (const read of [
      () => tree.search(EVENTS[1], { budget: 10 }),
      () => tree.searchMany(EVENTS, { budget: 10 }),
      () => tree.explain(EVENTS[1], 2, { budget: 10 }),
    ])
      assert.equal(refusal(read).kind, "out_of_steps");
    assert.ok(copied.every((length) => length < 2 ** 16));
    refusal(() => tree.insertAll(list(1_000), { budget: 10 }));
    assert.ok(copied.some((length) => length > 2 ** 20));
  } finally {
    names.forEach((name) => delete prototype[name]);
  }
});

test("reads and changes that stop at any step, of several indexes in turn, change no later result", () => {
  // A linear congruential generator, with the numbers of Numerical Recipes.
  let seed = 1;
  const below = (limit) => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0) % limit;
  const trees = [made(), made(), made()];
  const expected = EVENTS.map((event) => trees[0].search(event));
  const explanation = trees[0].explain(EVENTS[1], 2);
  const long = { age: 30, name: `\u00e9${"ab".repeat(2_000)}`, tags: Array(500).fill("t") };
  const same = (read, result) => assert.deepEqual(read, result);
  for (let round = 0; round < 3_000; round++) {
    const place = below(trees.length);
    const tree = trees[place];
    const event = below(EVENTS.length);
    const stopped = { budget: 1 + below(below(10) === 0 ? 20_000 : 400) };
    const call = [
      () => tree.search(below(2) ? long : EVENTS[event], stopped),
      () => tree.searchMany([...EVENTS, long, ...EVENTS], stopped),
      () => tree.explain(long, 1 + below(60), stopped),
      () => tree.insertAll(list(1_000), stopped),
      () => tree.search({ age: "x" }),
      () => same(tree.search(EVENTS[event]), expected[event]),
      () => same(tree.searchMany(EVENTS), expected),
      () => same(tree.explain(EVENTS[1], 2), explanation),
      () => same(tree.trace(EVENTS[event]).ids.sort(), [...expected[event]].sort()),
      () => tree.profile(EVENTS),
      () => {
        tree.insert(1_000, "age > 3");
        tree.delete(1_000);
      },
      () => {
        tree.free();
        trees[place] = made();
      },
    ][below(round % 50 === 0 ? 12 : 11)];
    try {
      call();
    } catch (error) {
      assert.ok(["out_of_steps", "type"].includes(error.kind), error);
    }
    if (trees[place].size !== EXPRESSIONS.length) trees[place] = made();
  }
  const fresh = state(made());
  trees.forEach((tree) => assert.deepEqual(state(tree).found, fresh.found));
});

test("calls end at their time", () => {
  const tree = made();
  const before = state(tree);
  const long = Array(200).fill(EVENTS[1]);
  const calls = [
    (options) => tree.searchMany(long, options),
    (options) => tree.insertAll(list(1_000), options),
    (options) => tree.search({ age: 1, name: "a".repeat(400_000) }, options),
    (options) => tree.explain({ age: 1, name: "a".repeat(400_000) }, 2, options),
  ];
  for (const call of calls) {
    const error = withClock(() => refusal(() => call({ timeout: 3 })));
    assert.equal(error.kind, "timeout");
    assert.ok(error.steps > 0);
    assert.match(error.message, /timeout of 3 ms/);
    assert.deepEqual(state(tree), before);
    withClock(() => refusal(() => call({ timeout: 0 })));
  }
  withClock(() => tree.searchMany(long, { timeout: 1e6 }));
  assert.deepEqual(state(tree), before);
});

test("many calls that stop take no more memory", () => {
  const tree = made();
  const more = list(1_000);
  const event = { age: 1, name: "a".repeat(100_000) };
  const stop = () => {
    assert.equal(refusal(() => tree.insertAll(more, { budget: 2_000 })).kind, "out_of_steps");
    assert.equal(refusal(() => tree.search(event, { budget: 5_000 })).kind, "out_of_steps");
    assert.equal(refusal(() => tree.searchMany([event], { budget: 5_000 })).kind, "out_of_steps");
  };
  stop();
  const { memoryBytes } = tree.info();
  // The module has a table of 1,024 references to arguments.
  for (let i = 0; i < 1_100; i++) stop();
  assert.equal(tree.info().memoryBytes, memoryBytes);
});

test("memory is limited, and inputs beyond the limit are refused", () => {
  const tree = made();
  const before = state(tree);
  const { maxMemory } = BeTree;
  assert.equal(maxMemory, 2 ** 32);
  try {
    BeTree.maxMemory = tree.info().memoryBytes + 2 ** 20;
    const large = { age: 1, name: "a".repeat(2_000_000) };
    const inputs = [
      () => tree.search(large),
      () => tree.searchMany(Array(100).fill({ age: 1, name: "a".repeat(20_000) })),
      () => tree.explain(large, 1),
      () => tree.insert(1_000, `name = '${"a".repeat(2_000_000)}'`),
      () => tree.insertAll(Array.from({ length: 20_000 }, (_, i) => ({ id: 1_000 + i, expression: `age = ${i}` }))),
    ];
    for (const input of inputs) {
      assert.equal(refusal(input).kind, "out_of_memory");
      assert.deepEqual(state(tree), before);
    }
    assert.ok(tree.info().memoryBytes <= BeTree.maxMemory);
  } finally {
    BeTree.maxMemory = maxMemory;
  }
  assert.deepEqual(tree.search({ age: 1, name: "a".repeat(2_000_000) }), tree.search({ age: 1, name: "a".repeat(20) }));
});

test("wrong bounds are refused", async () => {
  const tree = made();
  for (const options of [
    { budget: 0 },
    { budget: 1.5 },
    { budget: "1" },
    { budget: null },
    { timeout: -1 },
    { timeout: NaN },
    { timeout: "1" },
  ])
    for (const call of [
      () => tree.search(EVENTS[0], options),
      () => tree.searchMany(EVENTS, options),
      () => tree.explain(EVENTS[0], 1, options),
      () => tree.insert(1_000, "age = 1", options),
      () => tree.put(1, "age = 1", options),
      () => tree.insertAll(list(1_000), options),
    ])
      assert.equal(refusal(call).kind, "argument");
  for (const bytes of [0, -1, 2 ** 33, 1.5, "1"])
    assert.equal(refusal(() => (BeTree.maxMemory = bytes)).kind, "argument");
  assert.equal(refusal(() => tree.profile(EVENTS, { budget: 1 })).kind, "argument");

  const image = await BeTree.load(readFileSync(join(built, "cases.wasm")));
  const error = refusal(() => image.search({}, { budget: 1 }));
  assert.deepEqual([error.kind, /image/.test(error.message)], ["argument", true]);
});

test("an error of a bound keeps its steps over structuredClone", () => {
  const error = refusal(() => made().search(EVENTS[0], { budget: 7 }));
  assert.equal(structuredClone(error).cause.steps, 7);
});

test("the example of the README", () => {
  const [, example] = readFileSync(join(built, "package/README.md"), "utf8").match(/## Bounds\n[^]*?```js\n([^]*?)```/);
  const body = example.replace(/^import .*$/m, "").replace(/^(tree\..*); \/\/ (.*)$/gm, "results.push([$1, $2]);");
  const { maxMemory } = BeTree;
  const results = [];
  try {
    new Function("BeTree", "results", body)(BeTree, results);
  } finally {
    BeTree.maxMemory = maxMemory;
  }
  assert.equal(results.length, 2);
  results.forEach(([actual, expected]) => assert.deepEqual(actual, expected));
});
