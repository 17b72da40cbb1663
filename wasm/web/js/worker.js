// The entry of workers in browsers and bundlers. The worker's script is a text of the package, since some bundlers lose files: esbuild,
// and Vite for development. Where a Content-Security-Policy forbids such scripts, the worker is a file, which Vite, webpack and pages
// without a bundler find by `new URL`.

import { deflated } from "./embedded.js";
import { inflate } from "./inflate.js";
import { compiled } from "./init.js";
import { workerOf } from "./worker_client.js";
import { source } from "./worker_source.js";

export { BeTreeError } from "./error.js";

const SCRIPT = `${source}
const answer = answering((message) => postMessage(message));
addEventListener("message", ({ data }) => answer(data));`;

/** A browser does not tell why a worker does not begin. */
const MISSING =
  "worker_page.js cannot be loaded; serve it, or permit its script with worker-src blob: of the page's Content-Security-Policy";

// The compiled module and the address of the script, which all workers share. `null` before the first worker.
let shared = null;
// Whether workers are files.
let isFile = false;

async function share() {
  const module = await compiled("be_tree_web_bg.wasm", inflate(deflated));
  return { module, address: URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" })) };
}

export const BeTreeWorker = workerOf((onMessage, onFailure) => {
  let worker = null;
  let isEnded = false;
  // The messages up to the first answer, or `null`. The file gets them if the text cannot run.
  let unanswered = [];

  function use(next, onError) {
    worker = next;
    worker.onmessage = ({ data }) => {
      unanswered = null;
      onMessage(data);
    };
    worker.onerror = worker.onmessageerror = (event) => (unanswered === null ? onFailure(event) : onError(event));
    unanswered.forEach((message) => worker.postMessage(message));
  }

  async function useText() {
    const { module, address } = await (shared ??= share());
    if (isEnded) return;
    const next = new Worker(address);
    next.postMessage(module);
    use(next, useFile);
  }

  function useFile() {
    isFile = true;
    worker?.terminate();
    if (isEnded) return;
    try {
      use(new Worker(new URL("./worker_page.js", import.meta.url), { type: "module" }), () => onFailure(MISSING));
    } catch {
      onFailure(MISSING);
    }
  }

  function post(message) {
    unanswered?.push(message);
    worker?.postMessage(message);
  }

  function end() {
    isEnded = true;
    worker?.terminate();
  }

  // Later, because a failure is reported to a worker that has begun.
  Promise.resolve()
    .then(isFile ? useFile : useText)
    .catch(useFile);
  return { post, end };
});
