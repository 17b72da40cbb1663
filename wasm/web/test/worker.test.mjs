// An index in a worker of Node.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

import { trapping } from "./trapping.js";

const built = fileURLToPath(new URL("../../../_build/web/", import.meta.url));
const entry = join(built, "package/worker_node.js");
const { BeTreeError, BeTreeWorker } = await import(entry);
const { BeTree } = await import(join(built, "package/node.js"));
const image = readFileSync(join(built, "cases.wasm"));

const SCHEMA = { age: "integer", name: { type: "string", optional: true } };
const LIST = Array.from({ length: 40 }, (_, id) => ({ id, expression: `age >= ${id} or name = 'n${id}'` }));
// Far longer than any call of these tests takes.
const LONG = { age: 1, name: "a".repeat(20_000_000) };

async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof BeTreeError, error);
    return error;
  }
  assert.fail("the call returned");
}

/** Calls with a worker, and ends it. */
async function within(worker, use) {
  try {
    await use(worker);
  } finally {
    worker.terminate();
  }
}

test("each call answers as that of a BeTree", async () => {
  const tree = new BeTree(SCHEMA);
  await within(new BeTreeWorker(SCHEMA), async (worker) => {
    assert.equal(await worker.insertAll(LIST), tree.insertAll(LIST));
    for (const index of [tree, worker]) {
      await index.insert(100, "age = 3", { constants: { flight_id: 3 } });
      await index.insert(2n ** 60n, new TextEncoder().encode("age < 0"));
      await index.put(1, "age > 1000");
      await index.delete(2);
    }
    const events = [{ age: 30 }, new Map([["age", 3]]), '{"age": -1, "name": "n7"}'];
    for (const event of events) assert.deepEqual(await worker.search(event), tree.search(event));
    assert.equal(worker.steps > 0, true);
    assert.deepEqual(
      await worker.searchMany(events, { ids: new Set([3, 100]) }),
      tree.searchMany(events, { ids: [3, 100] }),
    );
    assert.deepEqual(await worker.explain(events[0], 100), tree.explain(events[0], 100));
    assert.deepEqual(await worker.profile(events), tree.profile(events));
    assert.deepEqual(await worker.ids(), tree.ids());
    assert.deepEqual(await worker.get(100), tree.get(100));
    assert.deepEqual([await worker.has(2), await worker.size()], [false, tree.size]);
    assert.equal((await worker.info()).expressions, tree.info().expressions);
    await worker.clear();
    assert.deepEqual([await worker.ids(), await worker.search({ age: 30 })], [[], []]);
  });
});

test("refusals have the fields of those of a BeTree", async () => {
  const tree = new BeTree(SCHEMA);
  await within(new BeTreeWorker(SCHEMA), async (worker) => {
    for (const [method, ...given] of [
      ["insert", 1, "age >= and 3"],
      ["insertAll", [LIST[0], { id: 1, expression: "ag = 3" }]],
      ["search", { age: "x" }],
      ["search", '{"age": "x"}'],
      ["searchMany", [{ age: 1 }, {}]],
      ["explain", { age: 1 }, 7],
      ["search", { age: 1 }, { id: [1] }],
      ["search", { age: 1 }, { budget: 1 }],
      ["delete", 7],
    ]) {
      const error = await refusal(worker[method](...given));
      try {
        tree[method](...given);
        assert.fail("the call returned");
      } catch (expected) {
        assert.deepEqual(error.cause, expected.cause);
        assert.equal(error.message, expected.message);
      }
    }
    assert.equal(worker.restarts, 0);
  });
  assert.throws(() => new BeTreeWorker({ age: 3 }), BeTreeError);
  await within(new BeTreeWorker({ age: "int" }), async (worker) => {
    assert.deepEqual([(await refusal(worker.size())).kind, worker.restarts], ["type", 1]);
  });
  assert.throws(() => new BeTreeWorker(SCHEMA, { timeouts: 1 }), /did you mean timeout/);
});

test("an index ends a call at its time, and its worker stays", async () => {
  await within(new BeTreeWorker({ name: "string" }, { timeout: 60_000 }), async (worker) => {
    await worker.insert(1, `name like '${"*a".repeat(200)}b'`);
    const error = await refusal(worker.search({ name: "a".repeat(200_000) }, { timeout: 0 }));
    assert.deepEqual([error.kind, error.steps > 0, worker.restarts], ["timeout", true, 0]);
    assert.deepEqual(await worker.search({ name: "ab" }), []);
  });
});

