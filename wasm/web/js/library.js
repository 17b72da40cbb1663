// The package's interface: the index of be_tree_web_bg.wasm, or of an image, as a class.

import { Engine, Image, attributes } from "./be_tree_web.js";
import { BeTreeError } from "./error.js";
import { checkLoaded } from "./module.js";
import { summarize } from "./profile.js";

export class BeTree {
  // `null` once it is freed.
  #engine;
  #attributes;
  // The error of a call that trapped, after which the index may be damaged.
  #trap = null;

  constructor(schema, options) {
    checkLoaded();
    if (schema instanceof Instance) {
      this.#attributes = schema.attributes;
      this.#engine = attempt(() => new Image(schema.exports));
    } else {
      this.#attributes = withDefault(toAttributes(schema), options?.onMismatch);
      this.#engine = attempt(() => new Engine(this.#attributes));
    }
  }

  static async load(image) {
    checkLoaded();
    const bytes = await toBytes(image);
    const module = await compile(bytes);
    const [section] = WebAssembly.Module.customSections(module, "be_tree");
    if (section === undefined) throw notAnImage("it lacks the section `be_tree`");
    await checkDigest(bytes, section);
    let instance;
    try {
      instance = await WebAssembly.instantiate(module, {});
    } catch (error) {
      throw notAnImage(error.message);
    }
    const fields = attempt(() => attributes(new Uint8Array(section)));
    return new BeTree(new Instance(instance.exports, fields));
  }

