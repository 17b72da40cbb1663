// Compares the package for JavaScript with other ways to evaluate many expressions: `node bench/web/peers.mjs FOLDER`, whose node_modules
// has the packages of package.json. Each engine gets the same random expressions and events, and has to find the same ids. Prints, for
// each number of expressions, the processor time of building, and of an event: the median of rounds.
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

import { BeTree } from "../../_build/web/package/node.js";

const require = createRequire(join(resolve(process.argv[2]), "package.json"));
const jsonLogic = require("json-logic-js");
const { Query } = require("mingo");
const cel = require("cel-js");
const { Engine } = require("json-rules-engine");
const { RuleEngine } = require("node-rules");

const SIZES = [100, 1_000, 10_000];
const ATTRIBUTES = 30;
const VALUES = 1_000;
const COUNTRIES = 40;
const EVENTS = 50;
/** The rounds of an engine end after so many milliseconds. */
const LONG = 2_000;

/** A generator of random integers, the same in each run. */
let state = 1;
function below(limit) {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * limit);
}

const country = () => `c${below(COUNTRIES)}`;
const several = (make) => Array.from({ length: 3 }, make);

function predicate() {
  const name = `a${below(ATTRIBUTES)}`;
  switch (below(5)) {
    case 0:
      return { name: "country", operator: "in", value: several(country) };
    case 1:
      return { name, operator: "in", value: several(() => below(VALUES)) };
    case 2:
      return { name: "country", operator: "=", value: country() };
    case 3:
      return { name, operator: ">=", value: below(VALUES) };
    default:
      return { name, operator: "<", value: below(VALUES) };
  }
}

/** A conjunction of alternatives, most of which are one predicate. */
function expression() {
  return Array.from({ length: 3 + below(3) }, () => Array.from({ length: below(5) === 0 ? 2 : 1 }, predicate));
}

function event() {
  const fields = Array.from({ length: ATTRIBUTES }, (_, place) => [`a${place}`, below(VALUES)]);
  return Object.fromEntries([...fields, ["country", country()]]);
}

/** Writes an expression, given the texts of a predicate, of alternatives and of a conjunction. */
const written = (all, one, any, every) => every(all.map((alternatives) => any(alternatives.map(one))));
const joined = (operator) => (texts) => `(${texts.join(` ${operator} `)})`;
const json = JSON.stringify;

const toBeTree = ({ name, operator, value }) => {
  const text = (constant) => (typeof constant === "string" ? `'${constant}'` : constant);
  return operator === "in" ? `${name} in (${value.map(text).join(", ")})` : `${name} ${operator} ${text(value)}`;
};
const toJs = ({ name, operator, value }) =>
  operator === "in"
    ? `${json(value)}.includes(e.${name})`
    : `e.${name} ${operator === "=" ? "===" : operator} ${json(value)}`;
const toCel = ({ name, operator, value }) =>
  operator === "in" ? `${name} in ${json(value)}` : `${name} ${operator === "=" ? "==" : operator} ${json(value)}`;
const toLogic = ({ name, operator, value }) => ({ [operator === "=" ? "===" : operator]: [{ var: name }, value] });
const MINGO = { "=": "$eq", in: "$in", ">=": "$gte", "<": "$lt" };
const toMingo = ({ name, operator, value }) => ({ [name]: { [MINGO[operator]]: value } });
const RULES = { "=": "equal", in: "in", ">=": "greaterThanInclusive", "<": "lessThan" };
const toRule = ({ name, operator, value }) => ({ fact: name, operator: RULES[operator], value });

const compile = (all) => new Function("e", `return ${written(all, toJs, joined("||"), joined("&&"))};`);

/** Returns the function of an engine that tests its expressions one by one. */
const oneByOne = (tests) => (event) => tests.flatMap((test, id) => (test(event) ? [id] : []));

