// Uses of the types that compile in the strictest settings, without the types of pages. `tsc` fails if one marked as wrong compiles.
import { BeTree, BeTreeError, init, type Id, type Kind, type SearchOptions, type Stored } from "be-tree";
import { init as initFrom } from "be-tree/external";
import {
  BeTreeError as RulesError,
  init as initRules,
  Rules,
  type Fact,
  type Notice,
  type Page,
  type StoredFact,
} from "be-tree/rules";
import { BeTreeWorker } from "be-tree/worker";
import { init as initRulesFrom } from "be-tree/rules/external";

interface Visit {
  age: number;
  user: { name: string; tags?: readonly string[] };
  at: Date;
}

await init();
await initFrom("https://example.com/be_tree_web_bg.wasm");
await initFrom(new Uint8Array(3));

const visit: Visit = { age: 3, user: { name: "Ada" }, at: new Date() };
const options: SearchOptions = { onMismatch: undefined };

using tree = new BeTree<number>({ age: "integer", user: { name: { type: "string", optional: true } } });
const matches: number[] = tree.search(visit, options);
const many: number[][] = tree.searchMany([visit, new Map([["age", 3]]), "{}"], { ids: new Set([1]) });
const stored: Stored<number> | undefined = tree.get(1);
const [size, ids, known]: [number, number[], boolean] = [tree.size, tree.ids(), tree.has(1)];
// @ts-expect-error: the ids of this index are numbers.
tree.insert(1n, "age > 3");
// @ts-expect-error: there is no such option.
tree.search(visit, { id: [1] });

tree.searchMany([visit], { budget: 1_000, timeout: 5 });
tree.insertAll([{ id: 1, expression: "age > 3" }], { budget: undefined });
tree.put(1, "age > 3", { budget: 1_000 });
// @ts-expect-error: a profile has no budget.
tree.profile([visit], { budget: 1_000 });
const limit: number = (BeTree.maxMemory = 2 ** 26);

type AdId = number & { readonly brand: "ad" };
const ads = new BeTree<AdId>({ age: "integer" });
const found: AdId[] = ads.search(visit);

const wide = new BeTree<bigint>({ age: "integer" });
// @ts-expect-error: a bigint below 2^53 comes back as a number.
const bigints: bigint[] = wide.search(visit);
const either: Id[] = wide.search(visit);

const read: BeTree<number> = await BeTree.load<number>(new Uint8Array(3));

try {
  tree.insert(1, "age >", { constants: { flight_id: 1n } });
} catch (error) {
  if (error instanceof BeTreeError) {
    const kind: Kind = error.kind;
    console_log(kind, error.column);
  }
}

interface Login {
  user: string;
  at: Date;
}

await initRules();
await initRulesFrom(new Uint8Array(3));
using rules = new Rules("fact login(user: string)", { firings: 100, lateness: undefined });
const login: Login = { user: "ann", at: new Date() };
const facts: Fact[] = [{ login }, '{"login": {}}', new Map([["login", new Map([["user", "ann"]])]])];
const page: Page = rules.assertAll(facts, { source: "web" });
const notices: Notice[] = rules.advance(new Date()).notices;
const logins: StoredFact[] = rules.facts("login", { before: 3n, limit: 10 });
const user: null | boolean | number | bigint | string | undefined = logins[0]?.fields["user"];
const isSameClass: typeof BeTreeError = RulesError;
const warnings: string[] = rules.warnings;
// @ts-expect-error: the type of a fact has an object of fields.
rules.assert({ login: 3 });
// @ts-expect-error: there is no such option.
new Rules("", { notices: 3 });

await using worker = new BeTreeWorker<number>({ age: "integer" }, { timeout: 5 });
const counted: number = await worker.insertAll([{ id: 1, expression: "age > 3" }], { timeout: undefined });
const answered: number[] = await worker.search(visit, { budget: 1_000, ids: [1] });
// @ts-expect-error: the ids of this index are numbers.
await worker.delete(1n);

declare function console_log(...values: unknown[]): void;
console_log(matches, many, stored, size, ids, known, found, bigints, either, read);
console_log(page, notices, user, isSameClass, warnings, limit, counted, answered);
