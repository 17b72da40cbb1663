// What a page loads of each part of the package, compressed: the table of the README.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { build } = createRequire(here("../../../playground/build.mjs"))("esbuild");

const compressed = (bytes) => gzipSync(bytes, { level: 9 }).length;
const file = (name) => compressed(readFileSync(here(`../../../_build/web/package/${name}`)));

/** The minified JavaScript of a page that imports entries of the package, without what `external` names. */
async function script(entries, external = []) {
  const { outputFiles } = await build({
    stdin: {
      contents: entries.map((entry, place) => `export * as _${place} from "./${entry}.js";`).join("\n"),
      resolveDir: here("../../../_build/web/package"),
    },
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
    external,
  });
  return compressed(outputFiles[0].contents);
}

/** The rows of the README's table: a part, and its compressed size in KB. */
function described() {
  const readme = readFileSync(here("../README.md"), "utf8");
  const [, table] = readme.match(/\| part \| KB \|\n\| --- \| --- \|\n([^]*?)\n\n/);
  return table.split("\n").map((row) => row.match(/^\| (.*) \| (\d+) \|$/).slice(1));
}

test("the README tells the compressed size of each part", async (context) => {
  const bases = ["./embedded.js", "./rules_embedded.js"];
  const sizes = {
    "the index: WebAssembly": file("be_tree_web_bg.wasm"),
    "the index: JavaScript": await script(["external"]),
    "rules: WebAssembly": file("be_tree_rules_web_bg.wasm"),
    "rules: JavaScript": await script(["rules_external"]),
    "a worker: JavaScript, and the script that it runs": await script(["worker"], bases),
    "`be-tree`": await script(["index"]),
    "`be-tree/external`": file("be_tree_web_bg.wasm") + (await script(["external"])),
    "`be-tree/rules`": await script(["rules"]),
    "`be-tree/rules/external`": file("be_tree_rules_web_bg.wasm") + (await script(["rules_external"])),
    "`be-tree/worker`": await script(["worker"]),
    "`be-tree` and `be-tree/worker`": await script(["index", "worker"]),
    "all three": await script(["index", "rules", "worker"]),
  };
  const rows = described();
  assert.deepEqual(
    rows.map(([part]) => part),
    Object.keys(sizes),
  );
  for (const [part, told] of rows) {
    const kilobytes = sizes[part] / 1_000;
    context.diagnostic(`${kilobytes.toFixed(1)} KB: ${part}`);
    // Another compiler writes other code.
    assert.ok(Math.abs(kilobytes - told) <= Math.max(1, 0.03 * told), `${part}: ${kilobytes} KB, not ${told} KB`);
  }
});
