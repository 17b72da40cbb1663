// The page of rules: two editors, the notices of each call, and the facts that are left.
import { json } from "@codemirror/lang-json";
import type { Notice, StoredFact } from "be-tree/rules";

import { element, find, plural } from "./dom";
import { Editor } from "./editor";
import { afterPause, endPause, isPausing } from "./pause";
import type { Fault } from "./protocol";
import { RULE_EXAMPLES, type RuleTexts } from "./rules_examples";
import { completeRules, completeScript, rulesLanguage } from "./rules_language";
import type { Left, Ran, Reply, Request, Told } from "./rules_protocol";
import { decode, encode, LinkError } from "./state";

const page = {
  examples: find("examples", HTMLElement),
  share: find("share", HTMLButtonElement),
  status: find("status", HTMLElement),
  result: find("result", HTMLElement),
  stop: find("stop", HTMLButtonElement),
  headline: find("headline", HTMLElement),
  detail: find("detail", HTMLElement),
  notices: find("notices", HTMLElement),
  counts: find("counts", HTMLElement),
  facts: find("facts", HTMLElement),
};

let run = 0;

// --- The worker

let worker = startWorker();

/** Starts a worker. It takes requests when it is ready. */
function startWorker() {
  const worker = new Worker(new URL("rules_worker.js", import.meta.url), { type: "module" });
  const isReady = new Promise<void>((ready) => worker.addEventListener("message", () => ready(), { once: true }));
  worker.onerror = ({ message }) => tell(`The rules stopped (${message}). Reload the page.`, true);
  worker.onmessage = ({ data }: MessageEvent<Reply>) => {
    if (data.kind === "ran" && data.run === run) show(data);
  };
  return {
    ask: (request: Request) => void isReady.then(() => worker.postMessage(request)),
    end() {
      worker.onmessage = null;
      worker.terminate();
    },
  };
}

/** Nothing but the end of its worker ends a long join. */
page.stop.onclick = () => {
  endPause();
  worker.end();
  worker = startWorker();
  showNothing("Stopped");
  tell("The rules were stopped. Change a text to run them again.");
  endBusy();
};

// --- Editors

function later() {
  setBusy(true);
  afterPause(start);
}

const rulesEditor = new Editor({
  parent: find("rules", HTMLElement),
  label: "Rules",
  language: rulesLanguage,
  complete: completeRules,
  isNumbered: true,
  onChange: later,
});

const scriptEditor = new Editor({
  parent: find("script", HTMLElement),
  label: "Calls, one a line, as JSON",
  language: json(),
  complete: completeScript(() => rulesEditor.text),
  isNumbered: true,
  onChange: later,
});

const texts = (): RuleTexts => ({ rules: rulesEditor.text, script: scriptEditor.text });

function setBusy(isBusy: boolean) {
  page.result.setAttribute("aria-busy", `${isBusy}`);
  page.stop.disabled = !isBusy;
}

/** A reply about older texts ends nothing while a changed text waits. */
const endBusy = () => setBusy(isPausing());

function start() {
  setBusy(true);
  run += 1;
  worker.ask({ run, ...texts() });
  void remember();
}

// --- The result

function show({ rulesFault, faults, result }: Ran) {
  endBusy();
  rulesEditor.showFaults(rulesFault ? [rulesFault] : []);
  scriptEditor.showFaults(faults);
  tellFaults(rulesFault, faults, result?.warnings ?? []);
  if (!result) return showNothing("The rules have a fault");
  const { told, left, info, milliseconds } = result;
  const count = told.reduce((sum, { notices }) => sum + notices.length, 0);
  scriptEditor.showMatches(told.map(({ line }) => line));
  page.headline.textContent = plural(count, "notice");
  page.detail.textContent = `${plural(Number(info.firings), "firing")} in ${milliseconds < 1 ? "less than 1" : Math.round(milliseconds)} ms`;
  page.notices.replaceChildren(...told.flatMap(noticeItems));
  if (count === 0) page.notices.append(element("li", { className: "note" }, "No rule notifies."));
  page.counts.textContent = info.now === null ? "" : `time ${info.now.toLocaleString("en")} ms`;
  page.facts.replaceChildren(...left.map(factGroup));
}

const noticeItems = ({ line, notices }: Told) => notices.map((notice) => noticeItem(line, notice));

function noticeItem(line: number, { rule, name, values }: Notice) {
  const title = name === null ? `${rule} failed` : name;
  return element(
    "li",
    {},
    element("span", { className: "id", title: `the call in line ${line}` }, `${line}`),
    element("code", {}, element("strong", {}, title), ` ${fieldsText(values)}`),
  );
}

