// Opens a report of `mix be_tree.tune` as a reader does: `BE_TREE_PAGE=tune.html node tune.mjs`. Checks that it draws, hovers, slides, and can be
// used with the keyboard, in the dark, and on a phone.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { pathToFileURL } from "node:url";
import { accessibilityFaults, launch, withPage } from "./browser.mjs";

const address = pathToFileURL(process.env.BE_TREE_PAGE).href;
const CHARTS = ["budget", "latency", "late", "beside", "concurrency", "batch", "replicas", "front"].map(
  (name) => `#chart-${name}`,
);

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const open = (options, use) =>
  withPage(browser, { viewport: { width: 1280, height: 900 }, ...options }, async (page) => {
    const requests = [];
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(address);
    await page.waitForSelector("#chart-front svg");
    await use(page);
    assert.deepEqual(
      requests.filter((url) => !url.startsWith("data:")),
      [address],
      "the page loads nothing but itself",
    );
  });

const run = (page) => page.evaluate(() => JSON.parse(document.getElementById("run").textContent));
const tip = (chart) =>
  chart.evaluate((place) =>
    [...place.querySelectorAll(":scope > div")]
      .map((div) => (div.style.opacity === "0" || div.style.visibility === "hidden" ? "" : div.innerText))
      .join(""),
  );

