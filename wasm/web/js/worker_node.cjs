// The entry of workers in Node and Bun, for `require` and, through worker_node.js, for `import`.
"use strict";

const { join } = require("node:path");
const { Worker } = require("node:worker_threads");
const { BeTreeError } = require("./error.cjs");
const { workerOf } = require("./worker_client.cjs");

const BeTreeWorker = workerOf((onMessage, onFailure) => {
  // An argument such as --input-type would be for another file.
  const worker = new Worker(join(__dirname, "worker_thread.js"), { execArgv: [] });
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

module.exports = { BeTreeError, BeTreeWorker };
