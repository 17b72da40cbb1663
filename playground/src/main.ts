// The page: three editors, the result of a search, and the search's path through the tree.
import { json } from "@codemirror/lang-json";
import type { Id, Schema, Trace } from "be-tree";

import { element, find, plural } from "./dom";
import { Editor } from "./editor";
import { EXAMPLES, type Texts } from "./examples";
import { explanationList } from "./explanation";
import { completeEvent, completeExpression, completeSchema, expressionLanguage } from "./expressions";
import { afterPause, endPause, isPausing } from "./pause";
import { Picture, readDrawing, readTrace } from "./picture";
import type { Built, Fault, Found, Reply, Request, Source } from "./protocol";
import { decode, encode, LinkError, readState, type State } from "./state";

/** The time between two steps when they are played. */
const BEAT = 450;

const GENERATED = { kind: "generated", count: 100_000, seed: 1 } as const;

const page = {
  examples: find("examples", HTMLElement),
  file: find("file", HTMLInputElement),
  share: find("share", HTMLButtonElement),
  status: find("status", HTMLElement),
  counts: find("counts", HTMLElement),
  result: find("result", HTMLElement),
  stop: find("stop", HTMLButtonElement),
  headline: find("headline", HTMLElement),
  detail: find("detail", HTMLElement),
  matches: find("matches", HTMLElement),
  explained: find("explained", HTMLInputElement),
  verdict: find("verdict", HTMLElement),
  explanation: find("explanation", HTMLElement),
  path: find("path", HTMLElement),
  step: find("step", HTMLInputElement),
  previous: find("previous", HTMLButtonElement),
  next: find("next", HTMLButtonElement),
  play: find("play", HTMLButtonElement),
  stepText: find("step-text", HTMLElement),
  totals: find("totals", HTMLElement),
  picture: find("picture", HTMLElement),
  drop: find("drop", HTMLElement),
};

let source: Source = { kind: "text", schema: "{}", expressions: "" };
let build = 0;
let search = 0;
let schema: Schema = {};
/** The expression that the user chose to have explained. Without one it is the first match. */
let chosen: Id | null = null;
let drawing: string | null = null;
let trace: Trace | null = null;
let picture: Picture | null = null;
/** The steps that are lit. `null` is all, whatever the next search has. */
let step: number | null = null;
let faults = { schema: [] as Fault[], expressions: [] as Fault[], event: [] as Fault[] };

// --- The worker

let worker = startWorker();
/** Whether the worker has the index of the source, or is about to build it. */
let hasIndex = false;

/** Starts a worker. It takes requests when it is ready. */
function startWorker() {
  const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  const isReady = new Promise<void>((ready) => worker.addEventListener("message", () => ready(), { once: true }));
  worker.onerror = ({ message }) => tell(`The index stopped (${message}). Reload the page.`, true);
  worker.onmessage = ({ data }: MessageEvent<Reply>) => receive(data);
  return {
    ask: (request: Request) => void isReady.then(() => worker.postMessage(request)),
    end() {
      worker.onmessage = null;
      worker.terminate();
    },
  };
}

/** Ends what the worker does. Nothing else ends a search: the next one builds the index again, in a new worker. */
function stopWork() {
  endPause();
  worker.end();
  worker = startWorker();
  hasIndex = false;
  showNothing("Stopped");
  tell("The search was stopped. Change the event or another text to search again.");
  endBusy();
}

page.stop.onclick = stopWork;

function receive(reply: Reply) {
  if (reply.build !== build) return;
  switch (reply.kind) {
    case "progress":
      if (build > 0) tell(`Inserting: ${reply.done.toLocaleString("en")} of ${plural(reply.count, "expression")}`);
      return;
    case "refused":
      endBusy();
      showNothing("No index");
      return tell(`${source.kind === "image" ? source.file.name : "The image"} was not read: ${reply.reason}`, true);
    case "built":
      return showBuilt(reply);
    case "found":
      return reply.search === search ? showFound(reply) : undefined;
  }
}

