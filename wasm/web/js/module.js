// The WebAssembly module of the index. Each entry of the package loads it in its own way, once.

import { default as initialize, initSync } from "./be_tree_web.js";
import { setModule } from "./bounds.js";
import { notLoaded } from "./error.js";

let isLoaded = false;

/** Loads a compiled module or its bytes at once. */
export function loadSync(module) {
  setModule(initSync({ module }));
  isLoaded = true;
}

/** Loads a compiled module. Browsers instantiate a large one only asynchronously. */
export async function load(module) {
  setModule(await initialize({ module_or_path: module }));
  isLoaded = true;
}

/** Throws if no module is loaded. */
export function checkLoaded() {
  if (!isLoaded) throw notLoaded("the WebAssembly module is not loaded; await init() before the first index");
}
