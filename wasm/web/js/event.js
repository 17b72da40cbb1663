// Events as JSON, which the module reads.

import { BeTreeError } from "./error.js";
import { describe, entriesOf, isDate, isFields, isMap, isSet, isTypedArray, wellFormed, wrong } from "./arguments.js";

const DEEPEST = 500;

/** Returns an event as JSON. A number that JSON does not have is refused, or, if `lenient`, written as one that no float has. */
export function toJson(event, lenient) {
  if (typeof event === "string") return wellFormed(event, "the event");
  const given = typeof event?.toJSON === "function" ? event.toJSON() : event;
  if (typeof given === "string" || (!isFields(given) && !isMap(given)))
    throw wrong(`an event is an object, a map or a string of JSON, but this is ${describe(event)}`);
  return fieldsToJson(given, "", lenient, 1);
}

function valueToJson(value, name, lenient, depth) {
  switch (typeof value) {
    case "boolean":
    case "bigint":
      return `${value}`;
    case "string":
      return JSON.stringify(wellFormed(value, name));
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
  if (depth > DEEPEST) throw wrong(`${name} is nested deeper than ${DEEPEST}, or contains itself`, name);
  if (isDate(value) && Number.isNaN(value.getTime())) throw wrong(`${name} is no time; give a valid Date`, name);
  if (typeof value.toJSON === "function") return valueToJson(value.toJSON(), name, lenient, depth + 1);
  if (Array.isArray(value) || isSet(value) || isTypedArray(value))
    return `[${Array.from(value, (element) => valueToJson(element, name, lenient, depth + 1))}]`;
  if (isFields(value) || isMap(value)) return fieldsToJson(value, `${name}.`, lenient, depth);
  // The objects of `new Number(3)`.
  const primitive = value.valueOf();
  if (Object(primitive) !== primitive) return valueToJson(primitive, name, lenient, depth + 1);
  throw notAValue(name, value);
}

function fieldsToJson(object, prefix, lenient, depth) {
  const what = prefix === "" ? "the event" : prefix.slice(0, -1);
  const fields = [...entriesOf(object, what), ...accessorsOf(object)];
  if (fields.length === 0 && !isMap(object) && !isPlain(object)) throw notAValue(what, object);
  const texts = fields.map(([name, value]) => {
    const key = JSON.stringify(wellFormed(name, `a name in ${what}`));
    return `${key}:${valueToJson(value, prefix + name, lenient, depth + 1)}`;
  });
  return `{${texts}}`;
}

function notAValue(name, value) {
  return wrong(
    `${name} of an event is a boolean, a number, a string, a Date, an array or an object, but this is ${describe(value)}`,
    name,
  );
}

/** Returns the values of the getters that an object has from its classes. */
function accessorsOf(object) {
  const found = [];
  if (isMap(object)) return found;
  for (let at = Object.getPrototypeOf(object); !isRoot(at); at = Object.getPrototypeOf(at)) {
    for (const [name, { get }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      const isNew = !Object.hasOwn(object, name) && found.every(([known]) => known !== name);
      if (get !== undefined && isNew) found.push([name, object[name]]);
    }
  }
  return found;
}

const isPlain = (object) => isRoot(Object.getPrototypeOf(object));
/** The end of a chain of prototypes, in any realm. */
const isRoot = (prototype) => prototype === null || Object.getPrototypeOf(prototype) === null;
