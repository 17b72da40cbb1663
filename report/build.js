// Bundles the page's program and styles into one HTML file without network: dist/tune.html.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";

const outputs = async (entry, options = {}) => {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    target: "es2020",
    legalComments: "inline",
    ...options,
  });
  return outputFiles[0].text;
};

const [program, styles, template] = await Promise.all([
  // The page has styles of its own for what d3-flame-graph draws.
  outputs("src/main.js", { format: "iife", loader: { ".css": "empty" } }),
  outputs("src/page.css"),
  readFile("src/page.html", "utf8"),
]);

// A function as the replacement, because $ in a text means something to replace.
const page = template
  .replace("/* styles */", () => styles.trim())
  .replace("/* program */", () => program.trim().replaceAll("</script", "<\\/script"));

await mkdir("dist", { recursive: true });
await writeFile("dist/tune.html", page);
console.log(`dist/tune.html: ${Buffer.byteLength(page)} bytes`);
