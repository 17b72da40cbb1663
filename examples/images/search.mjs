// Searches an image: node search.mjs index.wasm < events
// Reads one JSON object a line, and prints the ids of its matches, or why it was refused.
import { readFileSync } from "node:fs";

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const index = instance.exports;
const outbox = index.be_tree_outbox() >>> 0;
const text = (bytes) => new TextDecoder().decode(bytes);

const search = (json) => {
  const event = new TextEncoder().encode(json);
  const inbox = index.be_tree_inbox(event.length) >>> 0;
  if (inbox === 0) throw new Error("refused: out_of_memory");
  new Uint8Array(index.memory.buffer, inbox, event.length).set(event);
  const status = index.be_tree_search(1, event.length, -1, 0);
  // If the memory has grown, it has a new buffer.
  const [address, length] = new Uint32Array(index.memory.buffer, outbox, 2);
  const result = index.memory.buffer.slice(address, address + length);
  if (status !== 0) throw refusal(new Uint8Array(result));
  // The first two numbers count visited entries and evaluated expressions.
  return [...new BigUint64Array(result)].slice(2);
};

// The term of an error begins with its kind.
const refusal = (term) => new Error(`refused: ${text(term.subarray(5, 5 + term[4]))}`);

for (const event of readFileSync(0, "utf8").split("\n")) {
  if (event === "") continue;
  try {
    console.log(`[${search(event)}]`);
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) throw error;
    console.log(error.message);
  }
}
