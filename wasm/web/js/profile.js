// Sums up the parts of searches, as the Elixir side does. A part is `[phase, rows]`, and its rows have the shapes of docs/contributing/abi.md.

const [WALK, SCAN, VERIFY, DENSE, UNINDEXED] = [0, 1, 2, 3, 4];

/** Stands for the attribute that led to an expression which no attribute leads to. */
const NOWHERE = Symbol("unindexed");

/** Returns the profile of searches, given the parts of each and the names of the attributes. */
export function summarize(searches, names) {
  const name = (place) => (place === undefined ? null : names[place]);
  const sums = new Map();
  const runs = [];
  for (const parts of searches) {
    // The attribute that led to a candidate is known from the scan before.
    const leads = new Map();
    for (const [phase, rows] of parts) {
      for (const row of rows) {
        if (phase === WALK) add(sums, row[0], { lookups: row[1], nodes: row[2] });
        if (phase === SCAN) add(sums, row[0], { entries: row[1], proven: row[2] });
        if (phase === SCAN || phase === DENSE) row[3].forEach((id) => leads.set(id, row[0]));
        if (phase === VERIFY || phase === UNINDEXED) {
          const [id, tests, holds, decidedBy] = row;
          const lead = phase === VERIFY ? leads.get(id) : NOWHERE;
          runs.push({ id, tests, holds, lead, decidedBy: name(decidedBy) });
        }
      }
    }
  }
  runs.filter(({ lead }) => lead !== NOWHERE).forEach(({ lead }) => add(sums, lead, {}));
  const led = group(runs, ({ lead }) => lead);
  const attributes = [...sums].map(([place, counts]) => {
    const own = led.get(place) ?? [];
    const failed = own.filter(({ holds }) => !holds);
    return {
      name: name(place),
      ...counts,
      candidates: own.length,
      failed: failed.length,
      failedBy: deciding(failed),
    };
  });
  const expressions = [...group(runs, ({ id }) => id)].map(([id, own]) => ({
    id,
    candidate: own.length,
    tests: own.reduce((sum, { tests }) => sum + tests, 0),
    matched: own.filter(({ holds }) => holds).length,
    failed: own.filter(({ holds }) => !holds).length,
    decidedBy: deciding(own),
  }));
  const byCount = (a, b) => b.candidates - a.candidates || b.entries - a.entries || b.lookups - a.lookups;
  return {
    searches: searches.length,
    attributes: attributes.sort((a, b) => byCount(a, b) || compare(a.name ?? "", b.name ?? "")),
    expressions: expressions.sort((a, b) => b.tests - a.tests || compare(a.id, b.id)),
  };
}

function add(sums, place, more) {
  const counts = sums.get(place) ?? {
    lookups: 0,
    nodes: 0,
    entries: 0,
    proven: 0,
  };
  Object.entries(more).forEach(([count, number]) => (counts[count] += number));
  sums.set(place, counts);
}

function group(list, key) {
  const groups = new Map();
  for (const element of list) {
    const own = groups.get(key(element));
    if (own) own.push(element);
    else groups.set(key(element), [element]);
  }
  return groups;
}

/** Returns how often each attribute decided, the most frequent first. */
function deciding(runs) {
  const counted = [...group(runs, ({ decidedBy }) => decidedBy)].map(([name, own]) => ({ name, times: own.length }));
  return counted.sort((a, b) => b.times - a.times || compare(a.name ?? "", b.name ?? ""));
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
