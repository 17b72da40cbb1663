// Facts as JSON, which the module reads, and times as milliseconds.

import { describe, entriesOf, isDate, isFields, isMap, wellFormed, wrong } from "./arguments.js";
import { toJson } from "./event.js";

/** Returns a fact as JSON: an object with the type as its only name, and the fields as that name's value. */
export function toFact(fact) {
  if (typeof fact === "string") return wellFormed(fact, "the fact");
  if (!isFields(fact) && !isMap(fact))
    throw wrong(`a fact is an object like {login: {user: "ann"}} or a string of JSON, but this is ${describe(fact)}`);
  const types = entriesOf(fact, "the fact");
  if (types.length !== 1)
    throw wrong(`a fact has one name, its type, as {login: {user: "ann"}}, but this has ${types.length}`);
  const [[type, fields]] = types;
  if (!isFields(fields) && !isMap(fields))
    throw wrong(`the fields of ${type} are an object or a map, but this is ${describe(fields)}`, type);
  const name = JSON.stringify(wellFormed(type, "the type of the fact"));
  // The module decides about a number that JSON does not have: a field may accept it as undefined.
  return `{${name}:${toJson(inMilliseconds(fields), true)}}`;
}

/** Returns the fields with a time that is a `Date` in milliseconds. */
function inMilliseconds(fields) {
  const at = isMap(fields) ? fields.get("at") : fields.at;
  if (!isDate(at)) return fields;
  return isMap(fields) ? new Map([...fields, ["at", toTime(at)]]) : { ...fields, at: toTime(at) };
}

/** Returns a time in milliseconds. */
export function toTime(time) {
  const milliseconds = isDate(time) ? time.getTime() : time;
  if (Number.isSafeInteger(milliseconds)) return milliseconds;
  throw wrong(`a time is an integer of milliseconds or a valid Date, but this is ${describe(time)}`);
}