// Waits for a tip of the chart, and repeats `move` until it is there.
const waitForTip = async (chart, pattern, move = async () => {}) => {
  for (let left = 400; left > 0; left--) {
    await move();
    const text = await tip(chart);
    if (pattern.test(text)) return text;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  assert.match(await tip(chart), pattern);
};

// The middles of the points of the chart: circles are paths with arcs.
const points = (chart) =>
  chart.evaluate((place) =>
    [...place.querySelectorAll("svg path")]
      .filter((path) => /A/.test(path.getAttribute("d")))
      .map((path) => path.getBoundingClientRect())
      .filter(({ width, height }) => width > 3 && width < 30 && height > 3)
      .map(({ x, y, width, height }) => ({
        x: x + width / 2,
        y: y + height / 2,
      })),
  );

test("draws every chart, with units on both axes", () =>
  open({}, async (page) => {
    const { stops } = (await run(page)).budget;
    for (const id of CHARTS) {
      const chart = page.locator(id);
      const found = await points(chart);
      assert.ok(found.length >= (id === "#chart-budget" ? stops.length : 1), `${id} has ${found.length} points`);
      const texts = await chart.locator("svg text").allTextContents();
      const named = texts.filter((text) =>
        /\((µs|fuel|%)\)|searches a second|processes that search|events a call|replicas of the index|percentile of all wakes/.test(
          text,
        ),
      );
      assert.ok(named.length >= 2, `${id} names its axes with units: ${texts.join(" | ")}`);
    }
    // Light on white would be drawn too, so the page's own colors are asked for.
    const [line, card] = await page.evaluate(() =>
      ["--series-1", "--card"].map((name) => getComputedStyle(document.documentElement).getPropertyValue(name)),
    );
    assert.notEqual(line, card);
  }));

test("shows the fuel by phase, and the flame graph", () =>
  open({}, async (page) => {
    const { profile } = await run(page);
    assert.equal(
      profile.phases.reduce((sum, { fuel }) => sum + fuel, 0),
      profile.fuel,
    );
    assert.equal(
      profile.folded.reduce((sum, { fuel }) => sum + fuel, 0),
      profile.fuel,
    );
    assert.equal(await page.locator("#phases span").count(), profile.phases.length);
    const frames = page.locator("#flame g.frame");
    assert.ok((await frames.count()) > profile.phases.length);
    const root = await frames.first().getAttribute("aria-label");
    assert.match(root, /^search: [\d,]+ fuel, 100 % of all$/);
    // A click enlarges a phase to the whole width.
    const phase = page
      .locator("#flame g.frame", {
        hasText: profile.phases.reduce((most, one) => (one.fuel > most.fuel ? one : most)).phase,
      })
      .first();
    const width = async () => (await phase.locator("rect").boundingBox()).width;
    // The frames grow to their widths when the page opens.
    await page.waitForFunction(
      (element) => Math.abs(element.querySelector("rect").getAttribute("width") - element.getAttribute("width")) < 1,
      await phase.elementHandle(),
    );
    const narrow = await width();
    await phase.focus();
    assert.match(await page.locator("#flame-told").innerText(), /fuel, [\d.]+ % of all$/);
    await page.keyboard.press("Enter");
    await page.waitForFunction(
      ([element, before]) => element.querySelector("rect").getBoundingClientRect().width > before,
      [await phase.elementHandle(), narrow],
    );
    await page.getByRole("button", { name: "Show all again" }).click();
    await page.waitForFunction(
      ([element, before]) => Math.abs(element.querySelector("rect").getBoundingClientRect().width - before) < 2,
      [await phase.elementHandle(), narrow],
    );
  }));

test("shows the numbers of the point under the pointer", () =>
  open({}, async (page) => {
    for (const [id, pattern] of [
      ["#chart-latency", /p50: .*(µs|ms)/],
      ["#chart-budget", /ends [\d.]+ %/],
      ["#chart-front", /searches a second/],
    ]) {
      const chart = page.locator(id);
      await chart.scrollIntoViewIfNeeded();
      // On a busy machine the page may still move the chart.
      await waitForTip(chart, pattern, async () => {
        const [point] = await points(chart);
        await page.mouse.move(point.x + 1, point.y + 1);
        await page.mouse.move(point.x, point.y);
      });
    }
  }));

test("the arrow keys move through the points of a chart", () =>
  open({}, async (page) => {
    const chart = page.locator("#chart-latency");
    await chart.focus();
    await page.keyboard.press("ArrowRight");
    const first = await waitForTip(chart, /p50: /);
    await page.keyboard.press("ArrowRight");
    const second = await waitForTip(chart, /p50: /);
    assert.notEqual(first, second);
    await page.keyboard.press("Escape");
  }));

test("the slider says what a budget ends", () =>
  open({}, async (page) => {
    const { budget, fuel } = await run(page);
    const slider = page.locator("#budget-slider");
    const told = page.locator("#budget-told");
    await slider.focus();
    await page.keyboard.press("Home");
    const least = budget.stops.at(-1);
    const grouped = (number) => number.toLocaleString("en-US");
    assert.match(
      await told.innerText(),
      new RegExp(
        `${grouped(least.budget)}[^]*${grouped(fuel.filter((one) => one > least.budget).length)} of ${grouped(fuel.length)}`,
      ),
    );
    await page.keyboard.press("End");
    assert.match(await told.innerText(), /No search of these events needs more/);
    await page.keyboard.press("ArrowLeft");
    assert.match(await told.innerText(), /Events whose searches end/);
    // By mouse, to the left end.
    await slider.scrollIntoViewIfNeeded();
    const box = await slider.boundingBox();
    await page.mouse.click(box.x + 2, box.y + box.height / 2);
    assert.match(await told.innerText(), new RegExp(grouped(least.budget)));
    assert.equal(await slider.getAttribute("aria-valuetext"), `${grouped(least.budget)} fuel`);
  }));

test("follows the system's colors, and the reader's choice", () =>
  open({ colorScheme: "dark" }, async (page) => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const stroke = () => page.locator("#chart-latency svg path[stroke-width='2']").first().getAttribute("stroke");
    const [dark, darkLine] = [await background(), await stroke()];
    await page.locator("#theme").click();
    assert.notEqual(await background(), dark);
    assert.notEqual(await stroke(), darkLine);
    await page.locator("#theme").click();
    assert.equal(await background(), dark);
    assert.equal(await stroke(), darkLine);
  }));

test("fits a phone", () =>
  open({ viewport: { width: 390, height: 800 }, isMobile: true, hasTouch: true }, async (page) => {
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    for (const id of CHARTS) assert.ok((await page.locator(`${id} svg`).boundingBox()).width <= 390);
    // Tables that are wider have shadows that stay where they are, and covers that scroll with the table.
    const wide = await page.evaluate(() =>
      [...document.querySelectorAll(".scroll")]
        .filter((place) => place.scrollWidth > place.clientWidth)
        .map((place) => getComputedStyle(place).backgroundAttachment),
    );
    assert.deepEqual([...new Set(wide)], ["local, local, scroll, scroll"]);
  }));

test("texts of the run are never read as HTML", () =>
  open({}, async (page) => {
    assert.equal(await page.locator("#injected").count(), 0);
    assert.match(await page.locator("#outliers").innerText(), /<b id=injected>/);
  }));

for (const colorScheme of ["light", "dark"])
  test(`has no fault of accessibility, ${colorScheme}`, () =>
    open({ colorScheme }, async (page) => assert.deepEqual(await accessibilityFaults(page), [])));