function factGroup({ type, count, facts }: Left) {
  const items = facts.map((fact) => factItem(fact));
  if (count > facts.length)
    items.push(element("li", { className: "note" }, `and ${(count - facts.length).toLocaleString("en")} older ones`));
  return element(
    "section",
    {},
    element("h3", {}, `${type} `, element("span", { className: "note" }, plural(count, "fact"))),
    element("ul", {}, ...items),
  );
}

function factItem({ id, at, fields }: StoredFact) {
  return element(
    "li",
    {},
    element("span", { className: "id", title: "the number of the fact" }, `${id}`),
    element(
      "code",
      {},
      fieldsText(fields),
      " ",
      element("span", { className: "note" }, `at ${at.toLocaleString("en")}`),
    ),
  );
}

const fieldsText = (fields: Notice["values"]) =>
  Object.entries(fields)
    .map(([name, value]) => `${name}: ${typeof value === "bigint" ? value : JSON.stringify(value)}`)
    .join(", ");

function showNothing(headline: string) {
  scriptEditor.showMatches([]);
  page.headline.textContent = headline;
  page.detail.textContent = "";
  page.counts.textContent = "";
  page.notices.replaceChildren();
  page.facts.replaceChildren();
}

/** A text that stays while there is no fault, until other texts are shown. */
let notice = "";

function tellFaults(rulesFault: Fault | null, faults: readonly Fault[], warnings: readonly string[]) {
  const [first] = rulesFault ? [rulesFault] : faults;
  if (first) {
    const { line, column, reason } = first;
    return tell(`In the ${rulesFault ? "rules" : "calls"}, line ${line}, column ${column}: ${reason}`, true);
  }
  if (notice !== "") return tell(notice, true);
  tell(warnings.length > 0 ? `Warning: ${warnings.join("; ")}` : "");
}

function tell(text: string, isFault = false) {
  page.status.textContent = text;
  page.status.classList.toggle("fault", isFault);
}

// --- Examples and the link

/** The name of the example on the page, `null` for the texts of a link. */
let example: string | null = null;
/** The texts of each example as the user left them. */
const drafts = new Map<string, RuleTexts>();
/** Counts what is to be written or read. The last one counts. */
let turn = 0;
/** The fragment that this page wrote last. */
let written = "";

function showTexts(name: string | null, { rules, script }: RuleTexts) {
  endPause();
  example = name;
  notice = "";
  for (const button of page.examples.querySelectorAll("button"))
    button.setAttribute("aria-pressed", `${button.dataset.name === name}`);
  rulesEditor.set(rules);
  scriptEditor.set(script);
  start();
}

const ownTexts = (name: string) => RULE_EXAMPLES.find((each) => each.name === name) ?? RULE_EXAMPLES[0]!;

/** Shows the texts of an example as the user left them, or as they are if the example is there already. */
async function chooseExample(name: string) {
  const isThere = name === example;
  if (example !== null) drafts.set(example, texts());
  await remember();
  history.pushState(name, "");
  showTexts(name, (isThere ? undefined : drafts.get(name)) ?? ownTexts(name));
}

for (const button of page.examples.querySelectorAll("button"))
  button.onclick = () => void chooseExample(button.dataset.name!);

/** Writes the texts to the address. */
async function remember() {
  const own = ++turn;
  const fragment = await encode({ kind: "rules", ...texts() });
  if (fragment === written || own !== turn) return;
  written = fragment;
  history.replaceState(example, "", fragment);
}

page.share.onclick = async () => {
  await remember();
  try {
    await navigator.clipboard.writeText(location.href);
    tell("The link is copied. It reproduces what you see.");
  } catch {
    tell("The address of this page is the link. It reproduces what you see.");
  }
};

function readTexts({ kind, rules, script }: Record<string, unknown>): RuleTexts | null {
  return kind === "rules" && typeof rules === "string" && typeof script === "string" ? { rules, script } : null;
}

async function restore() {
  const own = ++turn;
  const name = history.state as string | null;
  written = location.hash;
  try {
    const given = await decode(location.hash, readTexts);
    if (own !== turn) return;
    const first = name ?? RULE_EXAMPLES[0]!.name;
    return given ? showTexts(name, given) : showTexts(first, ownTexts(first));
  } catch (error) {
    if (!(error instanceof LinkError)) throw error;
    showTexts(RULE_EXAMPLES[0]!.name, RULE_EXAMPLES[0]!);
    notice = `${error.message} This is an example instead.`;
    tell(notice, true);
  }
}

// Back and Forward, and a link that is followed in this page.
addEventListener("popstate", () => void restore());

void restore();
