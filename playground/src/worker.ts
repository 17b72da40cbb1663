// The worker owns the index, so that the page answers to its user while an index is built.
import { BeTree, BeTreeError, init, type Id, type Schema } from "be-tree";

import { generate, sampleEvent, schema as generatedSchema } from "./generate";
import { placeInSchema } from "./json";
import { readLines } from "./lines";
import type { Built, Fault, Reply, Request, Source } from "./protocol";

/** The subscriptions that are inserted between two reports of progress. */
const CHUNK = 2_000;
/** The nodes of the largest tree that is drawn. */
const DRAWN = 400;
/** The matches that are listed. */
const LISTED = 200;
/** The generated expressions that are shown. */
const SHOWN = 500;
/** A search is measured in rounds of this many milliseconds, since clocks of browsers are coarse. */
const ROUND = 3;
const ROUNDS = 3;

let tree: BeTree | null = null;
let texts = new Map<Id, string>();
let isTraced = false;
let build = 0;

const reply = (message: Reply) => postMessage(message);

// Requests wait here, so that a later one replaces those that have not begun.
let waiting: Request[] = [];
let isBusy = false;

onmessage = ({ data }: MessageEvent<Request>) => {
  waiting = waiting.filter((request) => request.kind !== data.kind && data.kind !== "build");
  waiting.push(data);
  if (!isBusy) void work();
};

async function work() {
  isBusy = true;
  await init();
  for (let request = waiting.shift(); request; request = waiting.shift()) {
    if (request.kind === "build") await rebuild(request.build, request.source);
    else if (request.build === build) search(request);
    await nextTask();
  }
  isBusy = false;
}

/** Lets messages in. */
function nextTask() {
  return new Promise((done) => setTimeout(done));
}

async function rebuild(number: number, source: Source) {
  build = number;
  tree?.free();
  tree = null;
  texts = new Map();
  isTraced = source.kind !== "image";
  switch (source.kind) {
    case "text":
      return reply(buildText(source.schema, source.expressions));
    case "generated":
      return buildGenerated(source.count, source.seed);
    case "image":
      return buildImage(source.file);
  }
}

const EMPTY = { schemaFault: null, faults: [], info: null, milliseconds: 0, drawing: null, sample: null };

function buildText(schemaText: string, expressions: string): Built {
  const started = performance.now();
  const built = { ...EMPTY, kind: "built" as const, build };
  let schema: Schema;
  try {
    schema = JSON.parse(schemaText) as Schema;
    tree = new BeTree(schema);
  } catch (error) {
    return { ...built, schema: null, schemaFault: schemaFault(error as Error, schemaText) };
  }
  const faults: Fault[] = [];
  for (const { id, expression, constants } of readLines(expressions)) {
    try {
      tree.insert(id, expression, { constants });
      texts.set(id, expression.trim());
    } catch (error) {
      if (!(error instanceof BeTreeError)) throw error;
      faults.push({ line: id, column: error.column ?? 1, reason: error.reason });
    }
  }
  const milliseconds = performance.now() - started;
  return { ...built, schema: tree.schema, faults, info: tree.info(), milliseconds, drawing: drawing() };
}

/** Finds the place of a fault: a browser tells the position of one in JSON, and the package the attribute. */
function schemaFault(error: Error, text: string): Fault {
  const [reason, named] = error instanceof BeTreeError ? [error.reason, error.attribute] : [error.message, null];
  const position = /at position (\d+)/.exec(reason)?.[1];
  const place = /line (\d+) column (\d+)/.exec(reason);
  const span = named === null ? null : placeInSchema(text, named, reason);
  if (span) {
    const [line] = text.slice(span.from, span.to).split("\n");
    return { ...at(text, span.from, reason), length: [...line!].length };
  }
  if (position) return at(text, Number(position), reason);
  if (place) return { line: Number(place[1]), column: Number(place[2]), reason };
  // The text ends too early.
  return at(text, error instanceof SyntaxError ? text.length : 0, reason);
}

function at(text: string, offset: number, reason: string): Fault {
  const before = text.slice(0, offset).split("\n");
  return { line: before.length, column: [...before.at(-1)!].length + 1, reason };
}

