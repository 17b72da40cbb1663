// The entry of workers in bundles for Node, and in Deno: the worker's script is a text, since a bundle has no file beside it, and Deno
// asks for the right to read one.

import { Buffer } from "node:buffer";
import { Worker } from "node:worker_threads";
import { inflateRawSync } from "node:zlib";

import { deflated } from "./embedded.js";
import { ofThread } from "./worker_of_thread.js";
import { source } from "./worker_source.js";

export { BeTreeError } from "./error.js";

const SCRIPT = `${source}
const { parentPort } = require("node:worker_threads");
parentPort.on("message", answering((message) => parentPort.postMessage(message)));`;

// The compiled module, which all workers share. `null` before the first one.
let shared = null;

export const BeTreeWorker = ofThread(() => {
  shared ??= new WebAssembly.Module(inflateRawSync(Buffer.from(deflated, "base64")));
  const worker = new Worker(SCRIPT, { eval: true, execArgv: [] });
  worker.postMessage(shared);
  return worker;
});
