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

/** A search, and the kind of a refusal. */
export const USE = `
function use() {
  const tree = new BeTree({ age: "integer" });
  tree.insert(1, "age > 20");
  let kind;
  try {
    tree.insert(2, "age >");
  } catch (error) {
    kind = error instanceof BeTreeError ? error.kind : String(error);
  }
  return JSON.stringify([tree.search({ age: 30 }), kind]);
}`;

/** The result of each application. */
export const EXPECTED = '[[1],"syntax"]';

/** An ES module that loads the package, and gives the result to `report`. */
export const module = (report, { entry = "be-tree", init = "init()", imports = "" } = {}) => `
${imports}
import { BeTree, BeTreeError, init } from "${entry}";
${USE}
${init}.then(use).catch((error) => error.kind + ": " + error.message).then((result) => { ${report} });`;

/** The same without `init`, where the package loads its module when it is imported. */
export const synchronous = (load, report = "console.log(result);") => `
${load}
${USE}
const result = use();
${report}`;

export const IMPORT = 'import { BeTree, BeTreeError } from "be-tree";';
export const REQUIRE = 'const { BeTree, BeTreeError } = require("be-tree");';
export const ON_PAGE = "document.title = result;";