// --- Editors

const later = (run: () => void) => {
  setBusy(true);
  afterPause(run);
};

const schemaEditor = new Editor({
  parent: find("schema", HTMLElement),
  label: "Schema, as JSON",
  language: json(),
  complete: completeSchema,
  onChange: () => later(rebuildText),
});

const expressionsEditor = new Editor({
  parent: find("expressions", HTMLElement),
  label: "Expressions, one a line",
  language: expressionLanguage,
  complete: completeExpression(() => schema),
  isNumbered: true,
  onChange: () => later(rebuildText),
  onLine: (line) => select(line),
});

const eventEditor = new Editor({
  parent: find("event", HTMLElement),
  label: "Event, as JSON",
  language: json(),
  complete: completeEvent(() => schema),
  // A build that waits comes with its own search.
  onChange: () => later(rebuildIfText),
});

function rebuildIfText() {
  if (source.kind !== "text" || isOutdated()) rebuildText();
  else startSearch();
}

function isOutdated() {
  return (
    source.kind === "text" && (source.schema !== schemaEditor.text || source.expressions !== expressionsEditor.text)
  );
}

function rebuildText() {
  if (source.kind === "text")
    startBuild({ kind: "text", schema: schemaEditor.text, expressions: expressionsEditor.text });
  else startSearch();
}

// --- Builds and searches

/** Tells whether the result is that of the texts as they are. */
function setBusy(isBusy: boolean) {
  page.result.setAttribute("aria-busy", `${isBusy}`);
  page.stop.disabled = !isBusy;
}

/** A reply about older texts ends nothing while a changed text waits. */
const endBusy = () => setBusy(isPausing());

function startBuild(next: Source) {
  setBusy(true);
  source = next;
  build += 1;
  hasIndex = true;
  worker.ask({ kind: "build", build, source });
  if (next.kind === "text") startSearch();
}

function startSearch() {
  if (!hasIndex) {
    // The texts of other sources come with the index, and the search after it.
    start = { event: eventEditor.text };
    return startBuild(source);
  }
  setBusy(true);
  search += 1;
  worker.ask({ kind: "search", build, search, event: eventEditor.text, selected: chosen });
  void remember();
}

function select(id: Id) {
  chosen = id;
  startSearch();
}

/** What a built index is given to search besides the texts. */
let start: { event: string | null } = { event: null };

function showBuilt(built: Built) {
  schema = built.schema ?? {};
  drawing = built.drawing;
  faults = { ...faults, schema: built.schemaFault ? [built.schemaFault] : [], expressions: built.faults };
  // Without a schema an event is not read.
  if (built.schemaFault) faults.event = [];
  if (built.sample) {
    schemaEditor.set(built.sample.schema, true);
    expressionsEditor.set(built.sample.expressions || "# The texts of an image's expressions are not known.", true);
    eventEditor.set(start.event ?? built.sample.event);
    hasTexts = true;
    startSearch();
  }
  schemaEditor.showFaults(faults.schema);
  eventEditor.showFaults(faults.event);
  expressionsEditor.showFaults(faults.expressions);
  showCounts(built);
  tellFaults();
  if (!built.schemaFault) return;
  showNothing("The schema has a fault");
  endBusy();
}

function showCounts({ info, milliseconds }: Built) {
  if (!info) return void (page.counts.textContent = "");
  const { expressions, nodes, entries } = info;
  const counts = [plural(expressions, "expression"), plural(nodes, "node"), plural(entries, "entry", "entries")];
  page.counts.textContent = `${counts.join(" · ")} · built in ${duration(milliseconds)}`;
}

