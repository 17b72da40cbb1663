/// <reference lib="esnext.disposable" />
/** Stateful rules: facts and events joined, with windows, absence and aggregates. */

import type { Id, Source as ModuleSource } from "./index.js";

export { BeTreeError, type CompiledModule, type Id, type Kind, type Source } from "./index.js";

/**
 * Loads the WebAssembly module of rules, which the first rules need, as `init` of `be-tree` loads that of the index. Its file is
 * `be_tree_rules_web_bg.wasm`.
 */
export function init(source?: ModuleSource | Promise<ModuleSource>): Promise<void>;

/** A time in milliseconds since any moment, for instance 1970. A `Date` stands for its milliseconds since 1970. */
export type Time = number | Date;

/** The value of a field. `undefined` and `null` stand for an undefined one. */
export type FieldValue = undefined | null | boolean | number | bigint | string;

/**
 * A fact: its type, with its fields, as `{login: {user: "ann", at: 0}}`, or the text of such a JSON object. The field `at` is its time;
 * a fact without `at` has the latest time of its source. Fields that the type does not have are skipped, unless it is strict.
 */
export type Fact = string | Readonly<Record<string, object>> | ReadonlyMap<string, object>;

export interface RulesOptions {
  /** The bytes of memory that facts, notices and the state for rolling back may take. Defaults to 1 GiB, at most 4 GiB - 1. */
  memory?: number | undefined;
  /** The most facts. Defaults to 2^32 - 1. */
  facts?: number | undefined;
  /** The most firings of a call. Rules that enable one another without end reach it. Defaults to 100,000. */
  firings?: number | undefined;
  /** The milliseconds by which a fact may be late. Defaults to 0. */
  lateness?: number | undefined;
}

export interface SourceOptions {
  /** The name of the source of the facts, whose time is its own. */
  source?: string | undefined;
}

export interface FactsOptions {
  /** The number of a fact: only older ones are returned. */
  before?: Id | undefined;
  /** The most facts. */
  limit?: number | undefined;
}

/** A value as rules return it. Integers from 2^53 on are bigints. */
export type Stored = null | boolean | number | bigint | string;

/** The report of a `notify`. */
export interface Notice {
  rule: string;
  /** The name behind `notify`, or `null` if the firing failed: it would have stored a value outside of its field's domain, or left a
   * required field undefined. Such a firing changes nothing. Its values are the fact's `type` and the `field`. */
  name: string | null;
  values: Record<string, Stored>;
}

/** The results of a call. */
export interface Page {
  /** The notices, in the order of the firings. */
  notices: Notice[];
  /** The numbers of the inserted and the waiting facts, in the order of the list. */
  ids: Id[];
  firings: number;
  /** The values of the inserted facts that do not fit their fields and count as undefined. */
  mismatches: number;
  /** The inserted facts from before the time of the rules. */
  late: number;
  /** The rule that fired last. */
  lastRule: string | null;
  /** The time to which `advance` has to move for the next window to close, or the next fact to wait no more. */
  nextDue: number | null;
}

export interface StoredFact {
  /** The number, for `retract`. Later facts have higher numbers. */
  id: Id;
  type: string;
  at: number;
  fields: Record<string, Stored>;
}

/** Why a rule has fired or has not, for the combination of facts that comes farthest. */
export interface RuleExplanation {
  /** `fired` and `due`: all conditions hold. `waits`: they hold so far, and a window is open. `blocked`: the condition fails.
   * `unknown`: there are too many combinations to examine. */
  verdict: "fired" | "due" | "waits" | "blocked" | "unknown";
  /** The facts that meet the first conditions, in the order of the conditions. */
  facts: StoredFact[];
  /** The time at which the window closes. */
  until: number | null;
  /** The line of the condition, from 1, and its text. */
  line: number | null;
  condition: string | null;
  /** The fact that violates a `none`. */
  by: StoredFact | null;
}

export interface RulesInfo {
  /** The rules, each combination of alternatives counted. */
  rules: number;
  /** The facts, and those of each type. */
  facts: number;
  types: Record<string, number>;
  /** The milliseconds after which facts of a type are dropped. Facts of other types stay. */
  lives: Record<string, number>;
  /** The facts that were ever inserted, and the firings. */
  asserted: Id;
  firings: Id;
  late: Id;
  /** The facts that wait for the time of the rules. */
  waiting: number;
  lateness: number;
  /** The time of the rules, and the latest time that they have seen. */
  now: number | null;
  latest: number | null;
  nextDue: number | null;
  /** The bytes that facts and their indices ever took at once. */
  factsBytes: number;
  /** The memory of the module, which all rules of a thread share. */
  memoryBytes: number;
}

/**
 * Rules and their facts.
 *
 * Calls return at once and run on the calling thread. A call that throws a `BeTreeError` changes nothing: all of its facts, firings and
 * the movement of time are rolled back.
 */
export class Rules {
  /** Compiles rules. A fault in the text has a `line` and a `column`. */
  constructor(text: string, options?: RulesOptions);

  /** Sentences about rules that can enable themselves or one another without end. */
  readonly warnings: string[];

  /** Inserts a fact, and fires the rules that are due. */
  assert(fact: Fact, options?: SourceOptions): Page;

  /** Inserts facts in their order, each as `assert` does, all or none. */
  assertAll(facts: readonly Fact[], options?: SourceOptions): Page;

  /** Retracts a fact by its number, and fires the rules that are due. */
  retract(id: Id): Page;

  /** Moves time, and fires the rules that are due by then: the time of all sources, or of one. An earlier time changes nothing. */
  advance(now: Time, options?: SourceOptions): Page;

  /** Forgets a source, so that it holds time back no more. */
  endSource(source: string): Page;

  /** Returns the times of the sources by name. Facts without a source have the name `null`. */
  sources(): Map<string | null, number>;

  /** Returns the facts of a type, newest first. Facts that wait are left out. */
  facts(type: string, options?: FactsOptions): StoredFact[];

  /** Explains a rule: one explanation for each combination of its alternatives. */
  explain(rule: string): RuleExplanation[];

  /** Returns counts and sizes. */
  info(): RulesInfo;

  /** Frees the memory of the rules. Every later call throws an error of kind `freed`, except for `free()`, which does nothing. */
  free(): void;

  /** Calls `free()`, at the end of the block of `using rules = new Rules(...)`. */
  [Symbol.dispose](): void;
}
