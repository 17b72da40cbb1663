// The places of values in a text of JSON, which `JSON.parse` does not tell.

/** A part of a text: from an offset to the offset behind it. */
export interface Span {
  from: number;
  to: number;
}

interface Field {
  name: string;
  key: Span;
  value: Value;
}

interface Value extends Span {
  fields: Field[];
}

const TOKEN = /\s*("(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+)/y;

/** Reads a text that `JSON.parse` takes. */
function read(text: string): Value {
  let token = "";
  let from = 0;
  let to = 0;

  function next() {
    TOKEN.lastIndex = to;
    token = TOKEN.exec(text)?.[1] ?? "";
    to = TOKEN.lastIndex;
    from = to - token.length;
  }

  function value(): Value {
    const begin = from;
    const fields: Field[] = [];
    const close = { "{": "}", "[": "]" }[token];
    if (close !== undefined) {
      const isObject = close === "}";
      for (next(); token !== close; next()) {
        if (token === ",") continue;
        if (!isObject) {
          value();
          continue;
        }
        const [name, key] = [JSON.parse(token) as string, { from, to }];
        next();
        next();
        fields.push({ name, key, value: value() });
      }
    }
    return { from: begin, to, fields };
  }

  next();
  return value();
}

/** Finds the attribute in a schema, whose fields may be nested. Of fields with the same name the last one counts. */
function findAttribute({ fields }: Value, attribute: string): Field | null {
  for (const field of fields.toReversed()) {
    if (field.name === attribute) return field;
    if (!attribute.startsWith(`${field.name}.`)) continue;
    const inner = findAttribute(field.value, attribute.slice(field.name.length + 1));
    if (inner) return inner;
  }
  return null;
}

/** Finds the part of an attribute's domain that a reason for a refusal is about, or `null` if the schema lacks the attribute. */
export function placeInSchema(text: string, attribute: string, reason: string): Span | null {
  const found = findAttribute(read(text), attribute);
  if (!found) return null;
  if (/no expression can spell|cannot be a field/.test(reason)) return found.key;
  // The first of the domain's keys that the reason names.
  const [named] = found.value.fields
    .map((field) => ({ field, place: reason.search(new RegExp(`\\b${field.name.replace(/\W/g, "\\$&")}\\b`)) }))
    .filter(({ place }) => place >= 0)
    .sort((a, b) => a.place - b.place);
  if (!named) return found.value;
  return reason.includes(`has no ${named.field.name};`) ? named.field.key : named.field.value;
}
