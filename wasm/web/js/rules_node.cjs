// The entry of rules for Node and Bun, for `require` and, through rules_node.js, for `import`.
"use strict";

const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { BeTreeError } = require("./error.cjs");
const { Rules } = require("./rules_library.cjs");
const { loadSync } = require("./rules_module.cjs");

loadSync(readFileSync(join(__dirname, "be_tree_rules_web_bg.wasm")));

async function init() {}

module.exports = { Rules, BeTreeError, init };