async function buildGenerated(count: number, seed: number) {
  const started = performance.now();
  const own = new BeTree(generatedSchema);
  const number = build;
  const shown: string[] = [];
  let chunk: { id: number; expression: string }[] = [];
  for (const { id, expression } of generate(count, seed)) {
    chunk.push({ id, expression });
    texts.set(id, expression);
    if (id <= SHOWN) shown.push(expression);
    if (chunk.length < CHUNK && id < count) continue;
    own.insertAll(chunk);
    chunk = [];
    reply({ kind: "progress", build, done: id, count });
    await nextTask();
    // Another build is wanted.
    if (waiting.some(({ kind }) => kind === "build")) {
      own.free();
      return;
    }
  }
  tree = own;
  const more = count - shown.length;
  if (more > 0) shown.push(`# ... and ${more.toLocaleString("en")} more`);
  reply({
    ...EMPTY,
    kind: "built",
    build: number,
    schema: tree.schema,
    info: tree.info(),
    milliseconds: performance.now() - started,
    drawing: drawing(),
    sample: { expressions: shown.join("\n"), event: sampleEvent(seed), schema: pretty(tree.schema) },
  });
}

async function buildImage(file: File) {
  const started = performance.now();
  try {
    tree = await BeTree.load(file);
  } catch (error) {
    // A file that was changed or deleted since it was chosen cannot be read.
    if (!(error instanceof BeTreeError || error instanceof DOMException)) throw error;
    return reply({ kind: "refused", build, reason: error instanceof BeTreeError ? error.reason : error.message });
  }
  const sample = { expressions: "", event: "{}", schema: pretty(tree.schema) };
  const milliseconds = performance.now() - started;
  reply({
    ...EMPTY,
    kind: "built",
    build,
    schema: tree.schema,
    info: tree.info(),
    milliseconds,
    drawing: drawing(),
    sample,
  });
}

/** Returns a schema as text, an attribute a line. */
function pretty(schema: Schema): string {
  const lines = Object.entries(schema).map(([name, domain]) => `  ${JSON.stringify(name)}: ${JSON.stringify(domain)}`);
  return `{\n${lines.join(",\n")}\n}`;
}

function drawing(): string | null {
  return tree && tree.info().nodes <= DRAWN ? tree.draw() : null;
}

function search({ search, event, selected }: Request & { kind: "search" }) {
  if (!tree) return;
  let ids: Id[];
  try {
    ids = tree.search(event);
  } catch (error) {
    if (!(error instanceof BeTreeError)) throw error;
    const fault = eventFault(error, event);
    return reply({ kind: "found", build, search, fault, result: null });
  }
  const shown = ids.slice(0, LISTED);
  const chosen = selected !== null && has(selected) ? selected : (ids[0] ?? null);
  reply({
    kind: "found",
    build,
    search,
    fault: null,
    result: {
      count: ids.length,
      ids: shown,
      texts: shown.map((id) => texts.get(id) ?? null),
      trace: isTraced ? tree.trace(event) : null,
      milliseconds: measure(event),
      selected: chosen,
      explanation: chosen === null ? null : tree.explain(event, chosen),
    },
  });
}

function has(id: Id): boolean {
  if (texts.has(id)) return true;
  // The texts of an image are not known.
  try {
    tree!.explain("{}", id);
    return true;
  } catch (error) {
    return error instanceof BeTreeError && error.kind !== "not_found";
  }
}

/** A column of JSON counts characters of the whole text. */
function eventFault(error: BeTreeError, text: string): Fault {
  const named = error.attribute === null ? -1 : text.indexOf(JSON.stringify(error.attribute));
  const characters = [...text].slice(0, (error.column ?? 1) - 1).join("").length;
  return at(text, error.column === null ? Math.max(0, named) : characters, error.reason);
}

/** Returns the milliseconds of one search: the mean of the quickest round, which other work on the machine disturbed least. */
function measure(event: string): number {
  const rounds = Array.from({ length: ROUNDS }, () => {
    const started = performance.now();
    let runs = 0;
    let passed = 0;
    for (; passed < ROUND; runs++) {
      tree!.search(event);
      passed = performance.now() - started;
    }
    return passed / runs;
  });
  return Math.min(...rounds);
}

reply({ kind: "progress", build: 0, done: 0, count: 0 });
