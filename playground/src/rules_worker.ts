// The worker runs the rules, so that the page answers to its user while rules fire.
import { BeTreeError, init, Rules, type Page } from "be-tree/rules";

import type { Fault } from "./protocol";
import type { Left, Reply, Request, Told } from "./rules_protocol";
import { readCall, scriptLines } from "./script";

/** Rules without end are told of at once. */
const FIRINGS = 20_000;
/** The facts of a type, and the notices, that are listed. */
const LISTED = 200;

const reply = (message: Reply) => postMessage(message);

let waiting: Request | null = null;
let isBusy = false;

onmessage = ({ data }: MessageEvent<Request>) => {
  waiting = data;
  if (!isBusy) void work();
};

async function work() {
  isBusy = true;
  await init();
  while (waiting) {
    const request: Request = waiting;
    waiting = null;
    run(request);
    // Lets messages in.
    await new Promise((done) => setTimeout(done));
  }
  isBusy = false;
}

function run({ run, rules: text, script }: Request) {
  let rules: Rules;
  try {
    rules = new Rules(text, { firings: FIRINGS });
  } catch (error) {
    if (!(error instanceof BeTreeError)) throw error;
    const rulesFault = { line: error.line ?? 1, column: error.column ?? 1, reason: error.reason };
    return reply({ kind: "ran", run, rulesFault, faults: [], result: null });
  }
  const started = performance.now();
  const told: Told[] = [];
  const faults: Fault[] = [];
  for (const { line, text } of scriptLines(script)) {
    try {
      const { notices } = made(rules, text);
      if (notices.length > 0) told.push({ line, notices: notices.slice(0, LISTED) });
    } catch (error) {
      if (!(error instanceof BeTreeError)) throw error;
      faults.push({ line, column: error.column ?? columnOf(error, text), reason: error.reason });
    }
  }
  const milliseconds = performance.now() - started;
  const [info, warnings] = [rules.info(), rules.warnings];
  const left = Object.entries(info.types).map(([type, count]): Left => ({
    type,
    count,
    facts: rules.facts(type, { limit: LISTED }),
  }));
  rules.free();
  reply({ kind: "ran", run, rulesFault: null, faults, result: { told, left, info, warnings, milliseconds } });
}

function made(rules: Rules, text: string): Page {
  const call = readCall(text);
  switch (call.kind) {
    case "assert":
      return rules.assert(call.fact);
    case "assertAll":
      return rules.assertAll(call.facts as Record<string, object>[]);
    case "advance":
      return rules.advance(call.time);
    case "retract":
      return rules.retract(call.id);
  }
}

/** A fault without a column lies at the name that it is about, or at the start of the line. */
function columnOf({ attribute }: BeTreeError, text: string): number {
  const place = attribute === null ? -1 : text.indexOf(JSON.stringify(attribute));
  return [...text.slice(0, Math.max(0, place))].length + 1;
}

reply({ kind: "ready" });
