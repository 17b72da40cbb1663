// The entry of browsers and bundlers: the module is a part of the JavaScript, so that no bundler has to find a file.

import { deflated } from "./embedded.js";
import { inflate } from "./inflate.js";
import { initOf } from "./init.js";
import { load } from "./module.js";

export { BeTree } from "./library.js";
export { BeTreeError } from "./error.js";

export const init = initOf("be_tree_web_bg.wasm", load, () => inflate(deflated));
