/// <reference lib="esnext.disposable" />
/** Finds, among very many boolean expressions, those that an event makes true. */

/** An unsigned 64-bit integer: a number up to 2^53 - 1, a bigint above. Ids come back in the same form. */
export type Id = number | bigint;

export type Type =
  | "boolean"
  | "integer"
  | "float"
  | "string"
  | "integer_enum"
  | "integer_list"
  | "string_list"
  | "segments"
  | "frequency_caps"
  | "ip"
  | "datetime"
  | "object_list";

/** An attribute's type, its bounds for constants, and whether an event may lack it. */
export interface Domain {
  type: Type;
  /** Defaults to `false`: an event without the attribute is refused. */
  optional?: boolean | undefined;
  /** The least constant, of `integer`, `float`, and elements of `integer_list`. */
  min?: number | bigint | undefined;
  /** The greatest constant. */
  max?: number | bigint | undefined;
  /** The number of distinct constants, of `string`, `integer_enum` and `string_list`. */
  count?: number | undefined;
  /** Convert values of other types, such as the string "42" for an integer. Defaults to `false`. */
  coerce?: boolean | undefined;
  /** The treatment of a value that does not fit. Defaults to that of the schema for an optional attribute, and to `"error"`. A required
   * attribute takes `"error"` only. */
  onMismatch?: OnMismatch | undefined;
  /** The unit of numbers, of `datetime`, in events and in expressions. Defaults to `"microsecond"`. */
  unit?: "second" | "millisecond" | "microsecond" | undefined;
}

/** A value that does not fit its attribute is an error, or counts as undefined. */
export type OnMismatch = "error" | "undefined";

/** Domains by name, a path as expressions spell it: `"user.city"`. Names below one of type `"object_list"` are those of the
 * attributes of its objects: `{items: "object_list", "items.sku": "string"}`. */
export type Schema = Record<string, Type | Domain>;

/** A schema, or the fields of an object in an event: `{user: {city: "string"}}` declares `user.city`. An object whose `type` is
 * a string is a domain; a field called `type` is declared by its path, `"user.type"`. */
export interface Fields {
  readonly [name: string]: Type | Domain | Fields;
}

/** A value of an event. `undefined` and `null` stand for an undefined attribute. An object with `toJSON`, such as a `Date`, stands for
 * the result of that. */
export type Value =
  | undefined
  | null
  | boolean
  | number
  | bigint
  | string
  | Date
  | readonly Value[]
  | ReadonlySet<Value>
  | ReadonlyMap<string, Value>
  | { readonly [field: string]: Value };

/** The text of a JSON object, or an object or a map with a `Value` for each name. It may be of any type, because TypeScript gives
 * interfaces and classes no index signature. */
export type Event = string | object;

/** Integers by name, such as `flight_id`, which frequency caps read. */
export type Constants = Readonly<Record<string, number | bigint>>;

/** Bounds of a call. A call that reaches one throws, and all is as before. Not for an image, whose module counts no steps. */
export interface Bounds {
  /** The most steps of the call: iterations of loops in the module. The same call on the same subscriptions makes the same steps everywhere;
   * `steps` tells how many. Beyond it the call throws the kind `out_of_steps`. */
  budget?: number | undefined;
  /** The most milliseconds. Beyond it the call throws the kind `timeout`. */
  timeout?: number | undefined;
}

export interface InsertOptions extends Bounds {
  constants?: Constants | undefined;
}

export interface Subscription<I extends Id = Id> {
  id: I;
  constants?: Constants | undefined;
  /** The expression's text, or its bytes in UTF-8. */
  expression: string | Uint8Array;
}

/** A subscription as `get` returns it. */
export interface Stored<I extends Id = Id> {
  readonly id: Found<I>;
  readonly expression: string;
  readonly constants?: Constants;
}

/** The type in which ids of `I` come back: a bigint below 2^53 comes back as a number. */
export type Found<I extends Id> = I extends bigint ? Id : I;

export interface SearchOptions extends ExplainOptions {
  /** Search only these subscriptions: an array, a set or a typed array. Ids that do not exist are skipped. */
  ids?: Iterable<Id> | undefined;
}

export interface ExplainOptions extends EventOptions, Bounds {}

/** Options of the functions that read an event. */
export interface EventOptions {
  /** With `"undefined"`, values of the event that do not fit count as undefined, unless their attribute is required. Defaults to
   * `"error"`, with which that depends on the attribute. */
  onMismatch?: OnMismatch | undefined;
}

