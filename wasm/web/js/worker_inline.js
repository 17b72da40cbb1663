// The script of workers whose entry cannot name a file. The build writes it, with all that it imports, as the text of worker_source.js.

import { BeTree } from "./library.js";
import { load } from "./module.js";
import { serve } from "./worker_serve.js";

/** Answers messages. The first one is the compiled module: the worker needs no file and no base64 of its own. */
export function answering(post) {
  let answer = null;
  return (message) => {
    if (answer === null) answer = serve({ BeTree, init: () => load(message) }, post);
    else answer(message);
  };
}
