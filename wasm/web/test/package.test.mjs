// The package in Node. `make test` builds it and the cases before.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { gzipSync } from "node:zlib";

import { differences } from "./conformance.js";

const built = fileURLToPath(new URL("../../../_build/web/", import.meta.url));
const library = await import(join(built, "package/node.js"));
const { BeTree, BeTreeError } = library;
const image = readFileSync(join(built, "cases.wasm"));

test("all conformance cases, with the results of the Elixir side", async () => {
  const cases = JSON.parse(readFileSync(join(built, "cases.json"), "utf8"));
  assert.ok(cases.rows.length > 200 && cases.refusals.length > 40);
  assert.deepEqual(await differences(library, cases, image), []);

  // A difference is found.
  const [row] = cases.rows;
  const changed = {
    ...cases,
    rows: [{ ...row, holds: !row.holds }],
    refusals: [{ ...cases.refusals[0], column: 7 }],
  };
  const found = await differences(library, changed, image);
  assert.ok(
    found.includes(`${row.expression}: [1] instead of [0]`) && found.some((line) => line.includes(", refused:")),
    found,
  );
});

test("the example of the README", () => {
  const [, example] = readFileSync(join(built, "package/README.md"), "utf8").match(/```js\n([^]*?)```/);
  const body = example.replace(/^import .*$/m, "").replace(/^(tree\..*); \/\/ (.*)$/gm, "results.push([$1, $2]);");
  const results = [];
  new Function("BeTree", "results", body)(BeTree, results);
  assert.equal(results.length, 2);
  results.forEach(([actual, expected]) => assert.deepEqual(actual, expected));
});

