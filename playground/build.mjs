// Builds the page: `node build.mjs FOLDER`. The package for JavaScript has been built before (`make web`).
import { cp, copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

import { languagePage } from "./language.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const folder = process.argv[2] ?? here("../_build/playground");
const library = here("../_build/web/package");

await rm(folder, { recursive: true, force: true });
await mkdir(folder, { recursive: true });
await build({
  entryPoints: ["main", "worker", "rules", "rules_worker"].map((name) => here(`src/${name}.ts`)),
  outdir: folder,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  alias: { "be-tree": `${library}/external.js`, "be-tree/rules": `${library}/rules_external.js` },
  legalComments: "linked",
  logLevel: "warning",
});
for (const module of ["be_tree_web_bg.wasm", "be_tree_rules_web_bg.wasm"])
  await copyFile(`${library}/${module}`, `${folder}/${module}`);
await cp(here("static"), folder, { recursive: true });
await writeFile(`${folder}/language.html`, await languagePage());
