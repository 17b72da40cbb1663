// The entry of browsers and bundlers: the module is a part of the JavaScript, so that no bundler has to find a file.

import { deflated } from "./embedded.js";
import { initOf } from "./init.js";

export { BeTree } from "./library.js";
export { BeTreeError } from "./error.js";

export const init = initOf(inflate);

async function inflate() {
  const bytes = Uint8Array.from(atob(deflated), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}
