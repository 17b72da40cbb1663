// Opens the page of `mix be_tree.tenants` as an operator does: `BE_TREE_PAGE=http://127.0.0.1:4040/ node tenants.mjs`. The tenants are those
// of test/be_tree/tenants/dashboard_page_test.exs. Checks the figures, the way to a tenant and back, and that it can be used with the
// keyboard, in the dark, and on a phone.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { accessibilityFaults, launch, withPage } from "./browser.mjs";

const address = process.env.BE_TREE_PAGE;

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

// Opens the page, and waits until all tenants were read.
const open = (options, use, place = "") =>
  withPage(browser, { viewport: { width: 1280, height: 900 }, ...options }, async (page) => {
    const hosts = new Set();
    page.on("request", (request) => {
      const { protocol, host } = new URL(request.url());
      if (protocol !== "data:") hosts.add(host);
    });
    await page.goto(address + place);
    await page.waitForSelector("#chart-fuel svg");
    await page.waitForFunction(() => document.querySelector("progress") === null);
    await use(page);
    assert.deepEqual([...hosts], [new URL(address).host], "the page loads nothing from elsewhere");
  });

const rows = (page, section) =>
  page
    .locator(`${section} tbody tr`)
    .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.innerText)));

const number = (text) => Number(text.replaceAll(",", ""));

test("shows the dearest tenants first, with exact counts", () =>
  open({}, async (page) => {
    const tenants = await rows(page, "#tenants");
    assert.equal(tenants[0][0], "acme");
    const fuels = tenants.map((row) => number(row[1]));
    assert.deepEqual(
      fuels,
      [...fuels].sort((one, other) => other - one),
    );
    const acme = tenants[0];
    assert.deepEqual([number(acme[3]), number(acme[4])], [40, 80], "events and matches of today");
    const shares = tenants.map((row) => parseFloat(row[2]));
    assert.ok(Math.abs(shares.reduce((sum, share) => sum + share) - 100) < 3, `the shares are ${shares}`);
    const matched = await rows(page, "#expressions");
    assert.match(matched[0][0], /^1 platform = 'ios'$/);
    assert.deepEqual([matched[0][1], number(matched[0][2])], ["acme", 40]);
  }));

test("a range of days counts all of them", () =>
  open({}, async (page) => {
    await page.getByRole("link", { name: "7 days" }).click();
    await page.waitForFunction(() => document.querySelector("#tenants-title").innerText.includes("7 days"));
    const [acme] = await rows(page, "#tenants");
    assert.deepEqual([number(acme[3]), number(acme[4])], [120, 240]);
    assert.equal(await page.locator("#ranges a[aria-current]").innerText(), "7 days");
    await page
      .locator("figure", { has: page.locator("#chart-matches") })
      .locator("summary")
      .click();
    const days = await page
      .locator("figure", { has: page.locator("#chart-matches") })
      .locator("tbody tr")
      .evaluateAll((all) => all.map((row) => row.cells[1].innerText));
    assert.equal(days.length, 7);
    assert.deepEqual(days.slice(0, 4).map(number), [0, 0, 0, 0]);
    assert.ok(days.slice(4).every((events) => number(events) > 0));
  }));

test("a search finds tenants by name, and keeps the focus", () =>
  open({}, async (page) => {
    await page.locator("#search").fill("INJ");
    await page.waitForFunction(() => document.querySelectorAll("#tenants tbody tr").length === 1);
    assert.equal((await rows(page, "#tenants"))[0][0], "<b id=injected>x</b>");
    assert.equal(await page.evaluate(() => document.activeElement.id), "search");
    await page.locator("#search").fill("nobody");
    await page.waitForSelector("#tenants p");
    assert.match(await page.locator("#tenants").innerText(), /No tenant's name contains this/);
  }));

test("a tenant's page has its figures and expressions, and the way back", () =>
  open({}, async (page) => {
    await page.locator("#tenants").getByRole("link", { name: "acme" }).click();
    await page.waitForSelector("#figures");
    assert.equal(await page.title(), "acme · BeTree tenants");
    const figures = Object.fromEntries((await rows(page, "#figures")).map(([name, , value]) => [name, value]));
    assert.equal(figures.users, "40");
    assert.match(figures.revenue, /in all, 1 to 40$/);
    assert.match(figures.prices, /^p50 /);
    assert.match(figures.platforms, /^ios \(\d+\)$/);
    assert.match(figures.errors, /^500, 501/);
    const expressions = await rows(page, "#expressions");
    assert.deepEqual(expressions[0].slice(0, 2), ["1 platform = 'ios'", "40"]);
    assert.ok(expressions.some(([text, matches]) => text.includes("error = 1") && matches === "0"));
    const [report] = await page.evaluate(async () =>
      (await fetch(document.querySelector("a[href^='api/report']").getAttribute("href"))).json(),
    );
    assert.equal(report[0].events, 40);
    await page.goBack();
    await page.waitForSelector("#tenants");
    await page.goForward();
    await page.waitForSelector("#figures");
    await page.getByRole("link", { name: "All tenants" }).click();
    await page.waitForSelector("#tenants");
  }));

test("shows the numbers of the bar under the arrow keys", () =>
  open({}, async (page) => {
    const chart = page.locator("#chart-fuel");
    await chart.focus();
    for (let day = 0; day < 7; day++) await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() =>
      [...document.querySelectorAll("#chart-fuel > div")].some((div) =>
        /searching and counting: [\d,]+/.test(div.innerText),
      ),
    );
  }));

test("texts of tenants are never read as HTML", () =>
  open({}, async (page) => {
    assert.equal(await page.locator("#injected").count(), 0);
    assert.match(await page.locator("#tenants").innerText(), /<b id=injected>x<\/b>/);
    await page.locator("#tenants").getByRole("link", { name: "injected" }).click();
    await page.waitForSelector("#figures");
    assert.equal(await page.locator("#injected").count(), 0);
    assert.match(await page.locator("#expressions").innerText(), /<\/script><b id=injected>/);
  }));

test("follows the system's colors, and the reader's choice", () =>
  open({ colorScheme: "dark" }, async (page) => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const fill = () => page.locator("#chart-fuel svg path[fill^='#']").first().getAttribute("fill");
    const [dark, darkFill] = [await background(), await fill()];
    await page.locator("#theme").click();
    assert.notEqual(await background(), dark);
    assert.notEqual(await fill(), darkFill);
  }));

test("fits a phone", () =>
  open({ viewport: { width: 390, height: 800 }, isMobile: true, hasTouch: true }, async (page) => {
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    await page.locator("#tenants").getByRole("link", { name: "acme" }).click();
    await page.waitForSelector("#figures");
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  }));

for (const colorScheme of ["light", "dark"])
  test(`has no fault of accessibility, ${colorScheme}`, () =>
    open({ colorScheme }, async (page) => {
      assert.deepEqual(await accessibilityFaults(page), []);
      await page.locator("#tenants").getByRole("link", { name: "acme" }).click();
      await page.waitForSelector("#figures");
      assert.deepEqual(await accessibilityFaults(page), []);
    }));
