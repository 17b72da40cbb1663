// Rules of the package in Node. `make test` builds the package and the cases before.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { differencesOfRules } from "./rules_conformance.js";

const built = fileURLToPath(new URL("../../../_build/web/", import.meta.url));
const library = await import(join(built, "package/rules_node.js"));
const { Rules, BeTreeError } = library;

const UNPAID = `
fact order(id: integer)
fact payment(order: integer)
rule unpaid
  when o: order
       none payment(order = o.id) within 10 minutes after o
  then notify unpaid(order: o.id)
`;

// A click makes both rules fire endlessly.
const LOOP = `
fact click(id: integer)
fact session(id: integer)
fact note(text: string)
rule open when c: click none session then assert session(id: c.id), notify opened(id: c.id)
rule close when s: session then retract s
rule noted when n: note then notify noted(text: n.text)
`;

test("scripts of calls, with the results of the Elixir side", () => {
  const cases = JSON.parse(readFileSync(join(built, "rules_cases.json"), "utf8"));
  const { faults, compared } = differencesOfRules(library, cases);
  assert.deepEqual(faults, []);
  assert.ok(compared > 30_000 && cases.refusals.length > 50, `${compared}`);

  // A difference is found.
  const [script] = cases.scripts;
  const [result, ...results] = script.results;
  const changed = { ...script, results: [{ ...result, kind: "other" }, ...results] };
  const found = differencesOfRules(library, { scripts: [changed], workloads: [], refusals: [] }).faults;
  assert.ok(found.length === 2 && found[0].startsWith("script 0, call 0: "), `${found}`);
});

