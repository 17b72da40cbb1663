// The entry of `import` for workers in Node and Bun.

import library from "./worker_node.cjs";

export const { BeTreeError, BeTreeWorker } = library;
