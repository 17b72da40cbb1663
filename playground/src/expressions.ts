// The language of expressions in the editor: colors and completion. The index alone decides what is an expression.
import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  snippetCompletion,
} from "@codemirror/autocomplete";
import { StreamLanguage } from "@codemirror/language";
import type { Domain, Schema, Type } from "be-tree";

const WORDS = new Set([
  "like",
  "matches",
  "between",
  "and",
  "or",
  "not",
  "in",
  "is",
  "null",
  "empty",
  "one",
  "none",
  "all",
  "of",
]);

/** The path of a field: names with points between them, in backticks where they are no identifiers. */
const PATH = /^(?:[A-Za-z_][\w-]*|`(?:[^`]|``)*`)(?:\.(?:[A-Za-z_][\w-]*|`(?:[^`]|``)*`))*/;

/** Colors. A text that is no expression is colored too. */
export const expressionLanguage = StreamLanguage.define({
  name: "expression",
  token(stream) {
    if (stream.sol() && stream.match(/^\s*#.*/)) return "comment";
    if (stream.eatSpace()) return null;
    if (stream.match(/^(["'])(?:\\.|(?!\1)[^\\])*\1?/)) return "string";
    if (stream.match(/^-?\d+(\.\d+)?([eE][-+]?\d+)?/)) return "number";
    if (stream.match(/^(<=|>=|<>|[<>=+*/-]|\|\||&&)/)) return "operator";
    const word = stream.match(PATH) as RegExpMatchArray | null;
    if (!word) {
      stream.next();
      return null;
    }
    if (word[0] === "true" || word[0] === "false") return "bool";
    if (WORDS.has(word[0])) return "keyword";
    return stream.match(/^\s*\(/, false) ? "labelName" : "propertyName";
  },
});

const keyword = (label: string, detail = ""): Completion => ({ label, type: "keyword", detail });
const operator = (template: string, label: string, detail = ""): Completion =>
  snippetCompletion(template, { label, type: "operator", detail });

const EQUAL = [operator("= ", "="), operator("<> ", "<>", "differs")];
const ORDER = ["<", "<=", ">", ">="].map((sign) => operator(`${sign} `, sign));
const MEMBER = [operator("in (${values})", "in", "one of these"), operator("not in (${values})", "not in")];
const NULL = [keyword("is null", "undefined"), keyword("is not null")];
const LISTS = [
  operator("one of (${values})", "one of", "has one of these"),
  operator("all of (${values})", "all of"),
  operator("none of (${values})", "none of"),
  keyword("is empty"),
];

const BETWEEN_BOUNDS = operator("between ${low} and ${high}", "between", "within bounds");
const LIKE = [
  operator("like '${pattern}'", "like", "* any characters, ? one"),
  operator("not like '${pattern}'", "not like"),
  operator("matches '${expression}'", "matches", "a regular expression"),
];
const NETWORKS = [
  operator("in ('${network}')", "in", "in one of these networks"),
  operator("not in ('${network}')", "not in"),
];

const OPERATORS: Record<Type, Completion[]> = {
  boolean: [keyword("and"), keyword("or"), ...NULL],
  integer: [...EQUAL, ...ORDER, BETWEEN_BOUNDS, ...MEMBER, ...NULL],
  float: [...EQUAL, ...ORDER, BETWEEN_BOUNDS, ...NULL],
  string: [...EQUAL, ...MEMBER, ...LIKE, ...NULL],
  integer_enum: [...EQUAL, ...MEMBER, ...NULL],
  integer_list: [...LISTS, ...NULL],
  string_list: [...LISTS, ...NULL],
  segments: [keyword("is empty"), ...NULL],
  frequency_caps: [keyword("is empty"), ...NULL],
  ip: [...EQUAL, ...NETWORKS, ...NULL],
  datetime: [...EQUAL, ...ORDER, BETWEEN_BOUNDS, ...NULL],
  object_list: [keyword("is empty"), ...NULL],
};

const FUNCTIONS = [
  operator("contains(${attribute}, '${text}')", "contains", "a part of a string"),
  operator("starts_with(${attribute}, '${text}')", "starts_with", "the start of a string"),
  operator("ends_with(${attribute}, '${text}')", "ends_with", "the end of a string"),
  operator("size(${attribute})", "size", "the elements of a list"),
  operator("length(${attribute})", "length", "the characters of a string"),
  operator("lower(${attribute})", "lower", "the lower case of a string"),
  operator("geo_within_radius(${latitude}, ${longitude}, ${kilometers})", "geo_within_radius", "a distance"),
  operator("segment_within(${attribute}, ${id}, ${seconds})", "segment_within", "seen lately"),
  operator("segment_before(${attribute}, ${id}, ${seconds})", "segment_before", "seen before"),
  operator(
    'within_frequency_cap("${type}", "${namespace}", ${value}, ${seconds})',
    "within_frequency_cap",
    "shown rarely",
  ),
].map((completion): Completion => ({ ...completion, type: "function" }));

const QUANTIFIERS = [
  operator("any ${list} (${condition})", "any", "an object of a list meets the condition"),
  operator("all ${list} (${condition})", "all", "each object of a list meets it"),
  operator("none ${list} (${condition})", "none", "no object of a list meets it"),
];

const START = [keyword("not"), keyword("true"), keyword("false"), ...QUANTIFIERS, ...FUNCTIONS];
const BETWEEN = [keyword("and"), keyword("or")];

const typeOf = (domain: Type | Domain): Type => (typeof domain === "string" ? domain : domain.type);

/** Completes attributes, functions, and the operators that fit an attribute. */
export function completeExpression(schema: () => Schema) {
  return (context: CompletionContext): CompletionResult | null => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    if (/^\s*#/.test(before) || isInString(before)) return null;
    const word = /[A-Za-z_][\w.-]*$|$/.exec(before)![0];
    if (word === "" && !context.explicit && !/[\w)]\s$/.test(before)) return null;
    const head = before.slice(0, before.length - word.length);
    return { from: context.pos - word.length, options: options(head, schema()), validFor: /^[\w.-]*$/ };
  };
}

function options(head: string, schema: Schema): Completion[] {
  const last = /([A-Za-z_`][^\s()]*)\s+$/.exec(head)?.[1];
  if (last !== undefined && Object.hasOwn(schema, last)) return OPERATORS[typeOf(schema[last]!)];
  const isOver = /['")\d]\s*$/.test(head) || /\b(null|empty|true|false)\s+$/.test(head);
  if (isOver) return BETWEEN;
  const attributes = Object.entries(schema).map(([name, domain]) => attribute(name, domain));
  return [...attributes, ...START];
}

function attribute(name: string, domain: Type | Domain): Completion {
  return { label: name, type: "property", detail: typeOf(domain), boost: 1 };
}

function isInString(before: string): boolean {
  return /^(?:[^'"]|(["'])(?:\\.|(?!\1)[^\\])*\1)*$/.test(before) === false;
}

/** Completes the names of an event. */
export function completeEvent(schema: () => Schema) {
  return (context: CompletionContext): CompletionResult | null => {
    const name = context.matchBefore(/[{,]\s*"?[\w-]*$/);
    if (!name) return null;
    const start = /"?[\w-]*$/.exec(name.text)![0];
    if (start === "" && !context.explicit) return null;
    const options = fieldsOf(schema()).map(([label, detail]) => ({
      label: JSON.stringify(label),
      apply: applyName(`${JSON.stringify(label)}: `),
      detail,
      type: "property",
    }));
    return { from: context.pos - start.length, options, validFor: /^"?[\w-]*$/ };
  };
}

/** Returns the names of the fields on all paths, each with the type of its values. */
function fieldsOf(schema: Schema): [string, string][] {
  const fields = new Map<string, string>();
  for (const [path, domain] of Object.entries(schema)) {
    const names = path.match(/`(?:[^`]|``)*`|[^.`]+/g) ?? [];
    names.forEach((name, place) => {
      const plain = name.startsWith("`") ? name.slice(1, -1).replaceAll("``", "`") : name;
      if (!fields.has(plain)) fields.set(plain, place === names.length - 1 ? typeOf(domain) : "object");
    });
  }
  return [...fields];
}

/** A quote that was closed by itself is replaced too. */
function applyName(text: string): Completion["apply"] {
  return (view, _completion, from, to) => {
    const end = view.state.sliceDoc(to, to + 1) === '"' ? to + 1 : to;
    view.dispatch({ changes: { from, to: end, insert: text }, selection: { anchor: from + text.length } });
  };
}

/** Completes the types of a schema. */
export function completeSchema(context: CompletionContext): CompletionResult | null {
  const given = context.matchBefore(/:\s*"?[a-z_]*$/);
  if (!given) return null;
  const start = /"?[a-z_]*$/.exec(given.text)![0];
  if (start === "" && !context.explicit) return null;
  const options = Object.keys(OPERATORS).map((type) => ({
    label: `"${type}"`,
    apply: applyName(`"${type}"`),
    type: "type",
  }));
  return { from: context.pos - start.length, options, validFor: /^"?[a-z_]*$/ };
}