test("the example of rules in the README", () => {
  const readme = readFileSync(join(built, "package/README.md"), "utf8");
  const [, example] = readme.match(/## Rules\n[^]*?```js\n([^]*?)```/);
  const body = example.replace(/^import .*$/m, "").replace(/^(rules\..*); \/\/ (.*)$/gm, "results.push([$1, $2]);");
  const results = [];
  new Function("Rules", "results", body)(Rules, results);
  assert.ok(results.length > 1);
  results.forEach(([actual, expected]) => assert.deepEqual(actual, expected));
});

test("require and import have the same classes, also those of the index", async () => {
  const required = createRequire(import.meta.url)(join(built, "package/rules_node.cjs"));
  assert.equal(required.Rules, Rules);
  const index = await import(join(built, "package/node.js"));
  assert.equal(index.BeTreeError, BeTreeError);
  // The other entries have a module of their own.
  const bundled = await import(join(built, "package/rules_node_bundled.js"));
  assert.equal(new bundled.Rules(UNPAID).info().rules, 1);
});

test("the index loads no rules, and rules load no index", () => {
  const loaded = (entry) =>
    execFileSync(
      process.execPath,
      [
        "-e",
        `require(process.argv[1]); console.log(Object.keys(require.cache).map((file) => require("path").basename(file)).join())`,
        join(built, "package", entry),
      ],
      { encoding: "utf8" },
    );
  assert.doesNotMatch(loaded("node.cjs"), /rules/);
  assert.doesNotMatch(loaded("rules_node.cjs"), /be_tree_web|(^|,)library|image/);
});

test("the module has at most 415 KB compressed", () => {
  for (const module of ["rules_embedded.js", "be_tree_rules_web_bg.wasm"]) {
    const compressed = gzipSync(readFileSync(join(built, "package", module)), { level: 9 }).length;
    assert.ok(compressed <= 415_000, `${module}: ${compressed} bytes`);
  }
});

test("the types describe each method", () => {
  const types = readFileSync(join(built, "package/rules.d.ts"), "utf8");
  const [, body] = types.match(/export class Rules \{([^]*?)\n\}/);
  const described = [...body.matchAll(/^ {2}(?:readonly )?(\w+)[(:]/gm)].map(([, name]) => name);
  assert.deepEqual(described.sort(), Object.getOwnPropertyNames(Rules.prototype).sort());
});

test("times are milliseconds or dates", () => {
  const rules = new Rules(UNPAID);
  const noon = new Date("2026-01-31T12:00:00Z");
  const page = rules.assertAll([
    { order: { id: 1, at: noon } },
    { order: new Map(Object.entries({ id: 2, at: noon })) },
  ]);
  assert.deepEqual(page.ids, [1, 2]);
  assert.deepEqual(rules.facts("order")[1], { id: 1, type: "order", at: noon.getTime(), fields: { id: 1 } });
  assert.equal(page.nextDue, noon.getTime() + 600_000);
  assert.deepEqual(rules.advance(noon.getTime() + 599_999).notices, []);
  const { notices, lastRule, firings } = rules.advance(new Date(page.nextDue));
  assert.deepEqual(
    notices,
    [2, 1].map((order) => ({ rule: "unpaid", name: "unpaid", values: { order } })),
  );
  assert.deepEqual([lastRule, firings], ["unpaid", 2]);
  for (const time of [1.5, NaN, "0", new Date(NaN), undefined])
    assert.throws(() => rules.advance(time), { kind: "argument" });
  assert.throws(() => rules.advance(9_000_000_000_000_000), { kind: "out_of_bounds" });
  assert.throws(() => rules.assert({ order: { id: 1, at: new Date(NaN) } }), { kind: "argument" });
});

test("a fact is read as it is meant, or refused", () => {
  const rules = new Rules("fact a(n: integer optional, s: string optional, f: float optional on_mismatch undefined)");
  const facts = [
    { a: { n: 2n ** 60n, s: "é😀", f: 0.5, other: { deep: [1] } } },
    new Map([["a", new Map([["s", "x"]])]]),
    '{"a": {"n": 3, "s": null}}',
    { a: { f: NaN } },
    { a: { f: "no number" } },
  ];
  const { ids, mismatches } = rules.assertAll(facts);
  assert.deepEqual([ids, mismatches], [[1, 2, 3, 4, 5], 2]);
  assert.deepEqual(
    rules.facts("a", { before: 4, limit: 2 }).map(({ fields }) => fields),
    [
      { n: 3, s: null, f: null },
      { n: null, s: "x", f: null },
    ],
  );
  assert.deepEqual(rules.facts("a", { before: 2 })[0].fields, { n: 2n ** 60n, s: "é😀", f: 0.5 });
  for (const fact of [3, null, [], {}, { a: {}, b: {} }, { a: 3 }, { a: null }, { a: { s: "\ud800" } }, "\ud800"])
    assert.throws(() => rules.assert(fact), { kind: "argument", position: null });
  assert.throws(() => rules.assertAll([{ a: {} }, { a: 3 }]), { kind: "argument", position: 1 });
  assert.throws(() => rules.assertAll(new Set()), { kind: "argument" });
  assert.equal(rules.info().facts, 5);
});

test("a fault in the text has its line, and one in the JSON of a fact its column", () => {
  assert.throws(
    () => new Rules("fact login(user: string)\nrule r when a: logn then retract a"),
    (error) => {
      assert.ok(error instanceof BeTreeError);
      assert.deepEqual([error.kind, error.line, error.column], ["unknown_attribute", 2, 16]);
      assert.equal(error.caret, "rule r when a: logn then retract a\n               ^");
      assert.match(error.message, /did you mean `login`\? \(line 2\)\n\n {4}rule r/);
      assert.equal(structuredClone(error).cause.line, 2);
      return true;
    },
  );
  const rules = new Rules(UNPAID);
  assert.throws(() => rules.assertAll([{ order: { id: 1 } }, '{"order": {"id": x}}']), {
    kind: "syntax",
    position: 1,
    column: 18,
    text: '{"order": {"id": x}}',
  });
  assert.throws(() => rules.assert({ ordr: { id: 1 } }), { kind: "unknown_attribute", column: null, text: null });
});

test("rules that enable one another without end are undone at the limit", () => {
  const rules = new Rules(LOOP, { firings: 1_000 });
  assert.deepEqual(rules.warnings, ["rules `open` (line 5) and `close` (line 6) can enable each other without end"]);
  assert.deepEqual(rules.assert({ note: { text: "before" } }).notices.length, 1);
  const state = () => [
    rules.facts("click"),
    rules.facts("session"),
    rules.facts("note"),
    rules.sources(),
    rules.info(),
  ];
  const before = state();
  assert.throws(
    () => rules.assertAll([{ note: { text: "lost" } }, { click: { id: 1, at: 5_000 } }]),
    (error) => {
      assert.equal(error.kind, "out_of_bounds");
      assert.match(error.reason, /fired 1000 rules, .* undone; its last firings were of `open`, `close`: mend rules/);
      return true;
    },
  );
  // The memory that the call took stays with the module.
  const sizes = ({ factsBytes: _facts, memoryBytes: _memory, ...counts }) => counts;
  const parts = (state) => [...state.slice(0, -1), sizes(state.at(-1))];
  assert.deepEqual(parts(state()), parts(before));
  assert.deepEqual(rules.assert({ note: { text: "after" } }).ids, [2]);
});

test("a call that lacks memory is undone", () => {
  const rules = new Rules("fact a(s: string) rule r when x: a then notify seen(s: x.s)", { memory: 300_000 });
  const fact = (number) => ({ a: { s: `${number}`.padStart(100, "-") } });
  let count = 0;
  const refuse = () => {
    for (;;) count += rules.assertAll(Array.from({ length: 50 }, (_, place) => fact(count + place))).ids.length;
  };
  assert.throws(refuse, { kind: "out_of_memory" });
  assert.ok(count > 100, `${count}`);
  assert.deepEqual([rules.info().facts, rules.facts("a").length, rules.info().firings], [count, count, count]);
  // There is room again.
  for (const { id } of rules.facts("a", { limit: 100 })) rules.retract(id);
  assert.equal(rules.assertAll([fact(1), fact(2)]).firings, 2);
  assert.throws(() => new Rules(UNPAID, { facts: 1 }).assertAll([{ order: { id: 1 } }, { order: { id: 2 } }]), {
    kind: "out_of_bounds",
    position: 1,
  });
});

test("each source has its own time", () => {
  const rules = new Rules(UNPAID);
  for (const source of ["web", "kiosk"]) rules.advance(0, { source });
  rules.assert({ order: { id: 1, at: 900_000 } }, { source: "web" });
  assert.deepEqual(rules.sources(), new Map(Object.entries({ web: 900_000, kiosk: 0 })));
  assert.deepEqual([rules.info().now, rules.info().waiting], [0, 1]);
  assert.deepEqual(rules.endSource("kiosk").firings, 0);
  assert.deepEqual([rules.info().now, rules.info().waiting], [900_000, 0]);
  assert.equal(rules.advance(1_500_000).notices.length, 1);
  assert.throws(() => rules.endSource(undefined), { kind: "argument" });
  assert.throws(() => rules.endSource(null), { kind: "argument" });
  assert.throws(() => rules.advance(0, { sorce: "web" }), { kind: "argument", reason: /did you mean source\?/ });
  assert.throws(() => rules.assert({ order: { id: 1 } }, { source: "" }), { kind: "out_of_bounds" });
});

test("a rule is explained", () => {
  const rules = new Rules(
    "fact job(name: string) fact lock(name: string)\nrule start\n when j: job\n none lock(name = j.name)\n then notify start(name: j.name)",
  );
  rules.assertAll([{ lock: { name: "a" } }, { job: { name: "a" } }]);
  const [{ verdict, line, condition, by, facts }] = rules.explain("start");
  assert.deepEqual([verdict, line, condition, by.id, facts[0].id], ["blocked", 4, "none lock(name = j.name)", 1, 2]);
  rules.retract(by.id);
  assert.equal(rules.explain("start")[0].verdict, "fired");
  assert.throws(() => rules.explain("stop"), { kind: "not_found", attribute: "stop" });
});

test("options are checked", () => {
  for (const options of [{ memory: 0 }, { facts: 1.5 }, { firings: "3" }, { lateness: -1 }, { fireings: 3 }, 3])
    assert.throws(() => new Rules(UNPAID, options), { kind: "argument" });
  for (const text of [3, undefined, null, "\ud800"]) assert.throws(() => new Rules(text), { kind: "argument" });
  const rules = new Rules(UNPAID);
  for (const options of [{ before: -1 }, { limit: 0 }, { most: 1 }])
    assert.throws(() => rules.facts("order", options), { kind: "argument" });
  assert.throws(() => rules.facts(3), { kind: "argument" });
});

test("after free() every call throws an error of its own kind, and free() does nothing", () => {
  const rules = new Rules(UNPAID);
  rules[Symbol.dispose ?? Symbol.for("Symbol.dispose")]();
  rules.free();
  for (const call of [
    () => rules.assert({ order: { id: 1 } }),
    () => rules.assertAll([]),
    () => rules.retract(1),
    () => rules.advance(0),
    () => rules.endSource("web"),
    () => rules.sources(),
    () => rules.facts("order"),
    () => rules.explain("unpaid"),
    () => rules.warnings,
    () => rules.info(),
  ])
    assert.throws(call, { name: "BeTreeError", kind: "freed" });
});
