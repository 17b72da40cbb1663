// Workers that are threads of Node, Bun and Deno.

import { workerOf } from "./worker_client.js";

/** Returns the class whose workers are the threads that `start` returns. An idle one does not hold the process. */
export const ofThread = (start) =>
  workerOf((onMessage, onFailure) => {
    const worker = start();
    let isEnded = false;
    worker.on("message", (answer) => {
      worker.unref();
      onMessage(answer);
    });
    worker.on("error", onFailure);
    worker.on("exit", (code) => isEnded || onFailure(new Error(`it ended with code ${code}`)));

    function post(message) {
      worker.ref();
      worker.postMessage(message);
    }

    function end() {
      isEnded = true;
      worker.terminate();
    }

    return { post, end };
  });
