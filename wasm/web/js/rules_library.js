// The interface of rules: the engine of be_tree_rules_web_bg.wasm as a class.

import { attempt, ensureStack } from "./attempt.js";
import { describe, toId, toList, toOptions, wellFormed, wrong } from "./arguments.js";
import { Engine } from "./be_tree_rules_web.js";
import { BeTreeError } from "./error.js";
import { toFact, toTime } from "./rules_facts.js";
import { checkLoaded } from "./rules_module.js";

const LIMITS = ["memory", "facts", "firings", "lateness"];
const SOURCE = ["source"];
const MAX_U32 = 2 ** 32 - 1;
/** A hundred million days, as many as a `Date` has on either side of 1970. */
const MAX_TIME = 8_640_000_000_000_000;
const LAST_ID = 2n ** 64n - 1n;

export class Rules {
  // `null` once it is freed.
  #engine;
  // The error of a call that trapped, after which the facts may be damaged.
  #trap = null;

  constructor(text, options) {
    checkLoaded();
    if (typeof text !== "string") throw wrong(`the text of rules is a string, but this is ${describe(text)}`);
    const given = toOptions(options, LIMITS, "Rules");
    const memory = toInteger(given.memory ?? 2 ** 30, "the option memory", 1, MAX_U32);
    const facts = toInteger(given.facts ?? MAX_U32, "the option facts", 1, MAX_U32);
    const firings = toInteger(given.firings ?? 100_000, "the option firings", 1, MAX_U32);
    const lateness = toInteger(given.lateness ?? 0, "the option lateness", 0, MAX_TIME);
    wellFormed(text, "the text of rules");
    this.#engine = attempt(
      () => new Engine(text, memory, facts, firings, lateness),
      undefined,
      ({ text }) => text,
    );
  }

  get warnings() {
    return this.#attempt((engine) => engine.warnings());
  }

  assert(fact, options) {
    return this.#assert([fact], options, "assert");
  }

  assertAll(facts, options) {
    return this.#assert(toList(facts, "assertAll"), options, "assertAll");
  }

  #assert(facts, options, call) {
    const source = toSource(toOptions(options, SOURCE, call).source);
    const isList = call === "assertAll";
    const texts = facts.map((fact, position) => (isList ? at(position, () => toFact(fact)) : toFact(fact)));
    const given = ({ position }) => facts[position ?? 0];
    return this.#attempt(
      (engine) => engine.assert(texts, source),
      (refusal) => ({
        ...refusal,
        position: isList ? refusal.position : null,
        // A column counts in the text of a fact, not in the JSON that is made of an object.
        column: typeof given(refusal) === "string" ? refusal.column : null,
      }),
      given,
    );
  }

  retract(id) {
    const wide = toId(id);
    return this.#attempt((engine) => engine.retract(wide));
  }

  advance(now, options) {
    const source = toSource(toOptions(options, SOURCE, "advance").source);
    const time = toTime(now);
    return this.#attempt((engine) => engine.advance(time, source));
  }

  endSource(source) {
    if (source === undefined) throw wrong("endSource expects the name of a source, a string, but got undefined");
    const name = toSource(source);
    return this.#attempt((engine) => engine.endSource(name));
  }

  sources() {
    return new Map(this.#attempt((engine) => engine.sources()));
  }

  facts(type, options) {
    const name = toName(type, "a fact type");
    const { before, limit } = toOptions(options, ["before", "limit"], "facts");
    const first = before === undefined ? LAST_ID : toId(before);
    const most = toInteger(limit ?? MAX_U32, "the option limit", 1, MAX_U32);
    return this.#attempt((engine) => engine.facts(name, first, most));
  }

  explain(rule) {
    const name = toName(rule, "a rule");
    return this.#attempt((engine) => engine.explain(name));
  }

  info() {
    return this.#attempt((engine) => engine.info());
  }

  free() {
    ensureStack();
    this.#engine?.free();
    this.#engine = null;
  }

  [Symbol.dispose ?? Symbol.for("Symbol.dispose")]() {
    this.free();
  }

  /** Calls the module. After a trap no call reaches it again. */
  #attempt(call, adapt, textOf) {
    if (this.#engine === null)
      throw new BeTreeError({ kind: "freed", message: "these rules were freed by free(); make new ones" });
    if (this.#trap) throw this.#trap;
    try {
      return attempt(() => call(this.#engine), adapt, textOf);
    } catch (error) {
      if (error.kind === "trap") this.#trap = error;
      throw error;
    }
  }
}

/** Returns the result of a function, or adds to its refusal the position in a list. */
function at(position, convert) {
  try {
    return convert();
  } catch (error) {
    if (!(error instanceof BeTreeError)) throw error;
    throw new BeTreeError({ ...error.cause, position });
  }
}

function toSource(source) {
  return source === undefined ? undefined : toName(source, "a source");
}

function toName(name, what) {
  if (typeof name === "string") return wellFormed(name, `the name of ${what}`);
  throw wrong(`the name of ${what} is a string, but this is ${describe(name)}`);
}

function toInteger(value, what, least, most) {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw wrong(`${what} is an integer from ${least} to ${most}, but this is ${describe(value)}`);
}
