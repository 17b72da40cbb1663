// The conformance cases, in any JavaScript: Node's test and the browser's run this.
// `cases` is what test/browser/cases.exs wrote: each case with the result of the Elixir side.

/** Returns the cases that differ, a line each. */
export async function differences({ BeTree, BeTreeError }, cases, image) {
  const faults = [];
  const check = (what, actual, expected) => {
    const [left, right] = [canonical(actual), canonical(expected)];
    if (left !== right) faults.push(`${what}: ${left} instead of ${right}`);
  };
  const schema = Object.fromEntries(cases.schema);
  const { constants } = cases;

  for (const { expression, event: given, holds, explanation } of cases.rows) {
    const event = fromCase(given);
    const tree = new BeTree(schema);
    tree.insert(1, expression, { constants });
    tree.insert(0, `not (${expression})`, { constants });
    const ids = holds ? [1] : [0];
    check(expression, tree.search(event), ids);
    check(`${expression}, as text`, tree.search(toText(event)), ids);
    check(`${expression}, among ids`, tree.search(event, { ids: [7, 1] }), holds ? [1] : []);
    check(`${expression}, many`, tree.searchMany([event, toText(event)]), [ids, ids]);
    check(`${expression}, traced`, tree.trace(event).ids, ids);
    check(`${expression}, explained`, tree.explain(event, 1), {
      match: holds,
      root: explanation,
    });
    tree.delete(1);
    check(`${expression}, deleted`, tree.search(event), holds ? [] : [0]);
    tree.free();
  }

  const subscriptions = cases.rows.map(({ expression }, id) => ({
    id,
    expression,
    constants,
  }));
  const all = new BeTree(schema);
  all.insertAll(subscriptions);
  const read = await BeTree.load(image);
  check("the schema of the image", Object.entries(read.schema), cases.schema.map(withDefaults));
  check("the drawing of the image", read.draw(), all.draw());
  for (const [index, name] of [
    [all, "all"],
    [read, "image"],
  ]) {
    for (const { expression, event: given, found, explanation } of cases.rows) {
      const event = fromCase(given);
      check(`${name}, ${expression}`, index.search(event), found);
      const id = cases.rows.findIndex((row) => row.expression === expression && row.event === given);
      check(`${name}, ${expression}, explained`, index.explain(event, id).root, explanation);
    }
    check(
      `${name}, many`,
      index.searchMany(cases.rows.map(({ event }) => fromCase(event))),
      cases.rows.map(({ found }) => found),
    );
    check(`${name}, profile`, index.profile(cases.rows.map(({ event }) => fromCase(event))), cases.profile);
    check(`${name}, counts`, index.info().expressions, cases.info.expressions);
    for (const count of ["predicates", "strings", "nodes", "entries", "unindexed", "depth"]) {
      check(`${name}, ${count}`, index.info()[count], cases.info[count]);
    }
  }
  for (const { expression, event } of cases.rows) {
    const { visited, evaluated, steps, ids } = all.trace(fromCase(event));
    const sum = (count) => steps.reduce((total, step) => total + step[count], 0);
    check(`${expression}, visited`, sum("visited"), visited);
    check(`${expression}, evaluated`, sum("evaluated"), evaluated);
    check(`${expression}, matches`, sum("matches"), ids.length);
  }

  const bounded = { ...schema, ...Object.fromEntries(cases.bounded) };
  const other = await BeTree.load(image);
  for (const { expression: given, kind, reason, attribute, column, message } of cases.refusals) {
    const expression = fromCase(given);
    const error = refusalOf(() => new BeTree(bounded).insert(1, expression));
    check(`${given}, refused`, error instanceof BeTreeError, true);
    const { kind: ownKind, reason: ownReason, attribute: ownAttribute, column: ownColumn } = error;
    check(`${given}, refused`, [ownKind, ownReason, ownAttribute, ownColumn], [kind, reason, attribute, column]);
    // What is no UTF-8 is shown only by Elixir.
    if (typeof expression === "string") check(`${given}, its text`, error.message, message);
    // The image has no bounded attributes, so it refuses those expressions as another kind.
    if (kind !== "out_of_bounds") {
      check(`${given}, by the image`, refusalOf(() => other.insert(1000, expression)).reason, reason);
    }
  }
  return faults;
}

function refusalOf(call) {
  try {
    call();
  } catch (error) {
    return error;
  }
  return new Error("nothing was thrown");
}

function withDefaults([name, domain]) {
  return [name, { type: domain.type, optional: domain.optional ?? false, ...(domain.coerce && { coerce: true }) }];
}

/** Returns the value that a case stands for. */
export function fromCase(value) {
  if (Array.isArray(value)) return value.map(fromCase);
  if (typeof value !== "object" || value === null) return value;
  if ("$integer" in value) return BigInt(value.$integer);
  if ("$bytes" in value) return Uint8Array.from(value.$bytes);
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, fromCase(field)]));
}

/** Returns the JSON of an event, which may have bigints. */
export function toText(value) {
  if (typeof value === "bigint") return `${value}`;
  if (Array.isArray(value)) return `[${value.map(toText)}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, field]) => `${JSON.stringify(name)}: ${toText(field)}`)}}`;
}

/** Returns a text that is equal for equal values. Fields are sorted, and those that are undefined are left out. */
export function canonical(value) {
  return JSON.stringify(value, (_name, field) => {
    if (typeof field === "bigint") return { $integer: `${field}` };
    if (typeof field !== "object" || field === null || Array.isArray(field)) return field;
    return Object.fromEntries(Object.entries(field).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
