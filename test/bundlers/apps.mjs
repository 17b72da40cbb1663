// The applications that use the package, a folder each, beside the installed tools.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** The folder with the tools, and with the package as npm would install it. */
export const tools = join(root, "_build/bundlers");

export function installPackage() {
  const installed = join(tools, "node_modules/be-tree");
  rmSync(installed, { recursive: true, force: true });
  cpSync(join(root, "_build/web/package"), installed, { recursive: true });
}

/** Writes an application, and returns its folder. */
export function write(name, files) {
  const folder = join(tools, "apps", name);
  rmSync(folder, { recursive: true, force: true });
  for (const [file, text] of Object.entries({ "package.json": "{}", ...files })) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  return folder;
}

export const version = (tool) => JSON.parse(readFileSync(join(tools, "node_modules", tool, "package.json"))).version;

/**
 * A function that returns the results of each part of the package: a search, the kind of a refusal, the value of a notice, and a search in
 * a worker. Up to the worker it is synchronous.
 */
export const USE = `
async function use() {
  const tree = new BeTree({ age: "integer" });
  tree.insert(1, "age > 20");
  const results = [tree.search({ age: 30 })];
  try {
    tree.insert(2, "age >");
  } catch (error) {
    results.push(error instanceof BeTreeError ? error.kind : String(error));
  }
  const rules = new Rules("fact order(id: integer)\\nrule seen\\n  when o: order\\n  then notify seen(id: o.id)");
  results.push(rules.assert({ order: { id: 7, at: 0 } }).notices[0].values.id);
  try {
    const worker = new BeTreeWorker({ age: "integer" });
    await worker.insert(1, "age > 20");
    results.push(await worker.search({ age: 30 }));
    worker.terminate();
  } catch (error) {
    results.push(error instanceof BeTreeError ? error.kind + ": " + error.message : String(error));
  }
  return JSON.stringify(results);
}`;

/** The result of each application. */
export const EXPECTED = '[[1],"syntax",7,[1]]';

const INSTALLED = { index: "be-tree", rules: "be-tree/rules", worker: "be-tree/worker" };
export const EXTERNAL = { ...INSTALLED, index: "be-tree/external", rules: "be-tree/rules/external" };

/** The statements that load the package from its entries. */
export function imports({ init = false, entries = INSTALLED } = {}) {
  return `
import { BeTree, BeTreeError${init ? ", init" : ""} } from "${entries.index}";
import { Rules${init ? ", init as initRules" : ""} } from "${entries.rules}";
import { BeTreeWorker } from "${entries.worker}";`;
}

export const dynamicImports = `
const { BeTree, BeTreeError } = await import("be-tree");
const { Rules } = await import("be-tree/rules");
const { BeTreeWorker } = await import("be-tree/worker");`;

export const requires = `
const { BeTree, BeTreeError } = require("be-tree");
const { Rules } = require("be-tree/rules");
const { BeTreeWorker } = require("be-tree/worker");`;

/** An ES module that loads the package, and gives the result to `report`. */
export const module = (report, { entries, init = "init()", initRules = "initRules()", more = "" } = {}) => `
${more}
${imports({ entries, init: true })}
${USE}
Promise.all([${init}, ${initRules}])
  .then(use)
  .catch((error) => error.kind + ": " + error.message)
  .then((result) => { ${report} });`;

/** The same without `init`, where the package loads its modules when it is imported. */
export const synchronous = (load, { report = "use().then((result) => console.log(result));" } = {}) => `
${load}
${USE}
${report}`;

export const ON_PAGE = "document.title = result;";
