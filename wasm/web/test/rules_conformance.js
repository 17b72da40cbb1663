// Scripts of calls of rules, in any JavaScript: Node's test and the browser's run this.
// `cases` is what test/browser/rules_cases.exs wrote: each call with the result of the Elixir side.

import { canonical, fromCase, toText } from "./conformance.js";

/** Returns the results that differ, a line each, and the number of those that were compared. */
export function differencesOfRules({ Rules, BeTreeError }, cases) {
  const faults = [];
  let compared = 0;
  const check = (what, actual, expected) => {
    const [left, right] = [canonical(actual), canonical(expected)];
    compared += 1;
    if (left !== right) faults.push(`${what}: ${left} instead of ${right}`);
  };

  for (const [number, script] of [...cases.scripts, ...cases.workloads].entries()) {
    for (const form of [(fact) => fact, toText]) {
      const rules = new Rules(script.text, script.options);
      check(`script ${number}, warnings`, rules.warnings, script.warnings);
      for (const [position, call] of script.calls.entries()) {
        const { counts, ...expected } = script.results[position];
        check(`script ${number}, call ${position}`, made(rules, call, form), expected);
        const info = rules.info();
        const left = Object.fromEntries(Object.keys(counts).map((name) => [name, info[name]]));
        check(`script ${number}, counts after call ${position}`, left, counts);
      }
      for (const [type, facts] of Object.entries(script.facts))
        check(`script ${number}, ${type}`, rules.facts(type), facts);
      check(`script ${number}, sources`, [...rules.sources()].sort(byName), script.sources.sort(byName));
      for (const [rule, explanations] of script.explanations)
        check(`script ${number}, ${rule} explained`, rules.explain(rule), explanations);
      rules.free();
    }
  }

  for (const { rules, message, ...expected } of cases.refusals) {
    const error = refusalOf(() => new Rules(rules));
    check(rules, error.message, message);
    check(rules, pick(error, Object.keys(expected)), expected);
  }
  return { faults, compared };

  /** Makes a call, and returns its page or its error. */
  function made(rules, [name, ...given], form) {
    const withSource = (source) => (source === null ? undefined : { source });
    const toFact = ([type, fields]) => form({ [type]: fromCase(fields) });
    try {
      switch (name) {
        case "assert":
          return rules.assert(toFact(given[0]), withSource(given[1]));
        case "assert_all":
          return rules.assertAll(given[0].map(toFact), withSource(given[1]));
        case "advance":
          return rules.advance(given[0], withSource(given[1]));
        case "end_source":
          return rules.endSource(given[0]);
        default:
          return rules[name](...given);
      }
    } catch (error) {
      if (!(error instanceof BeTreeError)) throw error;
      return pick(error, ["kind", "reason", "attribute", "position"]);
    }
  }
}

const byName = ([left], [right]) => (`${left}` < `${right}` ? -1 : 1);
const pick = (object, names) => Object.fromEntries(names.map((name) => [name, object[name]]));

function refusalOf(call) {
  try {
    call();
  } catch (error) {
    return error;
  }
  return {};
}
