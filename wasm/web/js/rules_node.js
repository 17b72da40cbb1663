// The entry of rules for `import` in Node and Bun. It shares one module with `require`, as node.js does.

import library from "./rules_node.cjs";

export const { Rules, BeTreeError, init } = library;
