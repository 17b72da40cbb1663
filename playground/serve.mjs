// Serves a folder on this machine, for trying and testing the page: `node serve.mjs [FOLDER] [PORT]`. Any other server of files
// will do for others.
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const TYPES = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

/** Serves `folder` below the path `prefix`. Returns the address of the folder, and a function that ends it. */
export async function serve(folder, { port = 0, prefix = "/" } = {}) {
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    const file = join(folder, path.slice(prefix.length), path.endsWith("/") ? "index.html" : "");
    const found = path.startsWith(prefix) && (await stat(file).catch(() => null))?.isFile();
    const type = TYPES[extname(file)] ?? "application/octet-stream";
    response.writeHead(found ? 200 : 404, { "content-type": found ? type : "text/plain" });
    if (found) createReadStream(file).pipe(response);
    else response.end("There is no such file.\n");
  });
  await new Promise((done, failed) => server.once("error", failed).listen(port, "127.0.0.1", done));
  const close = () => new Promise((done) => server.close(done) && server.closeAllConnections());
  return { url: `http://localhost:${server.address().port}${prefix}`, close };
}

/** The ports that are tried after a busy one. */
const NEXT = 20;

/** Serves a folder at the first free port from `first` on. */
async function serveNear(folder, first) {
  for (let port = first; ; port++) {
    try {
      return { ...(await serve(folder, { port })), isBusy: port !== first };
    } catch (error) {
      if (error.code !== "EADDRINUSE" || port === first + NEXT) throw error;
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder = fileURLToPath(new URL("../_build/playground", import.meta.url)), port = "8080"] =
    process.argv.slice(2);
  const { url, isBusy } = await serveNear(folder, Number(port));
  if (isBusy) console.log(`Another program uses port ${port}.`);
  console.log(`The playground is at ${url} (end it with Ctrl+C)`);
}
