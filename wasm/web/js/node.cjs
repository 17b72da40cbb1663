// The entry of Node and Bun, for `require` and, through node.js, for `import`.
"use strict";

const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { BeTreeError } = require("./error.cjs");
const { BeTree } = require("./library.cjs");
const { loadSync } = require("./module.cjs");

loadSync(readFileSync(join(__dirname, "be_tree_web_bg.wasm")));

async function init() {}

module.exports = { BeTree, BeTreeError, init };