test("the worker of the README", () => {
  const folder = mkdtempSync(join(tmpdir(), "be-tree-"));
  try {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(join(built, "package"), join(folder, "node_modules/be-tree"));
    const readme = readFileSync(join(built, "package/README.md"), "utf8");
    for (const [, file, text] of readme.matchAll(/```js\n\/\/ (\w+\.mjs)\n([^]*?)```/g))
      writeFileSync(join(folder, file), text);
    const out = execFileSync(process.execPath, [join(folder, "main.mjs")], { encoding: "utf8" });
    const expected = [...readFileSync(join(folder, "main.mjs"), "utf8").matchAll(/; \/\/ (.*)$/gm)];
    assert.equal(out.trim(), expected.map(([, line]) => line).join("\n"));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("each expression of the README's table is one", () => {
  const tree = new BeTree({
    ...{ a: "boolean", b: "boolean", age: "integer", plan: "integer", price: "float", limit: "float" },
    ...{ country: "string", list: "integer_list", name: "string", s: "string", t: "string", path: "string" },
    ...{ ip: "ip", at: "datetime", x: { type: "integer", optional: true }, items: "object_list" },
    ...{ "items.sku": "string", "items.qty": "integer" },
  });
  const readme = readFileSync(join(built, "package/README.md"), "utf8");
  const [, table] = readme.match(/## Expressions\n([^]*?)\n\n[A-Z]/);
  const expressions = [...table.matchAll(/`([^`]*)`/g)].map(([, text]) => text);
  const whole = expressions.filter(
    (text) => /^[a-z_(]+.*(['\w)]|empty)$/.test(text) && !/seconds|itude|\.\.\.|namespace/.test(text),
  );
  assert.ok(whole.length > 25);
  whole.forEach((expression, id) => tree.insert(id, expression));
});

test("values that do not fit count as undefined where that is asked for", () => {
  const schema = { ip: { type: "ip", optional: true }, n: { type: "float", optional: true }, name: "string" };
  const event = { ip: "sts.amazonaws.com", n: NaN, name: "x" };
  const strict = new BeTree(schema);
  const lenient = new BeTree(schema, { onMismatch: "undefined" });
  for (const tree of [strict, lenient])
    tree.insertAll([
      { id: 1, expression: "name = 'x'" },
      { id: 2, expression: "n > 0" },
    ]);
  assert.throws(() => strict.search(event), { kind: "out_of_bounds", attribute: "n" });
  assert.throws(() => strict.search({ ...event, n: 1 }), { kind: "type", attribute: "ip" });
  assert.deepEqual(strict.search(event, { onMismatch: "undefined" }), [1]);
  assert.deepEqual(strict.searchMany([event, event], { onMismatch: "undefined" }), [[1], [1]]);
  assert.equal(strict.explain(event, 2, { onMismatch: "undefined" }).match, false);
  assert.equal(strict.profile([event], { onMismatch: "undefined" }).searches, 1);
  assert.deepEqual(strict.trace(event, { onMismatch: "undefined" }).ids, [1]);
  assert.deepEqual(lenient.search(JSON.stringify(event)), [1]);
  assert.deepEqual(lenient.search(event), [1]);
  assert.equal(lenient.schema.ip.onMismatch, "undefined");
  assert.equal(lenient.schema.name.onMismatch, undefined);
  assert.throws(() => lenient.search({ name: 1 }), { kind: "type", attribute: "name" });
  assert.throws(() => new BeTree({ a: { type: "ip", onMismatch: "undefined" } }), { kind: "type", attribute: "a" });
  assert.throws(() => strict.search(event, { onMismatch: "ignore" }), { kind: "argument" });
});

test("numbers are times in the unit of their attribute", () => {
  const tree = new BeTree({ at: { type: "datetime", unit: "second" } });
  tree.insertAll([
    { id: 1, expression: "at > '2019-01-01T00:00:00Z'" },
    { id: 2, expression: "at > 1557933565" },
  ]);
  assert.deepEqual(tree.search({ at: 1557933565 }), [1]);
  assert.deepEqual(tree.search({ at: 1557933565.5 }), [1, 2]);
  assert.equal(tree.schema.at.unit, "second");
  assert.throws(() => new BeTree({ at: { type: "datetime", unit: "minute" } }), { kind: "argument", attribute: "at" });
});

test("the package has at most 1.57 MB, and no file that is not named", () => {
  const folder = mkdtempSync(join(tmpdir(), "be-tree-"));
  try {
    const out = execFileSync("npm", ["pack", "--json", "--pack-destination", folder, join(built, "package")], {
      encoding: "utf8",
    });
    const [{ size, files }] = JSON.parse(out);
    assert.ok(size <= 1_570_000, `${size} bytes`);
    for (const module of ["embedded.js", "be_tree_web_bg.wasm"]) {
      const compressed = gzipSync(readFileSync(join(built, "package", module)), { level: 9 }).length;
      assert.ok(compressed <= 325_000, `${module}: ${compressed} bytes`);
    }
    const names = files.map(({ path }) => path).sort();
    assert.deepEqual(names, [
      "LICENSE",
      "README.md",
      "arguments.cjs",
      "arguments.js",
      "attempt.cjs",
      "attempt.js",
      "be_tree_rules_web.cjs",
      "be_tree_rules_web.js",
      "be_tree_rules_web_bg.wasm",
      "be_tree_web.cjs",
      "be_tree_web.js",
      "be_tree_web_bg.wasm",
      "bounds.cjs",
      "bounds.js",
      "caret.cjs",
      "caret.js",
      "embedded.js",
      "error.cjs",
      "error.js",
      "event.cjs",
      "event.js",
      "external.js",
      "image.cjs",
      "image.js",
      "image_bytes.cjs",
      "image_bytes.js",
      "index.d.cts",
      "index.d.ts",
      "index.js",
      "inflate.js",
      "init.js",
      "library.cjs",
      "library.js",
      "module.cjs",
      "module.js",
      "node.cjs",
      "node.js",
      "node_bundled.js",
      "package.json",
      "profile.cjs",
      "profile.js",
      "reads.cjs",
      "reads.js",
      "rules.d.cts",
      "rules.d.ts",
      "rules.js",
      "rules_embedded.js",
      "rules_external.js",
      "rules_facts.cjs",
      "rules_facts.js",
      "rules_library.cjs",
      "rules_library.js",
      "rules_module.cjs",
      "rules_module.js",
      "rules_node.cjs",
      "rules_node.js",
      "rules_node_bundled.js",
      "rules_workerd.js",
      "schema.cjs",
      "schema.js",
      "steps.cjs",
      "steps.js",
      "worker.d.cts",
      "worker.d.ts",
      "worker.js",
      "worker_client.cjs",
      "worker_client.js",
      "worker_inline.cjs",
      "worker_inline.js",
      "worker_node.cjs",
      "worker_node.js",
      "worker_node_bundled.js",
      "worker_of_thread.cjs",
      "worker_of_thread.js",
      "worker_page.js",
      "worker_serve.cjs",
      "worker_serve.js",
      "worker_source.js",
      "worker_thread.js",
      "worker_workerd.js",
      "workerd.js",
    ]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the types describe each method", () => {
  const types = readFileSync(join(built, "package/index.d.ts"), "utf8");
  const [, body] = types.match(/export class BeTree<I extends Id = Id> \{([^]*?)\n\}/);
  const described = [...body.matchAll(/^ {2}(?:static |readonly )*(\w+)[(:<]/gm)].map(([, name]) => name);
  const own = [...Object.getOwnPropertyNames(BeTree.prototype), "load", "maxMemory"];
  assert.deepEqual(described.sort(), own.sort());
});

function refusalOf(call) {
  try {
    call();
  } catch (error) {
    return error;
  }
  return assert.fail("nothing was refused");
}

const ages = () => new BeTree({ age: "integer", name: { type: "string", optional: true } });

test("objects in a schema and in events are paths", () => {
  const tree = new BeTree({
    user: { name: { type: "string", coerce: true }, address: { city: { type: "string", optional: true } } },
    "`a.b`": { type: "integer", optional: true },
  });
  assert.deepEqual(Object.keys(tree.schema), ["user.name", "user.address.city", "`a.b`"]);
  tree.insert(1, "user.name = '7' and user.address.city is null");
  tree.insert(2, "user.address.city = 'Rome' or `a.b` = 1");
  assert.deepEqual(tree.search({ user: { name: 7 } }), [1]);
  assert.deepEqual(tree.search({ user: { name: "x", address: { city: "Rome" } } }), [2]);
  assert.deepEqual(tree.search({ "a.b": 1, user: { name: "7", address: null } }), [1, 2]);
  assert.throws(() => tree.search({ user: 3 }), { kind: "type", attribute: "user" });
  assert.throws(() => tree.search({ user: { name: Infinity } }), { kind: "out_of_bounds", attribute: "user.name" });
  assert.throws(() => new BeTree({ a: {} }), { kind: "argument" });
  assert.throws(() => new BeTree({ "a b": "integer" }), { kind: "type", attribute: "a b" });
});

test("ids are numbers where numbers are exact, and otherwise bigints", () => {
  const tree = ages();
  const ids = [0, Number.MAX_SAFE_INTEGER, 2n ** 53n, 2n ** 64n - 1n];
  tree.insertAll(ids.map((id) => ({ id, expression: "age > 0" })));
  assert.deepEqual(tree.search({ age: 1 }), ids);
  assert.deepEqual(tree.search({ age: 1 }, { ids: [0n, 5] }), [0]);
  assert.deepEqual(tree.trace({ age: 1 }).ids, ids);
  tree.delete(2n ** 64n - 1n);
  assert.equal(tree.info().expressions, 3);
  for (const id of [-1, 1.5, 2 ** 53, 2n ** 64n, "1", null])
    assert.throws(() => tree.insert(id, "true"), { kind: "argument" });
});

test("a failed call changes nothing, and tells where the fault is", () => {
  const tree = ages();
  tree.insert(1, "age > 20");
  const list = [
    { id: 2, expression: "age > 30" },
    { id: 3, expression: "age >" },
  ];
  assert.throws(
    () => tree.insertAll(list),
    (error) => {
      assert.ok(error instanceof BeTreeError && error instanceof Error);
      assert.deepEqual([error.kind, error.position, error.column, error.text], ["syntax", 1, 6, "age >"]);
      assert.equal(error.caret, "age >\n     ^");
      return true;
    },
  );
  assert.equal(tree.info().expressions, 1);
  const refused = (call, expected) =>
    assert.throws(call, (error) => (assert.equal(error.kind, expected), error.position === null));
  refused(() => tree.insert(1, "age > 1"), "duplicate_id");
  refused(() => tree.delete(9), "not_found");
  refused(() => tree.explain({ age: 1 }, 9), "not_found");
  refused(() => tree.search({}), "missing_attribute");
  refused(() => tree.search({ age: "x" }), "type");
  refused(() => tree.search({ age: 1.5 }), "type");
  refused(() => tree.search({ age: NaN }), "out_of_bounds");
  assert.throws(() => tree.search("{}}"), {
    kind: "syntax",
    column: 3,
    caret: "{}}\n  ^",
  });
  assert.throws(() => tree.search({ age: "x" }), { column: null, text: null });
  assert.throws(() => tree.searchMany([{ age: 1 }, "{"]), {
    kind: "syntax",
    position: 1,
    column: 2,
    text: "{",
  });
  assert.deepEqual(tree.search({ age: 21 }), [1]);
});

test("an expression is put in the place of another, or nothing changes", async () => {
  for (const tree of [new BeTree({ i: { type: "integer", optional: true } }), await BeTree.load(image)]) {
    const before = tree.info().expressions;
    tree.put(7000, "i = 77");
    tree.put(7001, "i = 77");
    tree.put(7000, "i = 78");
    const found = (i) => tree.search({ i }, { ids: [7000, 7001] });
    assert.deepEqual([found(77), found(78)], [[7001], [7000]]);
    assert.throws(() => tree.put(7000, "i ="), { kind: "syntax", column: 4, position: null });
    assert.throws(() => tree.put(7002, "nope"), { kind: "unknown_attribute" });
    assert.deepEqual([found(77), found(78), tree.info().expressions], [[7001], [7000], before + 2]);
  }
});

test("arguments of a wrong type are named", () => {
  const tree = ages();
  assert.throws(() => new BeTree([["age", "integer"]]), {
    kind: "argument",
    reason: /an array/,
  });
  assert.throws(() => new BeTree({ age: { min: 3 } }), {
    kind: "argument",
    reason: /the domain of age/,
  });
  assert.throws(() => new BeTree({ age: { type: "integer", most: 3 } }), {
    kind: "argument",
    reason: /has no most/,
  });
  assert.throws(() => new BeTree({ age: "number" }), {
    kind: "type",
    attribute: "age",
  });
  assert.throws(() => new BeTree({ age: { type: "integer", min: 3, max: 1 } }), { kind: "type", attribute: "age" });
  assert.throws(() => new BeTree({ age: { type: "integer", count: 3 } }), {
    kind: "type",
    attribute: "age",
  });
  assert.throws(() => tree.insert(1, 3), {
    kind: "argument",
    reason: /an expression/,
  });
  assert.throws(() => tree.insert(1, "true", { constants: { flight_id: 1.5 } }), {
    kind: "argument",
    reason: /flight_id/,
  });
  assert.throws(() => tree.insertAll({}), { kind: "argument" });
  assert.throws(() => tree.search([1]), { kind: "argument" });
  assert.throws(() => tree.search({ age: { of: 3 } }), { kind: "type", attribute: "age" });
  assert.throws(() => tree.search({ age: () => 3 }), {
    kind: "argument",
    reason: /age of an event/,
  });
  assert.throws(() => tree.searchMany({}), { kind: "argument" });
});

test("explanations of any depth", () => {
  const tree = ages();
  tree.insert(1, `${"not ".repeat(5000)}age > 3`);
  let { root } = tree.explain({ age: 4 }, 1);
  let depth = 0;
  for (; root.kind === "not"; depth++) [root] = root.children;
  assert.deepEqual([depth, root.text, root.actual], [5000, "age > 3", 4]);
});

test("an image takes changes, and refuses what is no image", async () => {
  const tree = await BeTree.load(image);
  const before = tree.info().expressions;
  tree.insert(5000, "i > 3 and s = 'new'");
  assert.ok(tree.search({ i: 4, s: "new" }).includes(5000));
  assert.throws(() => tree.insert(5000, "b"), { kind: "duplicate_id" });
  tree.delete(5000);
  assert.equal(tree.info().expressions, before);
  assert.throws(() => tree.trace({}), { kind: "not_found" });
  const changed = Uint8Array.from(image);
  changed[changed.length - 1] ^= 1;
  const empty = Uint8Array.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  for (const bytes of [new Uint8Array(9), empty, changed, image.subarray(0, 1000)]) {
    await assert.rejects(BeTree.load(bytes), { kind: "bad_module" });
  }
  await assert.rejects(BeTree.load("image"), { kind: "argument" });
});

test("a hundred thousand expressions agree with a plain loop", () => {
  const tree = new BeTree({ a: "integer", b: "integer" });
  const count = 100_000;
  const expressions = Array.from({ length: count }, (_, id) => ({
    id,
    expression: `a = ${id % 1000} and b >= ${id % 7}`,
  }));
  assert.equal(tree.insertAll(expressions), count);
  const expected = expressions.map(({ id }) => id).filter((id) => id % 1000 === 123 && id % 7 <= 3);
  const { ids, visited, steps } = tree.trace({ a: 123, b: 3 });
  assert.deepEqual(tree.search({ a: 123, b: 3 }), expected);
  assert.deepEqual(ids, expected);
  assert.ok(visited < 200 && steps.some(({ edge }) => edge?.label === "123" && edge.siblings === 1000));
});

test("it runs in a worker", async () => {
  const code = `
    const { BeTree } = await import(${JSON.stringify(pathToFileURL(join(built, "package/node.js")).href)});
    const { parentPort } = await import("node:worker_threads");
    const tree = new BeTree({ a: "integer" });
    tree.insert(1, "a > 1");
    parentPort.postMessage(tree.search({ a: 2 }));`;
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`));
  const found = await new Promise((done, failed) => worker.once("message", done).once("error", failed));
  await worker.terminate();
  assert.deepEqual(found, [1]);
});

test("has, get, ids, size and clear know the subscriptions", async () => {
  const tree = ages();
  tree.insertAll([
    { id: 2n ** 60n, expression: "age > 1" },
    { id: 7, expression: new TextEncoder().encode("age > 2"), constants: { flight_id: 3 } },
    { id: 5n, expression: "age > 3" },
  ]);
  tree.put(5, "age > 4");
  assert.throws(() => tree.insert(9, "age >"), { kind: "syntax" });
  assert.throws(() => tree.put(7, "age >"), { kind: "syntax" });
  assert.deepEqual(tree.ids(), [5, 7, 2n ** 60n]);
  assert.deepEqual([tree.has(5n), tree.has(9), tree.size], [true, false, 3]);
  assert.deepEqual(tree.get(7), { id: 7, expression: "age > 2", constants: { flight_id: 3 } });
  assert.deepEqual([tree.get(5).expression, tree.get(9)], ["age > 4", undefined]);
  tree.delete(7);
  assert.deepEqual(tree.ids(), [5, 2n ** 60n]);
  tree.clear();
  assert.deepEqual([tree.ids(), tree.size, tree.search({ age: 9 })], [[], 0, []]);
  tree.insert(7, "age > 2");
  assert.deepEqual(tree.search({ age: 9 }), [7]);

  const read = await BeTree.load(image);
  assert.equal(read.size, read.info().expressions);
  for (const call of [() => read.has(1), () => read.get(1), () => read.ids(), () => read.clear()])
    assert.throws(call, { kind: "not_found" });
});

test("an index is freed at the end of its block", () => {
  const tree = ages();
  tree[Symbol.dispose ?? Symbol.for("Symbol.dispose")]();
  assert.throws(() => tree.size, { kind: "freed" });
});

test("after free() every call throws an error of its own kind, and free() does nothing", async () => {
  for (const tree of [new BeTree({ age: "integer" }), await BeTree.load(image)]) {
    tree.free();
    tree.free();
    for (const call of [
      () => tree.insert(1, "age > 3"),
      () => tree.insertAll([]),
      () => tree.put(1, "age > 3"),
      () => tree.delete(1),
      () => tree.search({ age: 3 }),
      () => tree.searchMany([]),
      () => tree.explain({ age: 3 }, 1),
      () => tree.profile([]),
      () => tree.trace({ age: 3 }),
      () => tree.draw(),
      () => tree.info(),
      () => tree.has(1),
      () => tree.get(1),
      () => tree.ids(),
      () => tree.clear(),
      () => tree.size,
    ]) {
      assert.throws(call, (error) => {
        assert.ok(error instanceof BeTreeError);
        assert.equal(error.kind, "freed");
        assert.equal(error.reason, "this index was freed by free(); make a new one");
        return true;
      });
    }
  }
});

const refused = (call, reason, kind = "argument") =>
  assert.throws(call, (error) => {
    assert.ok(error instanceof BeTreeError, `${error}`);
    assert.equal(error.kind, kind);
    assert.match(error.reason, reason);
    return true;
  });

test("an unknown option is refused with the nearest name", () => {
  const tree = ages();
  refused(() => tree.search({ age: 1 }, { id: [1] }), /search has no id; did you mean ids\?/);
  refused(() => tree.search({ age: 1 }, { onmismatch: "undefined" }), /did you mean onMismatch\?/);
  refused(() => tree.explain({ age: 1 }, 1, { ids: [1] }), /explain has no ids; it has onMismatch/);
  refused(() => tree.insert(1, "age > 1", { constant: { flight_id: 1 } }), /did you mean constants\?/);
  refused(() => tree.put(1, "age > 1", { constant: { flight_id: 1 } }), /did you mean constants\?/);
  refused(
    () => tree.insertAll([{ id: 1, expresion: "true" }]),
    /subscription 0 has no expresion; did you mean expression\?/,
  );
  refused(() => new BeTree({ age: "integer" }, { onMismach: "undefined" }), /did you mean onMismatch\?/);
  refused(() => new BeTree({ age: { type: "integer", optinal: true } }), /did you mean optional\?/);
  for (const options of [[1], 1, null, "ids", new Set([1])])
    refused(() => tree.search({ age: 1 }, options), /the options of search are an object/);
  assert.equal(tree.info().expressions, 0);
});

test("ids are those of any collection", () => {
  const tree = ages();
  tree.insertAll([1, 2, 3].map((id) => ({ id, expression: "age > 1" })));
  for (const ids of [[3, 1], new Set([1, 3]), new Uint8Array([1, 3]), new BigUint64Array([1n, 3n])])
    assert.deepEqual(tree.search({ age: 2 }, { ids }), [1, 3]);
  for (const ids of [1, "13", null, {}]) refused(() => tree.search({ age: 2 }, { ids }), /the option ids/);
});

test("maps, sets, typed arrays, dates, getters and toJSON have their plain meaning", () => {
  const schema = new Map([
    ["age", "integer"],
    ["tags", { type: "integer_list", optional: true }],
    ["at", { type: "datetime", optional: true }],
    [
      "user",
      new Map([
        [
          "name",
          new Map([
            ["type", "string"],
            ["optional", true],
          ]),
        ],
      ]),
    ],
  ]);
  const tree = new BeTree(schema);
  assert.deepEqual(Object.keys(tree.schema), ["age", "tags", "at", "user.name"]);
  tree.insertAll([
    { id: 1, expression: "age = 3" },
    { id: 2, expression: "tags one of (7)" },
    { id: 3, expression: "at = '2019-05-15T15:19:25.500Z'" },
    { id: 4, expression: "user.name = 'Ada'" },
  ]);
  class Person {
    get age() {
      return 3;
    }
    get user() {
      return { toJSON: () => new Map([["name", "Ada"]]) };
    }
  }
  assert.deepEqual(tree.search(new Person()), [1, 4]);
  assert.deepEqual(tree.search(new Map([["age", 3]])), [1]);
  assert.deepEqual(tree.search({ age: Object(3), tags: new Set([7]) }), [1, 2]);
  assert.deepEqual(tree.search({ age: 0, tags: new Int16Array([7]), at: new Date(1557933565500) }), [2, 3]);
  assert.deepEqual(tree.search({ toJSON: () => ({ age: 3 }) }), [1]);

  const itself = { age: 3 };
  itself.user = itself;
  refused(() => tree.search(itself), /contains itself/);
  refused(() => tree.search({ age: 3, at: new Date(NaN) }), /give a valid Date/);
  refused(() => tree.search({ age: 3, user: new (class {})() }), /user of an event is/);
  for (const value of [/a/, new WeakMap(), Promise.resolve(3), new ArrayBuffer(3)])
    refused(() => tree.search({ age: 3, user: value }), /user of an event is/);
  refused(() => tree.search(new Map([[3, 3]])), /the keys of the event are strings/);
  refused(() => tree.search(new Date()), /an event is an object/);
});

test("half of a surrogate pair is refused", () => {
  const tree = ages();
  refused(() => tree.insert(1, "name = '\ud800'"), /half of a surrogate pair/);
  refused(() => tree.search({ age: 3, name: "\udc00" }), /name has half of a surrogate pair/);
  refused(() => tree.search('{"age": 3, "name": "\ud800"}'), /half of a surrogate pair/);
  refused(() => new BeTree({ "\ud800": "integer" }), /half of a surrogate pair/);
  tree.insert(1, "name = '😀'");
  assert.deepEqual(tree.search({ age: 3, name: "😀" }), [1]);
});

test("an error keeps its fields over structuredClone, as its cause", () => {
  const error = refusalOf(() => ages().insert(1, "age >"));
  const { kind, message, column, text } = structuredClone(error).cause;
  assert.deepEqual([kind, message, column, text], ["syntax", error.reason, error.column, "age >"]);
});

test("an overflow of the stack does not end the index", () => {
  const tree = ages();
  tree.insertAll(Array.from({ length: 1000 }, (_, id) => ({ id, expression: `age > ${id} and name in ('a', 'b')` })));
  const event = { age: 500, name: "a" };
  const expected = tree.search(event);
  let overflows = 0;
  const attempt = (call) => {
    try {
      call();
    } catch (error) {
      if (error instanceof RangeError) overflows++;
      else throw error;
    }
  };
  const dive = (depth, call) => (depth === 0 ? attempt(call) : dive(depth - 1, call));
  for (const call of [() => tree.search(event), () => tree.explain(event, 1), () => tree.searchMany([event])]) {
    overflows = 0;
    // Compiled functions take less of the stack than those that are interpreted, so the depth of an overflow is not known before.
    for (let depth = 5000; overflows === 0; depth += 11) {
      try {
        dive(depth, call);
      } catch (error) {
        assert.ok(error instanceof RangeError, `${error}`);
        depth = 5000;
      }
    }
  }
  assert.deepEqual(tree.search(event), expected);
});
