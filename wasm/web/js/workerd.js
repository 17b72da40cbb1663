// The entry of Cloudflare Workers, which compile modules at deployment only.

import module from "./be_tree_web_bg.wasm";
import { loadSync } from "./module.js";

export { BeTree } from "./library.js";
export { BeTreeError } from "./error.js";

loadSync(module);

export async function init() {}