function showFound({ fault, result }: Found) {
  endBusy();
  faults.event = fault ? [fault] : [];
  eventEditor.showFaults(faults.event);
  tellFaults();
  if (!result) return showNothing("The event has a fault");
  const { count, ids, texts, milliseconds, selected, explanation } = result;
  trace = result.trace;
  expressionsEditor.showMatches(source.kind === "image" ? [] : ids.map(Number));
  page.headline.textContent = `${count.toLocaleString("en")} ${count === 1 ? "expression matches" : "expressions match"}`;
  page.detail.textContent = `found in ${duration(milliseconds)}`;
  page.matches.replaceChildren(...ids.map((id, place) => matchItem(id, texts[place] ?? null, id === selected)));
  if (count > ids.length) {
    page.matches.append(element("li", { className: "note" }, `and ${(count - ids.length).toLocaleString("en")} more`));
  }
  if (ids.length === 0)
    page.matches.append(element("li", { className: "note" }, "No expression is true of this event."));
  if (document.activeElement !== page.explained) page.explained.value = selected === null ? "" : `${selected}`;
  if (explanation) {
    page.verdict.textContent = explanation.match ? "matches, because" : "does not match, because";
    page.explanation.replaceChildren(explanationList(explanation.root));
  } else {
    page.verdict.textContent = "";
    page.explanation.replaceChildren(
      element("p", { className: "note" }, "Choose an expression: it is explained part by part."),
    );
  }
  showPath();
}

function matchItem(id: Id, text: string | null, isSelected: boolean) {
  const label = element("code", {}, text ?? "an expression of the image");
  const number = element("span", { className: "id" }, `${id}`);
  const button = element(
    "button",
    { type: "button", "aria-pressed": isSelected, onclick: () => select(id) },
    number,
    label,
  );
  return element("li", {}, button);
}

function showNothing(headline: string) {
  trace = null;
  picture = null;
  expressionsEditor.showMatches([]);
  page.headline.textContent = headline;
  page.detail.textContent = "";
  page.verdict.textContent = "";
  page.explained.value = chosen === null ? "" : `${chosen}`;
  page.matches.replaceChildren();
  page.explanation.replaceChildren();
  page.picture.replaceChildren();
  page.path.hidden = true;
}

/** A text that stays while there is no fault, until another index is begun. */
let notice = "";

function tellFaults() {
  const named = [
    ...faults.schema.map((fault) => ["schema", fault] as const),
    ...faults.event.map((fault) => ["event", fault] as const),
    ...faults.expressions.map((fault) => ["expressions", fault] as const),
  ];
  const [first] = named;
  if (!first) return tell(notice, notice !== "");
  const [where, { line, column, reason }] = first;
  const more = named.length > 1 ? ` (and ${plural(named.length - 1, "more fault")})` : "";
  tell(`In the ${where}, line ${line}, column ${column}: ${reason}${more}`, true);
}

function tell(text: string, isFault = false) {
  page.status.textContent = text;
  page.status.classList.toggle("fault", isFault);
}

function duration(milliseconds: number): string {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  if (milliseconds >= 1) return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
  return `${(milliseconds * 1000).toFixed(milliseconds < 0.01 ? 1 : 0)} µs`;
}

// --- The search's path

function showPath() {
  const path = !drawing && trace ? readTrace(trace) : null;
  const cards = drawing ? readDrawing(drawing) : (path?.cards ?? null);
  const note = path
    ? `Of a tree this large only the search's path is shown.${path.hidden > 0 ? ` ${plural(path.hidden, "step")} beyond these nodes.` : ""}`
    : "";
  page.path.hidden = trace === null;
  if (cards) picture = new Picture(page.picture, cards, note);
  else page.picture.replaceChildren(element("p", { className: "note" }, "This tree is too large for a picture."));
  if (!trace)
    page.picture.append(element("p", { className: "note" }, "The module of an image does not tell a search's path."));
  if (step !== null && trace && step > trace.steps.length) step = null;
  showStep();
}

