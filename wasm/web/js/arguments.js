// The checks of arguments: each is taken with its plain meaning, or refused.

import { BeTreeError } from "./error.js";

/** Returns the refusal of an argument. */
export function wrong(message, attribute = null) {
  return new BeTreeError({ kind: "argument", message, attribute });
}

/** Returns the options of a call. Of an unknown one the nearest known name is told. */
export function toOptions(options, names, call) {
  if (options === undefined) return {};
  if (!isFields(options)) throw wrong(`the options of ${call} are an object, but this is ${describe(options)}`);
  checkNames(options, names, call);
  return options;
}

/** Checks that an object has no other names than these. */
export function checkNames(object, names, owner, attribute = null) {
  const unknown = Object.keys(object).find((name) => !names.includes(name));
  if (unknown === undefined) return;
  const nearest = names.find((name) => isNear(name, unknown));
  const mend = nearest === undefined ? `it has ${names.join(", ")}` : `did you mean ${nearest}?`;
  throw wrong(`${owner} has no ${unknown}; ${mend}`, attribute);
}

/** Two changes of letters make one name of the other, or they differ in case only. */
function isNear(name, other) {
  if (name.toLowerCase() === other.toLowerCase()) return true;
  let row = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (const [place, letter] of [...name].entries()) {
    const next = [place + 1];
    for (let column = 1; column < row.length; column++) {
      const changed = row[column - 1] + (letter === other[column - 1] ? 0 : 1);
      next.push(Math.min(changed, row[column] + 1, next[column - 1] + 1));
    }
    row = next;
  }
  return row.at(-1) <= 2;
}

const LAST_ID = 2n ** 64n - 1n;

export function toId(id) {
  if (typeof id === "number" && Number.isSafeInteger(id) && id >= 0) return BigInt(id);
  if (typeof id === "bigint" && id >= 0n && id <= LAST_ID) return id;
  throw wrong(`an id is an integer from 0 to 2^64 - 1, a bigint from 2^53 on, but this is ${describe(id)}`);
}

/** Returns the ids of the option `ids`, an iterable such as an array, a set or a typed array. */
export function toIds(ids) {
  if (ids === undefined) return undefined;
  if (typeof ids !== "object" || typeof ids?.[Symbol.iterator] !== "function")
    throw wrong(`the option ids is an array or a set of ids, but this is ${describe(ids)}`);
  return BigUint64Array.from(ids, toId);
}

/** Ids are numbers where these are exact. */
export function fromIds(ids) {
  return Array.from(ids, fromId);
}

export function fromId(id) {
  return typeof id === "bigint" && id <= Number.MAX_SAFE_INTEGER ? Number(id) : id;
}

export function toExpression(expression) {
  if (typeof expression === "string") return wellFormed(expression, "the expression");
  if (isBytes(expression)) return toBytes(expression);
  throw wrong(`an expression is a string or a Uint8Array, but this is ${describe(expression)}`);
}

export function toConstants(constants) {
  if (constants === undefined) return undefined;
  if (!isFields(constants) && !isMap(constants))
    throw wrong(`constants are an object of integers, but this is ${describe(constants)}`);
  return entriesOf(constants, "the constants").map(([name, value]) => {
    if (Number.isSafeInteger(value) || (typeof value === "bigint" && BigInt.asIntN(64, value) === value))
      return [wellFormed(name, "a constant's name"), value];
    throw wrong(`the constant ${name} is an integer of 64 bits, but this is ${describe(value)}`);
  });
}

export function toList(list, call) {
  if (!Array.isArray(list)) throw wrong(`${call} expects an array, but got ${describe(list)}`);
  return Array.from(list);
}

/** Returns a list of `{id, expression, constants}`, whose values are not checked yet. */
export function toSubscriptions(subscriptions, call) {
  const list = toList(subscriptions, call);
  list.forEach((subscription, position) => {
    if (!isFields(subscription))
      throw wrong(`a subscription is {id, expression}, but number ${position} is ${describe(subscription)}`);
    checkNames(subscription, ["id", "expression", "constants"], `subscription ${position}`);
  });
  return list;
}

export function checkTimeout(timeout) {
  if (timeout === undefined || (typeof timeout === "number" && timeout >= 0)) return;
  throw wrong(`the option timeout is a number of milliseconds, but this is ${describe(timeout)}`);
}

/** UTF-8 has no half of a surrogate pair; the module would get another character in its place. */
export function wellFormed(text, what) {
  if (/\p{Surrogate}/u.test(text)) throw wrong(`${what} has half of a surrogate pair; give whole characters`);
  return text;
}

/** Returns the names and values of an object or of a map with strings as keys. */
export function entriesOf(object, what) {
  if (!isMap(object)) return Object.entries(object);
  const entries = [...object];
  const other = entries.find(([name]) => typeof name !== "string");
  if (other !== undefined) throw wrong(`the keys of ${what} are strings, but this is ${describe(other[0])}`);
  return entries;
}

// Values of another realm, such as a frame or a test of Jest, are of other classes.
export const isMap = (value) => tagOf(value) === "[object Map]";
export const isSet = (value) => tagOf(value) === "[object Set]";
export const isDate = (value) => tagOf(value) === "[object Date]";
export const isTypedArray = (value) => ArrayBuffer.isView(value) && tagOf(value) !== "[object DataView]";
export const isBytes = (value) => tagOf(value) === "[object Uint8Array]";
export const isArrayBuffer = (value) => tagOf(value) === "[object ArrayBuffer]";
const tagOf = (value) => Object.prototype.toString.call(value);

export const toBytes = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

/** Whether a value is an object with fields, no list and no collection. */
export function isFields(value) {
  return typeof value === "object" && value !== null && tagOf(value) === "[object Object]";
}

export function describe(value) {
  if (value === null || value === undefined || ["number", "bigint", "boolean"].includes(typeof value))
    return `${value}`;
  if (Array.isArray(value)) return "an array";
  const kind = typeof value === "object" && !isFields(value) ? tagOf(value).slice(8, -1) : typeof value;
  return `${/^[aeiou]/i.test(kind) ? "an" : "a"} ${kind}`;
}