  get schema() {
    return Object.fromEntries(this.#attributes.map(([name, ...domain]) => [name, toDomain(domain)]));
  }

  insert(id, expression, options) {
    this.#insert([{ ...options, id, expression }], false);
  }

  insertAll(subscriptions) {
    if (!Array.isArray(subscriptions))
      throw new TypeError(`insertAll expects an array, but got ${describe(subscriptions)}`);
    this.#insert(subscriptions, true);
    return subscriptions.length;
  }

  #insert(subscriptions, isList) {
    const ids = BigUint64Array.from(subscriptions, ({ id }) => toId(id));
    const texts = subscriptions.map(({ expression }) => toExpression(expression));
    const constants = subscriptions.map(({ constants }) => toConstants(constants));
    this.#attempt(
      (engine) => engine.insert(ids, texts, constants),
      (refusal) => ({ ...refusal, position: isList ? refusal.position : null }),
      ({ position }) => texts[position ?? 0],
    );
  }

  put(id, expression, options) {
    if (!this.#inserts(id, expression, options)) this.#replace(id, expression, options);
  }

  /** Under a spare id the new expression is checked, and gets its memory, before the present one goes. */
  #replace(id, expression, options) {
    let spare;
    do spare = 2n ** 63n + BigInt(Math.floor(Math.random() * Number.MAX_SAFE_INTEGER));
    while (!this.#inserts(spare, expression, options));
    this.delete(id);
    this.insert(id, expression, options);
    this.delete(spare);
  }

  /** Inserts, and returns whether the id is new. */
  #inserts(id, expression, options) {
    try {
      this.insert(id, expression, options);
      return true;
    } catch (error) {
      if (error.kind === "duplicate_id") return false;
      throw error;
    }
  }

  delete(id) {
    const wide = toId(id);
    this.#attempt((engine) => engine.delete(wide));
  }

  search(event, options) {
    const forgiving = isForgiving(options);
    const json = this.#toJson(event, forgiving);
    const ids = toIds(options);
    return fromIds(this.#attempt((engine) => engine.search(json, ids, forgiving), ...ofEvent(event)));
  }

  searchMany(events, options) {
    if (!Array.isArray(events)) throw new TypeError(`searchMany expects an array, but got ${describe(events)}`);
    const forgiving = isForgiving(options);
    const texts = events.map((event) => this.#toJson(event, forgiving));
    const ids = toIds(options);
    const find = (engine) => engine.searchMany(texts, ids, forgiving);
    const found = this.#attempt(
      find,
      (refusal) => withoutColumn(refusal, events[refusal.position]),
      ({ position }) => textOf(events[position]),
    );
    return found.map(fromIds);
  }

  explain(event, id, options) {
    const forgiving = isForgiving(options);
    const json = this.#toJson(event, forgiving);
    const wide = toId(id);
    return this.#attempt((engine) => engine.explain(json, wide, forgiving), ...ofEvent(event));
  }

  profile(events, options) {
    const forgiving = isForgiving(options);
    if (!Array.isArray(events)) throw new TypeError(`profile expects an array, but got ${describe(events)}`);
    this.#check();
    const searches = events.map((event, position) => {
      const json = this.#toJson(event, forgiving);
      const adapt = (refusal) => ({
        ...withoutColumn(refusal, event),
        position,
      });
      return this.#attempt(
        (engine) => engine.profile(json, forgiving),
        adapt,
        () => textOf(event),
      );
    });
    // The index has an attribute of its own behind those of the schema, for the starts, ends and parts of strings.
    const names = [...this.#attributes.map(([name]) => name), "(patterns)"];
    return summarize(searches, names);
  }

  trace(event, options) {
    const forgiving = isForgiving(options);
    const json = this.#toJson(event, forgiving);
    this.#check();
    if (this.#engine instanceof Image) {
      throw new BeTreeError({
        kind: "not_found",
        message: "the module of an image does not trace; insert into a new BeTree",
      });
    }
    const trace = this.#attempt((engine) => engine.trace(json, forgiving), ...ofEvent(event));
    return { ...trace, ids: fromIds(trace.ids) };
  }

  draw() {
    return this.#attempt((engine) => engine.draw());
  }

  info() {
    return this.#attempt((engine) => engine.info());
  }

  free() {
    this.#engine?.free();
    this.#engine = null;
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
    return toJson(event, forgiving || this.#attributes.some((attribute) => attribute[ON_MISMATCH] === "undefined"));
  }

  /** Calls the module. After a trap no call reaches it again. */
  #attempt(call, adapt, textOf) {
    this.#check();
    try {
      return attempt(() => call(this.#engine), adapt, textOf);
    } catch (error) {
      if (error.kind === "trap") this.#trap = error;
      throw error;
    }
  }
}

/** The exports of an image's instance, and the attributes of its schema. */
class Instance {
  constructor(exports, attributes) {
    this.exports = exports;
    this.attributes = attributes;
  }
}

/** Calls the module, and turns what it throws into errors. */
function attempt(call, adapt = (refusal) => refusal, textOf = () => null) {
  try {
    return call();
  } catch (thrown) {
    if (thrown instanceof WebAssembly.RuntimeError || thrown instanceof RangeError) {
      throw new BeTreeError({
        kind: "trap",
        message: `the module stopped (${thrown.message}); make a new index`,
      });
    }
    if (typeof thrown?.kind !== "string" || thrown instanceof Error) throw thrown;
    const refusal = adapt(thrown);
    const text = textOf(refusal);
    throw new BeTreeError(refusal, typeof text === "string" ? text : null);
  }
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

// The place of `onMismatch` in an attribute.
const ON_MISMATCH = 7;
const DOMAIN = ["type", "optional", "min", "max", "count", "coerce", "onMismatch", "unit"];

function toAttributes(schema) {
  if (!isPlain(schema)) {
    throw new TypeError(
      `a schema is an object from names to domains, such as {age: "integer"}, but this is ${describe(schema)}`,
    );
  }
  return toFields(schema, []);
}

/** Returns the attributes of a schema, or of a map of fields in it. A domain has a type; a map has fields. */
function toFields(schema, around) {
  return Object.entries(schema).flatMap(([field, domain]) => {
    const path = [...around, field];
    const name = path.join(".");
    const given = typeof domain === "string" ? { type: domain } : domain;
    if (isPlain(given) && typeof given.type !== "string" && Object.keys(given).length > 0) return toFields(given, path);
    if (!isPlain(given) || typeof given.type !== "string") {
      throw new TypeError(`the domain of ${name} is a type or an object with a type, but this is ${describe(domain)}`);
    }
    const unknown = Object.keys(given).find((key) => !DOMAIN.includes(key));
    if (unknown !== undefined)
      throw new TypeError(`the domain of ${name} has no ${unknown}; it has ${DOMAIN.join(", ")}`);
    const [optional, coerce] = [given.optional === true, given.coerce || undefined];
    const { type, min, max, count, onMismatch, unit } = given;
    checkOnMismatch(onMismatch, `onMismatch of ${name}`);
    if (unit !== undefined && !UNITS.includes(unit))
      throw new TypeError(`unit of ${name} is one of ${UNITS.join(", ")}, but this is ${describe(unit)}`);
    return [[name, type, optional, min, max, count, coerce, onMismatch, unit]];
  });
}

const UNITS = ["second", "millisecond", "microsecond"];

function checkOnMismatch(value, name) {
  if (value === undefined || value === "error" || value === "undefined") return;
  throw new TypeError(`${name} is "error" or "undefined", but this is ${describe(value)}`);
}

/** Gives the optional attributes that have no `onMismatch` that of the schema. */
function withDefault(attributes, onMismatch) {
  checkOnMismatch(onMismatch, "the option onMismatch");
  if (onMismatch !== "undefined") return attributes;
  return attributes.map((attribute) => {
    const [name, type, optional, min, max, count, coerce, own, unit] = attribute;
    return optional ? [name, type, optional, min, max, count, coerce, own ?? onMismatch, unit] : attribute;
  });
}

function isForgiving(options) {
  checkOnMismatch(options?.onMismatch, "the option onMismatch");
  return options?.onMismatch === "undefined";
}

function toDomain(values) {
  const fields = DOMAIN.map((name, place) => [name, values[place]]);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}

const LAST_ID = 2n ** 64n - 1n;

function toId(id) {
  if (typeof id === "number" && Number.isSafeInteger(id) && id >= 0) return BigInt(id);
  if (typeof id === "bigint" && id >= 0n && id <= LAST_ID) return id;
  throw new TypeError(`an id is an integer from 0 to 2^64 - 1, a bigint from 2^53 on, but this is ${describe(id)}`);
}

function toIds(options) {
  const ids = options?.ids;
  return ids === undefined ? undefined : BigUint64Array.from(ids, toId);
}

/** Ids are numbers where these are exact. */
function fromIds(ids) {
  if (ids instanceof Float64Array) return Array.from(ids);
  return Array.from(ids, (id) => (id <= Number.MAX_SAFE_INTEGER ? Number(id) : id));
}

function toExpression(expression) {
  if (typeof expression === "string" || expression instanceof Uint8Array) return expression;
  throw new TypeError(`an expression is a string or a Uint8Array, but this is ${describe(expression)}`);
}

function toConstants(constants) {
  if (constants === undefined) return undefined;
  return Object.entries(constants).map(([name, value]) => {
    if (Number.isSafeInteger(value) || (typeof value === "bigint" && BigInt.asIntN(64, value) === value))
      return [name, value];
    throw new TypeError(`the constant ${name} is an integer of 64 bits, but this is ${describe(value)}`);
  });
}

/** Returns an event as JSON. A number that JSON does not have is refused, or, if `lenient`, written as one that no float has. */
function toJson(event, lenient) {
  if (typeof event === "string") return event;
  if (!isPlain(event)) throw new TypeError(`an event is an object or a string of JSON, but this is ${describe(event)}`);
  return `{${Object.entries(event).map(([name, value]) => `${JSON.stringify(name)}:${valueToJson(value, name, lenient)}`)}}`;
}

function valueToJson(value, name, lenient) {
  switch (typeof value) {
    case "boolean":
    case "bigint":
      return `${value}`;
    case "string":
      return JSON.stringify(value);
    case "undefined":
      return "null";
    case "number":
      if (Number.isFinite(value)) return `${value}`;
      if (lenient) return "1e999";
      throw new BeTreeError({
        kind: "out_of_bounds",
        message: `${name} is ${value}; give a finite number`,
        attribute: name,
      });
  }
  if (value === null) return "null";
  if (Array.isArray(value)) return `[${value.map((element) => valueToJson(element, name, lenient))}]`;
  if (isPlain(value)) {
    const fields = Object.entries(value);
    return `{${fields.map(([field, inner]) => `${JSON.stringify(field)}:${valueToJson(inner, `${name}.${field}`, lenient)}`)}}`;
  }
  throw new TypeError(
    `${name} of an event is a boolean, a number, a string, an array or an object, but this is ${describe(value)}`,
  );
}

function isPlain(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function describe(value) {
  if (value === null || value === undefined || ["number", "bigint", "boolean"].includes(typeof value))
    return `${value}`;
  return Array.isArray(value) ? "an array" : `${/^[aeiou]/.test(typeof value) ? "an" : "a"} ${typeof value}`;
}

async function toBytes(image) {
  if (image instanceof Uint8Array) return image;
  if (image instanceof ArrayBuffer) return new Uint8Array(image);
  if (typeof image?.arrayBuffer === "function") return new Uint8Array(await image.arrayBuffer());
  throw new TypeError(`load expects a Uint8Array, an ArrayBuffer, a Blob or a Response, but got ${describe(image)}`);
}

async function compile(bytes) {
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw notAnImage(error.message);
  }
}

// Where the digest is in the section and in the file, and its bytes (docs/guides/image.md).
const DIGEST = { inSection: 16, inFile: 38, bytes: 32 };

/** Checks the digest where the platform has one: a browser lacks it on a page that came over HTTP. */
async function checkDigest(bytes, section) {
  const subtle = globalThis.crypto?.subtle;
  if (subtle === undefined) return;
  const expected = new Uint8Array(section, DIGEST.inSection, DIGEST.bytes);
  const covered = new Uint8Array(bytes.length - DIGEST.bytes);
  covered.set(bytes.subarray(0, DIGEST.inFile));
  covered.set(bytes.subarray(DIGEST.inFile + DIGEST.bytes), DIGEST.inFile);
  const actual = new Uint8Array(await subtle.digest("SHA-256", covered));
  if (!actual.every((byte, place) => byte === expected[place]))
    throw notAnImage("its digest is another; it was changed");
}

function notAnImage(fault) {
  return new BeTreeError({
    kind: "bad_module",
    message: `this is no image of an index: ${fault}`,
  });
}
