// Bundles each page's program and styles into one HTML file without network: dist/tune.html and dist/tenants.html.
import { build } from "esbuild";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";

const bundle = async (entry, options = {}) => {
  const { outputFiles, metafile } = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    target: "es2020",
    legalComments: "none",
    ...options,
  });
  return { text: outputFiles[0].text.trim(), inputs: Object.keys(metafile.inputs) };
};

// The full licenses of the bundled packages, as these require.
const licenses = async (inputs) => {
  const packages = new Set(inputs.map((input) => input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]).filter(Boolean));
  const texts = [...packages].sort().map(async (name) => {
    const folder = `node_modules/${name}`;
    const { license, version } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
    const file = (await readdir(folder)).find((one) => /^licen[sc]e/i.test(one));
    if (!file) throw new Error(`${name} has no file with its license`);
    return `${name} ${version} (${license})\n\n${await readFile(`${folder}/${file}`, "utf8")}`;
  });
  return (await Promise.all(texts)).join("\n\n");
};

const PAGES = [
  { name: "tune", folder: "src" },
  { name: "tenants", folder: "src/tenants" },
];

await mkdir("dist", { recursive: true });
for (const { name, folder } of PAGES) {
  const [program, styles, template] = await Promise.all([
    // The pages have their own styles for d3-flame-graph.
    bundle(`${folder}/main.js`, { format: "iife", loader: { ".css": "empty" } }),
    bundle(`${folder}/page.css`),
    readFile(`${folder}/page.html`, "utf8"),
  ]);

  // A replacement function, because $ is special in a replacement text. An HTML comment must not contain two hyphens.
  const notices = (await licenses(program.inputs)).replaceAll("--", "- -");
  const page = template
    .replace("/* styles */", () => styles.text)
    .replace("/* program */", () => program.text.replaceAll("</script", "<\\/script"))
    .replace("/* licenses */", () => notices);

  await writeFile(`dist/${name}.html`, page);
  console.log(`dist/${name}.html: ${Buffer.byteLength(page)} bytes`);
}