export type Kind =
  | "syntax"
  | "unknown_attribute"
  | "type"
  | "out_of_bounds"
  | "missing_attribute"
  | "duplicate_id"
  | "not_found"
  | "out_of_memory"
  | "out_of_steps"
  | "timeout"
  | "trap"
  | "freed"
  | "argument"
  | "not_loaded"
  | "bad_module";

/** The module be_tree_web_bg.wasm, of rules be_tree_rules_web_bg.wasm: its address, its bytes, a response with them, or the compiled module. */
export type Source =
  | string
  | { readonly href: string }
  | Uint8Array
  | ArrayBuffer
  | { arrayBuffer(): Promise<ArrayBuffer> }
  | CompiledModule;

/** A `WebAssembly.Module`, a type that TypeScript's libraries for pages have only. */
export type CompiledModule = object;

/**
 * Loads the WebAssembly module, which the first index needs. Browsers and bundlers need `await init()`. In Node, Bun, Deno and
 * Cloudflare Workers the module is loaded when the package is imported, and `init` does nothing.
 *
 * Without a source `be-tree` has the module in its JavaScript, and `be-tree/external` fetches `be_tree_web_bg.wasm` from beside
 * its own file. Later calls return the promise of the first. Rejects with the kind `not_loaded`, and may then be called again.
 */
export function init(source?: Source | Promise<Source>): Promise<void>;

/** A refusal. It changed nothing, except for the kind `trap`, after which the index cannot be used. The kind `freed` is that of a
 * call after `free()`, `argument` that of an argument of a wrong type or an unknown option, `not_loaded` that of a call before `init()`. `structuredClone` and `postMessage` keep the fields in `cause`. */
export class BeTreeError extends Error {
  readonly name: "BeTreeError";
  readonly kind: Kind;
  /** One line that names the fault and how to mend it. `message` also has the caret's lines. */
  readonly reason: string;
  /** The attribute or the constant that the error is about. */
  readonly attribute: string | null;
  /** The character, from 1, of the fault in `text`. */
  readonly column: number | null;
  /** The subscription of `insertAll`, the event of `searchMany` or the fact of `assertAll`, from 0. */
  readonly position: number | null;
  /** The line of a text of rules, from 1. */
  readonly line: number | null;
  /** The steps of a call that reached a bound. */
  readonly steps: number | null;
  /** The expression, the line of the rules, or the JSON of an event or of a fact that was given as text. */
  readonly text: string | null;
  /** Two lines: the line of the fault, and a caret below the fault. */
  readonly caret: string | null;
}

/** The value of an attribute in an event. A value above 4 KB is left out: the bytes of a string, the elements of a list. */
export type Actual = undefined | boolean | number | bigint | string | Actual[] | { omitted: number };

/** A part of an expression with its value for the event. */
export type ExplanationNode =
  | {
      kind: "and" | "or" | "not" | "constant";
      verdict: boolean;
      children: ExplanationNode[];
    }
  | {
      kind: "predicate";
      verdict: boolean;
      attribute: string;
      text: string;
      actual: Actual;
      children: [];
    }
  /** Stands for as many operands, whose joint value it has. */
  | { kind: "omitted"; verdict: boolean; omitted: number; children: [] };

export interface Explanation {
  match: boolean;
  root: ExplanationNode;
}

/** The edge that led to a node, from the value level above it. */
export interface Edge {
  /** The node that has the level: `node` and this number in the drawing. */
  above: number;
  /** The level: `level` and this number in the drawing. */
  level: number;
  attribute: string;
  /** The value or the interval that leads to the node. */
  label: string;
  /** The number of nodes below the level. */
  siblings: number;
}

/** The work of a search at one list of entries. */
export interface Step {
  /** `node` and this number in the drawing, or `null` for the expressions that every search visits. */
  node: number | null;
  /** `null` for the root, and for the expressions that every search visits. */
  edge: Edge | null;
  /** The entries that were scanned. */
  visited: number;
  /** Of these, the candidates: those whose filters the event passed. */
  passed: number;
  /** The expressions that were evaluated. The others were proven by their path and their filters. */
  evaluated: number;
  /** The number of matches that were found here, and not before. */
  matches: number;
  /** The first 100 of their ids. */
  matched: Id[];
}

export interface Trace {
  steps: Step[];
  visited: number;
  evaluated: number;
  ids: Id[];
}

/** How often the last test of a program read each attribute, the most frequent first. `null` is no attribute. */
export type Deciding = { name: string | null; times: number }[];