function showStep() {
  if (!trace) return;
  const { steps } = trace;
  const lit = step ?? steps.length;
  const seen = steps.slice(0, lit);
  picture?.light(seen, step !== null);
  page.step.max = `${steps.length}`;
  page.step.value = `${lit}`;
  page.step.setAttribute("aria-valuetext", `step ${lit} of ${steps.length}`);
  page.previous.disabled = lit === 0;
  page.next.disabled = lit === steps.length;
  page.stepText.textContent = stepText(steps, lit);
  const sum = (count: "visited" | "passed" | "evaluated" | "matches") =>
    seen.reduce((total, each) => total + each[count], 0);
  const totals = [
    ["Nodes visited", lit],
    ["Entries scanned", sum("visited")],
    ["Candidates", sum("passed")],
    ["Programs run", sum("evaluated")],
    ["Matches", sum("matches")],
  ] as const;
  page.totals.replaceChildren(
    ...totals.map(([name, count]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, count.toLocaleString("en"))),
    ),
  );
}

function stepText(steps: Trace["steps"], lit: number): string {
  const last = steps[lit - 1];
  if (!last) return `Before the first of ${plural(steps.length, "step")}`;
  const { node, edge, visited, passed, evaluated, matched, matches } = last;
  const place = edge ? `${edge.attribute}: ${edge.label}` : node === null ? "what every search visits" : "the root";
  const found =
    matches === 0
      ? "no match"
      : `${plural(matches, "match", "matches")} (${matched.slice(0, 8).join(", ")}${matches > 8 ? ", ..." : ""})`;
  const work =
    visited === 0
      ? "no entries"
      : `${plural(visited, "entry", "entries")}, ${plural(passed, "candidate")}, ${plural(evaluated, "program")} run, ${found}`;
  return `Step ${lit} of ${steps.length}, ${place}: ${work}`;
}

function go(to: number) {
  if (!trace) return;
  const count = trace.steps.length;
  const wanted = Math.min(Math.max(to, 0), count);
  step = wanted === count && !playing ? null : wanted;
  showStep();
  if (step === null) picture?.light(trace.steps, true);
  void remember();
}

let playing: ReturnType<typeof setInterval> | undefined;

function stop() {
  clearInterval(playing);
  playing = undefined;
  page.play.textContent = "Play";
}

function play() {
  if (playing) return stop();
  let at = 0;
  playing = setInterval(() => {
    at += 1;
    go(at);
    if (!trace || at >= trace.steps.length) {
      stop();
      step = null;
    }
  }, BEAT);
  page.play.textContent = "Stop";
  go(0);
}

page.step.oninput = () => (stop(), go(Number(page.step.value)));
page.previous.onclick = () => (stop(), go(Number(page.step.value) - 1));
page.next.onclick = () => (stop(), go(Number(page.step.value) + 1));
page.play.onclick = play;

// --- Sources: examples, generated expressions, images, links

function showTexts({ schema, expressions, event }: Texts) {
  schemaEditor.set(schema);
  expressionsEditor.set(expressions);
  eventEditor.set(event);
  hasTexts = true;
  startBuild({ kind: "text", schema, expressions });
}

/** The name of the example on the page, `null` for other texts. */
let example: string | null = null;
/** Whether the editors have the texts of the source. Those of a generator and of an image come with the index. */
let hasTexts = false;
/** The texts of each example as the user left them. */
const drafts = new Map<string, Texts>();
/** The images that were opened: the history of the browser has their places in this list. */
const images: File[] = [];

/** What the history of the browser keeps of a page, besides the texts, which are in its address. */
interface Visit {
  example: string | null;
  image: number | null;
}

const texts = (): Texts => ({
  schema: schemaEditor.text,
  expressions: expressionsEditor.text,
  event: eventEditor.text,
});

/** Keeps the texts of the page, for its example and for the Back button, before those of `next` replace them. */
async function leave(next: Visit) {
  endPause();
  if (example !== null && hasTexts) drafts.set(example, texts());
  await remember();
  history.pushState(next, "");
}

function begin(name: string | null) {
  example = name;
  hasTexts = false;
  notice = "";
  stop();
  step = null;
  chosen = null;
  start = { event: null };
  faults = { schema: [], expressions: [], event: [] };
  for (const button of page.examples.querySelectorAll("button")) {
    const isShown = button.dataset.name === name;
    button.setAttribute("aria-pressed", `${isShown}`);
    button.title = isShown ? "Press again for the example's own texts" : "";
  }
}

