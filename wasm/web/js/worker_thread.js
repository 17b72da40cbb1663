// A worker of Node and Bun.

import { parentPort } from "node:worker_threads";

import { BeTree, init } from "./node.js";
import { serve } from "./worker_serve.js";

parentPort.on(
  "message",
  serve({ BeTree, init }, (answer) => parentPort.postMessage(answer)),
);
