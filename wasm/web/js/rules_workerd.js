// The entry of rules for Cloudflare Workers, which compile modules at deployment only.

import module from "./be_tree_rules_web_bg.wasm";
import { loadSync } from "./rules_module.js";

export { BeTreeError } from "./error.js";
export { Rules } from "./rules_library.js";

loadSync(module);

export async function init() {}
