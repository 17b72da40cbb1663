// The entry of workers in Node and Bun, for `require` and, through worker_node.js, for `import`.
"use strict";

const { join } = require("node:path");
const { Worker } = require("node:worker_threads");
const { BeTreeError } = require("./error.cjs");
const { ofThread } = require("./worker_of_thread.cjs");

// An argument such as --input-type would be for another file.
const BeTreeWorker = ofThread(() => new Worker(join(__dirname, "worker_thread.js"), { execArgv: [] }));

module.exports = { BeTreeError, BeTreeWorker };
