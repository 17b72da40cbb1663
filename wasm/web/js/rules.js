// The entry of rules for browsers and bundlers: the module is a part of the JavaScript, as in index.js.

import { initOf } from "./init.js";
import { inflate } from "./inflate.js";
import { deflated } from "./rules_embedded.js";
import { load } from "./rules_module.js";

export { BeTreeError } from "./error.js";
export { Rules } from "./rules_library.js";

export const init = initOf("be_tree_rules_web_bg.wasm", load, () => inflate(deflated));
