// The entry of rules for browsers with the module in a file of its own, which is compiled while it arrives.

import { initOf } from "./init.js";
import { load } from "./rules_module.js";

export { BeTreeError } from "./error.js";
export { Rules } from "./rules_library.js";

export const init = initOf(
  "be_tree_rules_web_bg.wasm",
  load,
  () => new URL("./be_tree_rules_web_bg.wasm", import.meta.url),
);