test("the worker of an image that takes too long is ended, and the next one has the changes", async () => {
  const worker = await BeTreeWorker.load(image);
  await within(worker, async () => {
    const schema = (await BeTree.load(image)).schema;
    const [name] = Object.entries(schema).find(([, { type }]) => type === "integer");
    const plain = await BeTree.load(image);
    for (const index of [plain, worker]) {
      await index.insert(900_001, `${name} = 77`);
      await index.put(900_002, `${name} > 76`);
    }
    const event = Object.fromEntries(Object.keys(schema).map((field) => [field, undefined]));
    const options = { onMismatch: "undefined", ids: [900_001, 900_002] };
    const expected = plain.search({ ...event, [name]: 77 }, options);
    assert.deepEqual(await worker.search({ ...event, [name]: 77 }, options), expected);
    const error = await refusal(worker.searchMany(Array(200_000).fill({ ...event, [name]: 77 }), { timeout: 0 }));
    assert.deepEqual([error.kind, worker.restarts], ["timeout", 1]);
    assert.deepEqual(await worker.search({ ...event, [name]: 77 }, options), expected);
    assert.equal(await worker.size(), plain.size);
    const budget = await refusal(worker.search({ ...event, [name]: 77 }, { budget: 10 }));
    assert.equal(budget.kind, "argument");
  });
});

test("an image that traps ends its worker, and the next one has the changes", async () => {
  const event = "{}";
  const options = { onMismatch: "undefined", ids: [900_001] };
  await within(await BeTreeWorker.load(trapping(image, "be_tree_explain")), async (worker) => {
    await worker.insert(900_001, "true");
    for (const restarts of [1, 2]) {
      const trapped = refusal(worker.explain(event, 900_001, { onMismatch: "undefined" }));
      const later = worker.search(event, options);
      assert.deepEqual([(await trapped).kind, worker.restarts], ["trap", restarts]);
      assert.deepEqual(await later, [900_001]);
    }
  });
});

test("calls are made in their order, and one that lacks memory stops no other", async () => {
  await within(new BeTreeWorker(SCHEMA, { maxMemory: 2 ** 23 }), async (worker) => {
    await worker.insertAll(LIST);
    const calls = await Promise.allSettled([
      worker.search(LONG),
      worker.search({ age: 3 }),
      worker.insert(50, "age = 3"),
    ]);
    assert.deepEqual(
      calls.map(({ status, reason, value }) => reason?.kind ?? value ?? status),
      ["out_of_memory", [0, 1, 2, 3], "fulfilled"],
    );
    assert.deepEqual(await worker.search({ age: 3 }, { ids: [50] }), [50]);
  });
});

test("a call that an index cannot end ends its worker, and the next one has the subscriptions", async () => {
  await within(new BeTreeWorker(SCHEMA), async (worker) => {
    await worker.insertAll(LIST);
    await worker.put(3, "age = 1000");
    await worker.delete(4);
    const waiting = worker.profile(Array(20_000).fill({ age: 30 }), { timeout: 0 });
    const later = worker.search({ age: 5 });
    assert.deepEqual([(await refusal(waiting)).kind, worker.restarts], ["timeout", 1]);
    assert.deepEqual(await later, [0, 1, 2, 5]);
    assert.deepEqual(await worker.search({ age: 1000 }, { ids: [3, 4] }), [3]);
  });
});

test("after terminate() every call rejects, the running one too", async () => {
  const worker = new BeTreeWorker(SCHEMA);
  await worker.insertAll(LIST);
  const running = refusal(worker.search({ age: 3 }));
  worker.terminate();
  assert.equal((await running).kind, "freed");
  assert.equal((await refusal(worker.size())).kind, "freed");
  worker.terminate();
});

test("an idle worker lets the process end", () => {
  const program = `
    import { BeTreeWorker } from ${JSON.stringify(entry)};
    const worker = new BeTreeWorker({ age: "integer" });
    await worker.insert(1, "age > 3");
    console.log(await worker.search({ age: 4 }));`;
  const out = execFileSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
  assert.equal(out.trim(), "[ 1 ]");
});

test("require has the same classes as import", () => {
  const required = createRequire(import.meta.url)(join(built, "package/worker_node.cjs"));
  assert.equal(required.BeTreeWorker, BeTreeWorker);
  assert.equal(required.BeTreeError, BeTreeError);
});

test("the types describe each method", () => {
  const types = readFileSync(join(built, "package/worker.d.ts"), "utf8");
  const [, body] = types.match(/export class BeTreeWorker<I extends Id = Id> \{([^]*?)\n\}/);
  const described = [...body.matchAll(/^ {2}(?:static |readonly )*(\w+)[(:<]/gm)].map(([, name]) => name);
  const own = [...Object.getOwnPropertyNames(BeTreeWorker.prototype), "load"];
  assert.deepEqual(described.sort(), own.sort());
});
