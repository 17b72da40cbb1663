// Pages in Chromium, from a server of a folder.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";

import { launch } from "../browser/browser.mjs";

const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};

/** Serves a folder with more headers, while `use` runs with the address. */
export async function serving(folder, headers, use) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const file = join(folder, path.endsWith("/") ? `${path}index.html` : path);
    const found = existsSync(file) && statSync(file).isFile();
    response.writeHead(found ? 200 : 404, {
      "content-type": found ? (TYPES[extname(file)] ?? "application/octet-stream") : "text/plain",
      ...headers,
    });
    if (found) createReadStream(file).pipe(response);
    else response.end("There is no such file.\n");
  });
  await new Promise((done, failed) => server.once("error", failed).listen(0, "127.0.0.1", done));
  try {
    return await use(`http://localhost:${server.address().port}/`);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

let browser;

/** Returns the title that a page sets when its application ends. */
export async function titleOf(url) {
  browser ??= await launch();
  const page = await browser.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  try {
    await page.goto(url, { timeout: 120_000 });
    // Vite reloads the page when it has bundled the package.
    await page.waitForFunction(() => document.title !== "", null, { timeout: 120_000 });
    return await page.title();
  } catch (error) {
    throw new Error([error.message, ...faults].join("\n"), { cause: error });
  } finally {
    await page.close();
  }
}

export const close = async () => browser?.close();
