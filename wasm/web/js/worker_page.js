// A worker of a page.

import { BeTree, init } from "./index.js";
import { serve } from "./worker_serve.js";

const answer = serve({ BeTree, init }, (message) => postMessage(message));
addEventListener("message", ({ data }) => answer(data));
