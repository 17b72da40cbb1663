// Measures the package for JavaScript on a workload: `node bench/web/workload.mjs FOLDER`, with the files of `mix be_tree.gen W3` or
// another workload. Prints the processor time of insertions, and of a search: the minimum of the means of some rounds over
// all events. Other work on the machine disturbs processor time less than wall-clock time.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { BeTree } from "../../_build/web/package/node.js";

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

const milliseconds = () => process.cpuUsage().user / 1000;

const tree = new BeTree(schema);
let started = milliseconds();
tree.insertAll(subscriptions);
console.log(`${subscriptions.length} expressions inserted in ${Math.round(milliseconds() - started)} ms`);

const ROUNDS = 8;
let [least, matches] = [Infinity, 0];
for (let round = 0; round < ROUNDS; round++) {
  started = milliseconds();
  matches = events.reduce((sum, event) => sum + tree.search(event).length, 0);
  least = Math.min(least, (milliseconds() - started) / events.length);
}
console.log(`${(matches / events.length).toFixed(1)} matches an event, ${(1000 * least).toFixed(1)} us an event`);
