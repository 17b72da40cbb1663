// Measures the package for JavaScript on a workload: `node bench/web.mjs FOLDER`, where the folder has the files of
// `mix be_tree.gen W3` or another workload. Prints the time to insert, and the median of a search over the events.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { BeTree } from "../_build/web/package/index.js";

const folder = process.argv[2];
const lines = (name) => readFileSync(join(folder, name), "utf8").trimEnd().split("\n");

// `name|type|optional`, then min and max, or a count.
const schema = Object.fromEntries(
  lines("betree_defs").map((line) => {
    const [name, words, optional, ...bounds] = line.split("|");
    const [min, max] = bounds.map(Number);
    const bound = bounds.length === 2 ? { min, max } : bounds.length === 1 ? { count: min } : {};
    return [name, { type: words.replace(" ", "_"), optional: optional === "true", ...bound }];
  }),
);
const subscriptions = lines("betree_exprs").map((expression, place) => ({ id: place + 1, expression }));
const events = lines("betree_events");

const tree = new BeTree(schema);
let started = performance.now();
tree.insertAll(subscriptions);
console.log(`${subscriptions.length} expressions inserted in ${Math.round(performance.now() - started)} ms`);

const ROUNDS = 3;
const times = [];
let matches = 0;
for (let round = 0; round < ROUNDS; round++) {
  for (const event of events) {
    started = performance.now();
    const found = tree.search(event);
    times.push(performance.now() - started);
    matches += found.length;
  }
}
times.sort((a, b) => a - b);
const median = times[Math.floor(times.length / 2)];
console.log(`${(matches / times.length).toFixed(1)} matches an event, ${(1000 * median).toFixed(1)} us an event (median)`);
