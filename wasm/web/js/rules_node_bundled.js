// The entry of rules for bundlers for Node, and for Deno, as node_bundled.js.

import { Buffer } from "node:buffer";
import { inflateRawSync } from "node:zlib";

import { deflated } from "./rules_embedded.js";
import { loadSync } from "./rules_module.js";

export { BeTreeError } from "./error.js";
export { Rules } from "./rules_library.js";

loadSync(inflateRawSync(Buffer.from(deflated, "base64")));

export async function init() {}