/** The work of searches below one attribute, or below none (`null`): in the lists that every search visits. */
export interface AttributeProfile {
  name: string | null;
  /** The values that were looked up, and the nodes that they led to. */
  lookups: number;
  nodes: number;
  /** The entries that were scanned there, and the expressions that these proved. */
  entries: number;
  proven: number;
  /** The candidates found there, how many of them were false, and why. */
  candidates: number;
  failed: number;
  failedBy: Deciding;
}

/** The runs of one expression's program. An expression that is proven runs no program. */
export interface ExpressionProfile {
  id: Id;
  candidate: number;
  tests: number;
  matched: number;
  failed: number;
  decidedBy: Deciding;
}

/** The work of searches, in counts. JavaScript has no fuel. */
export interface Profile {
  searches: number;
  /** The attribute with the most candidates first. */
  attributes: AttributeProfile[];
  /** The expression with the most tests first. */
  expressions: ExpressionProfile[];
}

export interface Info {
  expressions: number;
  /** The predicates of all expressions. */
  predicates: number;
  /** Distinct strings. */
  strings: number;
  nodes: number;
  entries: number;
  /** The expressions that every search visits. */
  unindexed: number;
  /** The greatest number of value levels above a node. */
  depth: number;
  codeBytes: number;
  /** The memory of the module, which all indexes of this module share. An image has a memory of its own. */
  memoryBytes: number;
}

/**
 * An index of boolean expressions, whose ids are of the type `I`: `BeTree<number>` where all are below 2^53.
 *
 * Calls return at once and run on the calling thread. They throw a `BeTreeError` if they refuse their input, and then change
 * nothing. Without room on the stack they throw a `RangeError`, which changes nothing either.
 */
export class BeTree<I extends Id = Id> {
  /** Makes an empty index. `onMismatch` is that of the optional attributes that have none. */
  constructor(schema: Fields, options?: EventOptions);

  /**
   * Reads an image, as `mix be_tree.image` and `BeTree.Image` write them. The image's own module runs, in a memory of its own.
   * Rejects with the kind `bad_module` for other bytes. The digest is checked where the platform has WebCrypto.
   */
  static load<I extends Id = Id>(
    image: Uint8Array | ArrayBuffer | { arrayBuffer(): Promise<ArrayBuffer> },
  ): Promise<BeTree<I>>;

  /**
   * The most memory of the module in bytes, which all indexes of the thread share: at most 4 GiB, the default. Calls that need more throw
   * the kind `out_of_memory`, and change nothing. It does not apply to images.
   */
  static maxMemory: number;

  /** The steps of the last call of an index in this thread. */
  readonly steps: number;

  /** The attributes in order. */
  readonly schema: Record<string, Domain>;

  /** Inserts an expression under a new id. */
  insert(id: I, expression: string | Uint8Array, options?: InsertOptions): void;

  /** Inserts an expression under a new id, or in the place of the present expression of that id. */
  put(id: I, expression: string | Uint8Array, options?: InsertOptions): void;

  /** Inserts all subscriptions or none, and returns their number. */
  insertAll(subscriptions: readonly Subscription<I>[], options?: Bounds): number;

  /** Deletes a subscription. */
  delete(id: I): void;

  /** Deletes all subscriptions. Not for an image. */
  clear(): void;

  /** Returns whether there is a subscription of this id. Not for an image. */
  has(id: I): boolean;

  /** Returns the subscription of this id, or `undefined`. Not for an image. */
  get(id: I): Stored<I> | undefined;

  /** Returns all ids, ascending. Not for an image. */
  ids(): Found<I>[];

  /** The number of subscriptions. */
  readonly size: number;

  /** Returns the ids of all subscriptions that the event makes true, ascending. */
  search(event: Event, options?: SearchOptions): Found<I>[];

  /** Returns the ids for each of the events. It is faster than as many searches where expressions test booleans only. */
  searchMany(events: readonly Event[], options?: SearchOptions): Found<I>[][];

  /** Explains why a subscription matches the event, or does not. Every part is evaluated. */
  explain(event: Event, id: I, options?: ExplainOptions): Explanation;

  /** Searches for the events, and returns which attributes and expressions take the work. */
  profile(events: readonly Event[], options?: EventOptions): Profile;

  /** Searches, and returns the search's path through the tree. Not for an image. */
  trace(event: Event, options?: EventOptions): Trace;

  /** Returns a drawing of the tree in Graphviz's language. */
  draw(): string;

  /** Returns counts and sizes. */
  info(): Info;

  /** Frees the index's memory. Every later call throws an error of kind `freed`, except for `free()`, which does nothing. */
  free(): void;

  /** Calls `free()`, at the end of the block of `using tree = new BeTree(...)`. */
  [Symbol.dispose](): void;
}
