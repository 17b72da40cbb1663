// Opens each page of the documentation of `make docs` as a reader does, at the width of a desk and of a phone. Checks that a page
// reports no fault, is no wider than the window and has all its pictures, that links lead to a page and a heading, that examples
// stand alone, and that a search finds functions by the words that users look for.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import test, { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { serve } from "../../playground/serve.mjs";
import { launch, withPage } from "./browser.mjs";

const folder = process.env.BE_TREE_DOCS ?? fileURLToPath(new URL("../../_build/docs", import.meta.url));
const files = readdirSync(folder);
const pages = files.filter((file) => file.endsWith(".html") && !["404.html", "index.html"].includes(file));

let browser, site;
before(async () => {
  browser = await launch();
  site = await serve(folder);
});
after(() => Promise.all([browser.close(), site.close()]));

const open = (width, use) =>
  withPage(browser, { viewport: { width, height: 900 } }, async (page, context) => {
    // Hex serves this file, and the badge is on another machine.
    await context.route("**/docs_config.js", (route) => route.fulfill({ contentType: "text/javascript", body: "" }));
    await context.route(
      (url) => !url.href.startsWith(site.url),
      (route) =>
        route.fulfill({
          contentType: "image/svg+xml",
          body: "<svg xmlns='http://www.w3.org/2000/svg'/>",
        }),
    );
    await use(page);
  });

const visit = async (page, file) => {
  await page.goto(site.url + encodeURIComponent(file));
  await page.waitForSelector("#content h1");
};

for (const width of [1280, 390]) {
  test(`no page is wider than ${width} pixels`, () =>
    open(width, async (page) => {
      const wide = [];
      for (const file of pages) {
        await visit(page, file);
        const needed = await page.evaluate(() =>
          Math.max(...["html", "#main"].map((place) => document.querySelector(place)?.scrollWidth ?? 0)),
        );
        if (needed > width) wide.push(`${file}: ${needed}`);
      }
      assert.deepEqual(wide, []);
    }));
}

test("links lead to a page and a heading, pictures are there, and examples stand alone", () =>
  open(1280, async (page) => {
    const ids = new Map();
    const links = [];
    const faults = [];
    for (const file of pages) {
      await visit(page, file);
      const found = await page.evaluate(() => ({
        ids: [...document.querySelectorAll("[id]")].map(({ id }) => id),
        links: [...document.querySelectorAll("#content a[href]")].map((link) => link.getAttribute("href")),
        pictures: [...document.querySelectorAll("#content img")].filter(
          (img) => !img.complete || img.naturalWidth === 0,
        ),
        listed: [...document.querySelectorAll("#content li")].filter((item) => item.textContent.includes("iex>")),
      }));
      ids.set(file, new Set(found.ids));
      links.push(...found.links.map((link) => [file, link]));
      if (found.pictures.length > 0) faults.push(`${file}: a picture is missing`);
      if (found.listed.length > 0) faults.push(`${file}: an example is part of a list`);
    }
    for (const [file, link] of links.filter(([, link]) => !/^[a-z]+:/.test(link) || link.startsWith(":"))) {
      const [name, id] = link.split("#").map(decodeURIComponent);
      const target = name.replace(/^\.\//, "") || file;
      if (!files.includes(target)) faults.push(`${file}: no page ${link}`);
      else if (id && !ids.get(target).has(id)) faults.push(`${file}: no heading ${link}`);
    }
    assert.deepEqual(faults, []);
  }));

// The words of other libraries, and the function or page that has the answer.
const SEARCHES = {
  upsert: "BeTree.put/4",
  percolate: "Names in other libraries",
  backpressure: "Names in other libraries",
  geofence: "Names in other libraries",
  timeout: "Timeouts",
};

test("a search finds functions by the words that users look for", () =>
  open(1280, async (page) => {
    const missing = [];
    for (const [word, title] of Object.entries(SEARCHES)) {
      await page.goto(`${site.url}search.html?q=${encodeURIComponent(word)}`);
      await page.waitForSelector("#search h1, #search .result");
      const titles = await page.$$eval("#search .result h2", (heads) =>
        heads.slice(0, 10).map((h) => h.textContent.trim()),
      );
      if (!titles.some((found) => found.includes(title))) missing.push(`${word}: ${titles.join(", ")}`);
    }
    assert.deepEqual(missing, []);
  }));
