// The entry of bundlers for Node, and of Deno: a bundle has no file beside it, and Deno asks for the right to read one.

import { Buffer } from "node:buffer";
import { inflateRawSync } from "node:zlib";

import { deflated } from "./embedded.js";
import { loadSync } from "./module.js";

export { BeTree } from "./library.js";
export { BeTreeError } from "./error.js";

loadSync(inflateRawSync(Buffer.from(deflated, "base64")));

export async function init() {}
