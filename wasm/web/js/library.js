// The package's interface: the index of be_tree_web_bg.wasm, or of an image, as a class.

import { attempt, ensureStack } from "./attempt.js";
import {
  fromId,
  fromIds,
  toConstants,
  toExpression,
  toId,
  toIds,
  toList,
  toOptions,
  toSubscriptions,
  wrong,
} from "./arguments.js";
import { Engine, hasRoom, Image } from "./be_tree_web.js";
import { bounded, maxMemory, noteChange, setMaxMemory, toBounds } from "./bounds.js";
import { BeTreeError } from "./error.js";
import { toJson } from "./event.js";
import { Instance, instantiate } from "./image.js";
import { checkLoaded } from "./module.js";
import { summarize } from "./profile.js";
import { explain, profile, search, searchMany, trace } from "./reads.js";
import { lastSteps } from "./steps.js";
import { checkOnMismatch, forgives, toAttributes, toDomain, withDefault } from "./schema.js";

const BOUNDS = ["budget", "timeout"];
const SEARCH = ["ids", "onMismatch", ...BOUNDS];
const EVENT = ["onMismatch"];
/** Smaller inputs find room, or the module's own refusal. */
const LARGE = 2 ** 16;

/** Frees that JavaScript's collector makes change the memory too. Cloudflare Workers make none. */
const collected = typeof FinalizationRegistry === "undefined" ? null : new FinalizationRegistry(noteChange);

export class BeTree {
  // `null` once it is freed.
  #engine;
  #attributes;
  // The subscriptions by id, or `null` for an image, which has more than were inserted here.
  #subscriptions = new Map();
  // The error of a call that trapped, after which the index may be damaged.
  #trap = null;

  constructor(schema, options) {
    checkLoaded();
    collected?.register(this);
    noteChange();
    if (schema instanceof Instance) {
      this.#attributes = schema.attributes;
      this.#subscriptions = null;
      this.#engine = attempt(() => new Image(schema.exports));
    } else {
      const { onMismatch } = toOptions(options, ["onMismatch"], "BeTree");
      this.#attributes = withDefault(toAttributes(schema), onMismatch);
      this.#engine = attempt(() => new Engine(this.#attributes));
    }
  }

  static async load(image) {
    checkLoaded();
    return new BeTree(await instantiate(image));
  }

  static get maxMemory() {
    checkLoaded();
    return maxMemory();
  }

  static set maxMemory(bytes) {
    checkLoaded();
    setMaxMemory(bytes);
  }

  get steps() {
    return lastSteps();
  }

  get schema() {
    return Object.fromEntries(this.#attributes.map(([name, ...domain]) => [name, toDomain(domain)]));
  }

  insert(id, expression, options) {
    const { constants, ...bounds } = toOptions(options, ["constants", ...BOUNDS], "insert");
    this.#insert([{ id, expression, constants }], "insert", toBounds(bounds));
  }

  put(id, expression, options) {
    const { constants, ...bounds } = toOptions(options, ["constants", ...BOUNDS], "put");
    this.#insert([{ id, expression, constants }], "put", toBounds(bounds));
  }

  insertAll(subscriptions, options) {
    const bounds = toBounds(toOptions(options, BOUNDS, "insertAll"));
    const list = toSubscriptions(subscriptions, "insertAll");
    this.#insert(list, "insertAll", bounds);
    return list.length;
  }

  #insert(subscriptions, call, bounds) {
    const ids = BigUint64Array.from(subscriptions, ({ id }) => toId(id));
    const texts = subscriptions.map(({ expression }) => toExpression(expression));
    const constants = subscriptions.map(({ constants }) => toConstants(constants));
    this.#attempt(
      (engine) => bounded(() => engine.insert(ids, texts, constants, call === "put"), bounds),
      (refusal) => ({ ...refusal, position: call === "insertAll" ? refusal.position : null }),
      ({ position }) => texts[position ?? 0],
      bounds,
      texts,
    );
    noteChange();
    if (this.#subscriptions === null) return;
    for (const [place, wide] of ids.entries()) {
      const id = fromId(wide);
      const [text, values] = [toText(texts[place]), constants[place]];
      const given = values === undefined ? {} : { constants: Object.fromEntries(values) };
      this.#subscriptions.set(id, Object.freeze({ id, expression: text, ...given }));
    }
  }

  delete(id) {
    const wide = toId(id);
    noteChange();
    this.#attempt((engine) => bounded(() => engine.delete(wide), null));
    this.#subscriptions?.delete(fromId(wide));
  }

