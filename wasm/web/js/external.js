// The entry of browsers with the module in a file of its own, which is compiled while it arrives.

import { initOf } from "./init.js";
import { load } from "./module.js";

export { BeTree } from "./library.js";
export { BeTreeError } from "./error.js";

export const init = initOf("be_tree_web_bg.wasm", load, () => new URL("./be_tree_web_bg.wasm", import.meta.url));