/** Shows the texts of an example as the user left them, or as they are if the example is there already. */
async function chooseExample(name: string) {
  const isThere = name === example;
  await leave({ example: name, image: null });
  showExample(name, isThere ? undefined : drafts.get(name));
}

function showExample(name: string, draft?: Texts) {
  begin(name);
  const given = EXAMPLES.find((each) => each.name === name);
  if (given) return showTexts(draft ?? given);
  if (draft) start = { event: draft.event };
  showGenerated(GENERATED);
}

function showGenerated(generated: Source & { kind: "generated" }) {
  showNothing("Building");
  expressionsEditor.set("# The worker generates and inserts.", true);
  startBuild({ ...generated });
}

for (const button of page.examples.querySelectorAll("button"))
  button.onclick = () => chooseExample(button.dataset.name!);

async function openImage(file: File) {
  await leave({ example: null, image: images.push(file) - 1 });
  showImage(file);
}

function showImage(file: File) {
  begin(null);
  showNothing(`Reading ${file.name}`);
  startBuild({ kind: "image", file });
}

page.file.onchange = () => {
  const [file] = page.file.files ?? [];
  if (file) void openImage(file);
  page.file.value = "";
};

find("open", HTMLButtonElement).onclick = () => page.file.click();

const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;

addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  page.drop.hidden = false;
});
addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) page.drop.hidden = true;
});
addEventListener("drop", (event) => {
  page.drop.hidden = true;
  const [file] = event.dataTransfer?.files ?? [];
  if (!file) return;
  event.preventDefault();
  void openImage(file);
});

page.explained.onchange = () => {
  const given = page.explained.value.trim();
  if (!/^\d+$/.test(given)) return;
  select(Number.isSafeInteger(Number(given)) ? Number(given) : BigInt(given));
};

// --- The link

/** The fragment that this page wrote last. */
let written = "";
/** Counts what is to be written or read. The last one counts. */
let turn = 0;

function state(): State | null {
  const common = { step, selected: chosen };
  switch (source.kind) {
    case "text":
      return { ...common, kind: "text", ...texts() };
    case "generated":
      return { ...common, ...source, event: hasTexts ? eventEditor.text : start.event };
    case "image":
      return null;
  }
}

/** Writes the state to the address. An image does not fit into one. */
async function remember(): Promise<void> {
  const own = ++turn;
  const given = state();
  const fragment = given ? await encode(given) : "#";
  if (fragment === written || own !== turn) return;
  written = fragment;
  const visit: Visit = { example, image: source.kind === "image" ? images.indexOf(source.file) : null };
  history.replaceState(visit, "", fragment);
}

page.share.onclick = async () => {
  if (source.kind === "image") return tell("A link cannot hold an image. Share the file instead.", true);
  await remember();
  try {
    await navigator.clipboard.writeText(location.href);
    tell("The link is copied. It reproduces what you see.");
  } catch {
    tell("The address of this page is the link. It reproduces what you see.");
  }
};

async function restore() {
  const own = ++turn;
  const visit = history.state as Visit | null;
  written = location.hash;
  const image = images[visit?.image ?? -1];
  if (image) return showImage(image);
  try {
    const given = await decode(location.hash, readState);
    if (own !== turn) return;
    if (!given) return showExample(visit?.example ?? EXAMPLES[0]!.name);
    begin(visit?.example ?? null);
    ({ step, selected: chosen } = given);
    if (given.kind === "text") return showTexts(given);
    start = { event: given.event };
    showGenerated(given);
  } catch (error) {
    if (!(error instanceof LinkError)) throw error;
    showExample(EXAMPLES[0]!.name);
    notice = `${error.message} This is an example instead.`;
    tell(notice, true);
  }
}

// Back and Forward, and a link that is followed in this page.
addEventListener("popstate", () => void restore());

void restore();
