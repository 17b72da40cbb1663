// The entry of `import` in Node and Bun. It shares one module with `require`, so that an error is of one class for both.

import library from "./node.cjs";

export const { BeTree, BeTreeError, init } = library;
