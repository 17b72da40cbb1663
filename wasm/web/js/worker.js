// The entry of workers in browsers and bundlers, which find the file of the worker by this expression.

import { workerOf } from "./worker_client.js";

export { BeTreeError } from "./error.js";

export const BeTreeWorker = workerOf((onMessage, onFailure) => {
  const worker = new Worker(new URL("./worker_page.js", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }) => onMessage(data);
  worker.onerror = onFailure;
  worker.onmessageerror = onFailure;
  return { post: (message) => worker.postMessage(message), end: () => worker.terminate() };
});