  clear() {
    const subscriptions = this.#listed("clear");
    noteChange();
    const empty = attempt(() => new Engine(this.#attributes));
    this.#engine.free();
    this.#engine = empty;
    subscriptions.clear();
  }

  has(id) {
    return this.#listed("has").has(fromId(toId(id)));
  }

  get(id) {
    return this.#listed("get").get(fromId(toId(id)));
  }

  ids() {
    return [...this.#listed("ids").keys()].sort((a, b) => (a < b ? -1 : 1));
  }

  get size() {
    return this.info().expressions;
  }

  /** Returns the subscriptions, if these are all. */
  #listed(call) {
    this.#check();
    if (this.#subscriptions !== null) return this.#subscriptions;
    throw new BeTreeError({
      kind: "not_found",
      message: `an image has no list of its subscriptions, which ${call} needs; insert into a new BeTree`,
    });
  }

  search(event, options) {
    const { ids, onMismatch, ...bounds } = toOptions(options, SEARCH, "search");
    const forgiving = isForgiving(onMismatch);
    const json = this.#toJson(event, forgiving);
    const only = toIds(ids);
    const limits = toBounds(bounds);
    const find = (engine) => search(engine, json, only, forgiving, limits);
    return fromIds(this.#attempt(find, ...ofEvent(event), limits, [json]));
  }

  searchMany(events, options) {
    const list = toList(events, "searchMany");
    const { ids, onMismatch, ...bounds } = toOptions(options, SEARCH, "searchMany");
    const forgiving = isForgiving(onMismatch);
    const texts = list.map((event) => this.#toJson(event, forgiving));
    const only = toIds(ids);
    const limits = toBounds(bounds);
    const found = this.#attempt(
      (engine) => searchMany(engine, texts, only, forgiving, limits),
      (refusal) => withoutColumn(refusal, list[refusal.position]),
      ({ position }) => textOf(list[position]),
      limits,
      texts,
    );
    return found.map(fromIds);
  }

  explain(event, id, options) {
    const { onMismatch, ...bounds } = toOptions(options, [...EVENT, ...BOUNDS], "explain");
    const forgiving = isForgiving(onMismatch);
    const json = this.#toJson(event, forgiving);
    const wide = toId(id);
    const limits = toBounds(bounds);
    const find = (engine) => explain(engine, json, wide, forgiving, limits);
    return this.#attempt(find, ...ofEvent(event), limits, [json]);
  }

  profile(events, options) {
    const { onMismatch } = toOptions(options, EVENT, "profile");
    const forgiving = isForgiving(onMismatch);
    this.#check();
    const searches = toList(events, "profile").map((event, position) => {
      const json = this.#toJson(event, forgiving);
      const adapt = (refusal) => ({
        ...withoutColumn(refusal, event),
        position,
      });
      return this.#attempt(
        (engine) => profile(engine, json, forgiving),
        adapt,
        () => textOf(event),
      );
    });
    // The index has an attribute of its own behind those of the schema, for the starts, ends and parts of strings.
    const names = [...this.#attributes.map(([name]) => name), "(patterns)"];
    return summarize(searches, names);
  }

  trace(event, options) {
    const { onMismatch } = toOptions(options, EVENT, "trace");
    const forgiving = isForgiving(onMismatch);
    const json = this.#toJson(event, forgiving);
    this.#check();
    if (this.#engine instanceof Image) {
      throw new BeTreeError({
        kind: "not_found",
        message: "the module of an image does not trace; insert into a new BeTree",
      });
    }
    const traced = this.#attempt((engine) => trace(engine, json, forgiving), ...ofEvent(event));
    return { ...traced, ids: fromIds(traced.ids) };
  }

  draw() {
    return this.#attempt((engine) => bounded(() => engine.draw(), null));
  }

  info() {
    return this.#attempt((engine) => bounded(() => engine.info(), null));
  }

  free() {
    ensureStack();
    noteChange();
    this.#engine?.free();
    this.#engine = null;
    this.#subscriptions?.clear();
  }

  [Symbol.dispose ?? Symbol.for("Symbol.dispose")]() {
    this.free();
  }

  /** Throws if the index cannot be used any more. */
  #check() {
    if (this.#engine === null) {
      throw new BeTreeError({ kind: "freed", message: "this index was freed by free(); make a new one" });
    }
    if (this.#trap) throw this.#trap;
  }

  /** Where values may count as undefined, the module decides about a number that JSON does not have. */
  #toJson(event, forgiving) {
    return toJson(event, forgiving || forgives(this.#attributes));
  }

  /** Calls the module with texts. After a trap without bounds no call reaches it again. */
  #attempt(call, adapt, textOf, bounds = null, texts = []) {
    this.#check();
    if (bounds !== null && this.#engine instanceof Image) throw unbounded();
    checkRoom(texts);
    try {
      return attempt(() => call(this.#engine), adapt, textOf);
    } catch (error) {
      if (error.kind === "trap" && bounds === null) this.#trap = error;
      throw error;
    }
  }
}

function unbounded() {
  return wrong("the module of an image counts no steps; a BeTreeWorker ends a search of an image at its timeout");
}

/** The module copies each text twice, at most 3 bytes of UTF-8 for each unit, and keeps records of it. */
const PER_UNIT = 6;
const PER_TEXT = 256;

/** Refuses texts for whose copies the module has no memory. */
function checkRoom(texts) {
  const bytes = texts.reduce((sum, text) => sum + PER_UNIT * text.length + PER_TEXT, 0);
  if (bytes < LARGE || hasRoom(bytes)) return;
  throw new BeTreeError({
    kind: "out_of_memory",
    message: `the input needs about ${bytes} bytes, and the memory is at most ${maxMemory()} (BeTree.maxMemory)`,
  });
}

/** A column counts in the text of an event, not in the JSON that is made of an object. */
function ofEvent(event) {
  return [(refusal) => withoutColumn(refusal, event), () => textOf(event)];
}

function withoutColumn(refusal, event) {
  return typeof event === "string" ? refusal : { ...refusal, column: null };
}

function textOf(event) {
  return typeof event === "string" ? event : null;
}

function isForgiving(onMismatch) {
  checkOnMismatch(onMismatch, "the option onMismatch");
  return onMismatch === "undefined";
}

/** The module has accepted the bytes, so they are UTF-8. */
function toText(expression) {
  return typeof expression === "string" ? expression : new TextDecoder().decode(expression);
}