/** Each engine takes the expressions, and returns a function from an event to the ids. */
const ENGINES = {
  "be-tree": (list) => {
    const names = Array.from({ length: ATTRIBUTES }, (_, place) => [`a${place}`, "integer"]);
    const tree = new BeTree(Object.fromEntries([...names, ["country", "string"]]));
    tree.insertAll(list.map((all, id) => ({ id, expression: written(all, toBeTree, joined("or"), joined("and")) })));
    return (event) => tree.search(event);
  },
  "closures by new Function": (list) => oneByOne(list.map(compile)),
  "json-logic-js": (list) => {
    const rules = list.map((all) =>
      written(
        all,
        toLogic,
        (or) => ({ or }),
        (and) => ({ and }),
      ),
    );
    return oneByOne(rules.map((rule) => (event) => jsonLogic.apply(rule, event)));
  },
  mingo: (list) => {
    const queries = list.map(
      (all) =>
        new Query(
          written(
            all,
            toMingo,
            ($or) => ({ $or }),
            ($and) => ({ $and }),
          ),
        ),
    );
    return oneByOne(queries.map((query) => (event) => query.test(event)));
  },
  "cel-js": (list) => {
    const parsed = list.map((all) => cel.parse(written(all, toCel, joined("||"), joined("&&"))).cst);
    return oneByOne(parsed.map((cst) => (event) => cel.evaluate(cst, event)));
  },
  "node-rules": (list) => {
    let found;
    const rules = list.map((all, id) => {
      const holds = compile(all);
      return {
        condition: (R, event) => R.when(holds(event)),
        consequence: (R) => {
          found.push(id);
          R.next();
        },
      };
    });
    const engine = new RuleEngine(rules);
    return (event) =>
      new Promise((resolve) => {
        found = [];
        engine.execute(event, () => resolve(found));
      });
  },
  "json-rules-engine": (list) => {
    const engine = new Engine();
    list.forEach((all, id) => {
      const conditions = written(
        all,
        toRule,
        (any) => ({ any }),
        (every) => ({ all: every }),
      );
      engine.addRule({ conditions, event: { type: `${id}` } });
    });
    return async (event) => (await engine.run(event)).events.map(({ type }) => Number(type));
  },
};

const milliseconds = () => process.cpuUsage().user / 1_000;
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
const ascending = (ids) => Array.from(ids).sort((a, b) => a - b);

async function measure(make, list, events, expected) {
  let started = milliseconds();
  const search = make(list);
  const built = milliseconds() - started;
  const end = performance.now() + LONG;
  const times = [];
  // The first event warms up.
  for (let at = 0; at < 3 || (performance.now() < end && times.length < 40 * EVENTS); at++) {
    const place = at % events.length;
    started = milliseconds();
    const found = await search(events[place]);
    times.push(milliseconds() - started);
    if (json(ascending(found)) !== json(expected[place])) throw new Error(`event ${place} has other ids`);
  }
  // The clock of processor time is coarse, so quick engines are measured by the mean of many events.
  const rounds = [];
  for (let from = 0; from + EVENTS <= times.length; from += EVENTS)
    rounds.push(times.slice(from, from + EVENTS).reduce((sum, time) => sum + time, 0) / EVENTS);
  return { built, searched: rounds.length > 0 ? median(rounds) : median(times.slice(1)) };
}

const events = Array.from({ length: EVENTS }, event);
const list = Array.from({ length: Math.max(...SIZES) }, expression);

console.log(
  "| expressions | matches | engine | building | an event | times be-tree |\n| --- | --- | --- | --- | --- | --- |",
);
for (const size of SIZES) {
  const some = list.slice(0, size);
  const expected = events.map(oneByOne(some.map(compile)));
  const matches = expected.reduce((sum, ids) => sum + ids.length, 0) / events.length;
  let fastest;
  for (const [name, make] of Object.entries(ENGINES)) {
    const { built, searched } = await measure(make, some, events, expected);
    fastest ??= searched;
    const times = (searched / fastest).toFixed(searched / fastest < 10 ? 1 : 0);
    console.log(
      `| ${size} | ${matches.toFixed(1)} | ${name} | ${built.toFixed(0)} ms | ${(1_000 * searched).toFixed(1)} us | ${times} |`,
    );
  }
}
