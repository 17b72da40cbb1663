// Schemas: the attributes that the module takes, and the domains that users read.

import { checkNames, describe, entriesOf, isFields, isMap, wellFormed, wrong } from "./arguments.js";

// The place of `onMismatch` in an attribute.
const ON_MISMATCH = 7;
const DOMAIN = ["type", "optional", "min", "max", "count", "coerce", "onMismatch", "unit"];
const UNITS = ["second", "millisecond", "microsecond"];

export function toAttributes(schema) {
  if (!isFields(schema) && !isMap(schema))
    throw wrong(
      `a schema is an object from names to domains, such as {age: "integer"}, but this is ${describe(schema)}`,
    );
  return toFields(schema, []);
}

/** Returns the attributes of a schema, or of a map of fields in it. A domain has a type; a map has fields. */
function toFields(schema, around) {
  return entriesOf(schema, "a schema").flatMap(([field, domain]) => {
    const path = [...around, field];
    const name = wellFormed(path.join("."), "a name in the schema");
    const given = typeof domain === "string" ? { type: domain } : isMap(domain) ? fromMap(domain, name) : domain;
    if (isFields(given) && typeof given.type !== "string" && Object.keys(given).length > 0)
      return toFields(given, path);
    if (!isFields(given) || typeof given.type !== "string")
      throw wrong(`the domain of ${name} is a type or an object with a type, but this is ${describe(domain)}`, name);
    checkNames(given, DOMAIN, `the domain of ${name}`, name);
    const { type, optional, min, max, count, coerce, onMismatch, unit } = given;
    checkFlag(optional, `optional of ${name}`, name);
    checkFlag(coerce, `coerce of ${name}`, name);
    checkOnMismatch(onMismatch, `onMismatch of ${name}`, name);
    if (unit !== undefined && !UNITS.includes(unit))
      throw wrong(`unit of ${name} is one of ${UNITS.join(", ")}, but this is ${describe(unit)}`, name);
    return [[name, type, optional === true, min, max, count, coerce || undefined, onMismatch, unit]];
  });
}

const fromMap = (map, name) => Object.fromEntries(entriesOf(map, name));

function checkFlag(value, name, attribute) {
  if (value !== undefined && typeof value !== "boolean")
    throw wrong(`${name} is true or false, but this is ${describe(value)}`, attribute);
}

export function checkOnMismatch(value, name, attribute = null) {
  if (value === undefined || value === "error" || value === "undefined") return;
  throw wrong(`${name} is "error" or "undefined", but this is ${describe(value)}`, attribute);
}

/** Gives the optional attributes that have no `onMismatch` that of the schema. */
export function withDefault(attributes, onMismatch) {
  checkOnMismatch(onMismatch, "the option onMismatch");
  if (onMismatch !== "undefined") return attributes;
  return attributes.map((attribute) => {
    const [name, type, optional, min, max, count, coerce, own, unit] = attribute;
    return optional ? [name, type, optional, min, max, count, coerce, own ?? onMismatch, unit] : attribute;
  });
}

/** Whether values of one of the attributes may count as undefined. */
export function forgives(attributes) {
  return attributes.some((attribute) => attribute[ON_MISMATCH] === "undefined");
}

export function toDomain(values) {
  const fields = DOMAIN.map((name, place) => [name, values[place]]);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}
