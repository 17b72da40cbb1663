// The playground in Chromium, with real clicks and keys. `make test` builds it and the cases before.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { deflateRawSync, gzipSync } from "node:zlib";

import { serve } from "../../playground/serve.mjs";
import { accessibilityFaults, launch, withPage } from "./browser.mjs";

const root = fileURLToPath(new URL("../../", import.meta.url));
const image = `${root}_build/web/cases.wasm`;
const cases = JSON.parse(readFileSync(`${root}_build/web/cases.json`, "utf8"));

const DESKTOP = { viewport: { width: 1280, height: 800 } };
const PHONE = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
};

let browser;
let files;
let site;

before(async () => {
  browser = await launch();
  files = await serve(root);
  site = await serve(`${root}_build/playground`, { prefix: "/try/it/" });
});

after(async () => {
  await browser?.close();
  await site?.close();
  await files?.close();
});

/** Opens the playground, and gives the page to `use` when it shows a result. */
function playground(options, use, fragment = "") {
  return withPage(browser, options, async (page, context) => {
    await page.goto(site.url + fragment);
    await settled(page);
    return use(page, context);
  });
}

/** Waits for the result of the texts as they are. The editor takes in typed text before the frame after the next begins. */
async function settled(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.locator("#result[aria-busy=false]").waitFor();
}

const editor = (page, id) => page.locator(`#${id} .cm-content`);
const headline = (page) => page.locator("#headline").innerText();
const ids = (page) => page.locator("#matches .id").allInnerTexts();
const status = (page) => page.locator("#status").innerText();

/** Puts the cursor on a line of the expressions' end by keys. */
async function newLine(page, text) {
  await editor(page, "expressions").click();
  await page.keyboard.press("Control+End");
  await page.keyboard.press("Enter");
  await page.keyboard.type(text);
}

async function replace(page, id, text) {
  await editor(page, id).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

/** Returns the fragment of a link. */
function fragment(state) {
  return `#1=${deflateRawSync(JSON.stringify({ step: null, selected: null, kind: "text", ...state })).toString("base64url")}`;
}

const SMALL = {
  schema: `{"age": "integer", "country": {"type": "string", "optional": true}}`,
  expressions: `age >= 21 and country in ('CA', 'US')\nage < 21\nnot (age < 65)`,
  event: `{"age": 30, "country": "CA"}`,
};

test("the first load is small, from this server only, and nothing moves", async () => {
  await withPage(browser, DESKTOP, async (page) => {
    const loaded = [];
    page.on("response", (response) => loaded.push(response));
    await page.addInitScript(() => {
      globalThis.shifts = [];
      const name = ({ node }) => node?.id || node?.className || node?.nodeName;
      const note = ({ value, sources }) => globalThis.shifts.push(`${value}: ${sources.map(name)}`);
      const observer = new PerformanceObserver((list) => list.getEntries().forEach(note));
      observer.observe({ type: "layout-shift", buffered: true });
    });
    await page.goto(site.url);
    await settled(page);
    assert.match(await headline(page), /^\d+ expressions match$/);
    assert.deepEqual(await page.evaluate(() => globalThis.shifts), []);
    const bodies = await Promise.all(loaded.map((response) => response.body()));
    const bytes = bodies.reduce((sum, body) => sum + gzipSync(body).length, 0);
    assert.ok(loaded.length >= 5 && bytes < 1_000_000, `${bytes} bytes in ${loaded.length} files`);
    assert.ok(loaded.every((response) => response.url().startsWith(site.url)));
  });
});

test("a faulty expression is told while it is typed, and matches when it is mended", async () => {
  await playground(DESKTOP, async (page) => {
    await newLine(page, "age >= 30 and coutry");
    await settled(page);
    const fault = page.locator(".cm-fault-line");
    assert.match(await fault.innerText(), /\^ .*`coutry`/);
    assert.match(await status(page), /In the expressions, line \d+, column 15: .*country/);
    // The caret stands below the fault.
    const [caret, word] = [
      await fault.locator("span").last().boundingBox(),
      await page.locator(".cm-fault").boundingBox(),
    ];
    assert.ok(Math.abs(caret.x - word.x) < 2 && caret.y > word.y, JSON.stringify({ caret, word }));
    const before = await ids(page);
    for (let key = 0; key < 6; key++) await page.keyboard.press("Backspace");
    await page.keyboard.type("country = 'DE'");
    await settled(page);
    assert.equal(await fault.count(), 0);
    assert.equal(await status(page), "");
    const line = await page.locator("#explained").inputValue();
    assert.deepEqual(await ids(page), [...before, line]);
    assert.equal(await headline(page), `${before.length + 1} expressions match`);
    // The line under the cursor is explained.
    assert.equal(await page.locator("#verdict").innerText(), "matches, because");
    assert.deepEqual(await page.locator("#explanation code").allInnerTexts(), ["age >= 30", "country = 'DE'"]);
  });
});

test("faults of the event and of the schema are told too", async () => {
  await playground(
    DESKTOP,
    async (page) => {
      await replace(page, "event", `{"age": "old"}`);
      await settled(page);
      assert.equal(await headline(page), "The event has a fault");
      assert.match(await page.locator("#event .cm-fault-line").innerText(), /\^ .*integer/);
      await replace(page, "event", `{"age": 70`);
      await settled(page);
      assert.match(await status(page), /In the event, line 1, column 11: /);
      await replace(page, "event", `{"age": 70}`);
      await settled(page);
      assert.deepEqual(await ids(page), ["3"]);
      await replace(page, "schema", `{"age": "number"}`);
      await settled(page);
      assert.equal(await headline(page), "The schema has a fault");
      assert.match(await page.locator("#schema .cm-fault-line").innerText(), /\^ `number` is not a type/);
      await replace(page, "schema", `{"age": `);
      await settled(page);
      assert.match(await status(page), /In the schema, line 1, column \d: /);
      await replace(page, "schema", `{"age": "float"}`);
      await settled(page);
      assert.match(await status(page), /In the expressions, line 1, column 15: /);
      assert.deepEqual(await ids(page), ["3"]);
    },
    fragment(SMALL),
  );
});

/** Waits until `read` returns what is expected. */
async function eventually(read, expected) {
  for (let left = 600; left > 0; left--) {
    if ((await read()) === expected) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.equal(await read(), expected);
}

test("a fault of the schema is marked at its value", async () => {
  const cases = [
    [`{"country": "string", "age": "number"}`, `"number"`],
    [`{\n  "age": {"type": "number"}}`, `"number"`],
    [`{"age": {"type": "integer", "optinal": true}}`, `"optinal"`],
    [`{"age": {"type": "integer", "min": 5, "max": 1}}`, `5`],
    [`{"age": {"type": "integer", "min": "x"}}`, `{"type": "integer", "min": "x"}`],
    [`{"at": {"type": "datetime", "unit": "hour"}}`, `"hour"`],
    [`{"at": {"type": "datetime", "onMismatch": "no"}}`, `"no"`],
    [`{"user": {"age": null}}`, `null`],
    [`{"and": "integer"}`, `"and"`],
  ];
  await playground(
    DESKTOP,
    async (page) => {
      for (const [schema, marked] of cases) {
        await replace(page, "schema", schema);
        await settled(page);
        assert.equal(await headline(page), "The schema has a fault");
        const texts = await page.locator("#schema .cm-fault").allInnerTexts();
        assert.equal(texts.join(""), marked, schema);
      }
    },
    fragment(SMALL),
  );
});

test("a result is faint while a later one is awaited, and a fault replaces it", async () => {
  await playground(
    DESKTOP,
    async (page) => {
      const opacity = () => page.locator(".halves").evaluate((halves) => getComputedStyle(halves).opacity);
      assert.deepEqual([await opacity(), await ids(page)], ["1", ["1"]]);
      // A search of some seconds.
      const slow = Array.from({ length: 100 }, (_, index) => `country matches '.*a.{${1 + index}}x'`);
      await replace(page, "expressions", slow.join("\n"));
      await settled(page);
      await replace(page, "event", `{"age": 30, "country": "${"a".repeat(20_000)}"}`);
      await eventually(opacity, "0.4");
      await page.locator("#stop").click();
      await eventually(opacity, "1");
      assert.deepEqual(await ids(page), []);
      await replace(page, "event", `{"ag": 30}`);
      await settled(page);
      assert.equal(await headline(page), "The event has a fault");
      assert.deepEqual(await ids(page), []);
      // The fault of an event is gone with the schema that it was read by.
      await replace(page, "schema", `{"age": `);
      await settled(page);
      assert.equal(await page.locator("#event .cm-fault-line").count(), 0);
      assert.doesNotMatch(await status(page), /more fault/);
    },
    fragment(SMALL),
  );
});

test("texts survive a change of examples, and the Back button", async () => {
  const event = async (page) => (await page.locator("#event .cm-line").allInnerTexts()).join("\n");
  const isPressed = (page, name) => page.getByRole("button", { name }).getAttribute("aria-pressed");
  await playground(DESKTOP, async (page) => {
    const original = await event(page);
    const own = `{"country": "DE"}`;
    await replace(page, "event", own);
    // Before the pause after the last key has passed.
    await page.getByRole("button", { name: "Fraud" }).click();
    await eventually(() => isPressed(page, "Fraud"), "true");
    await settled(page);
    const fraud = await event(page);
    assert.notEqual(fraud, own);

    await page.getByRole("button", { name: "Ad targeting" }).click();
    await eventually(() => event(page), own);
    await page.getByRole("button", { name: "Ad targeting" }).click();
    await eventually(() => event(page), original);

    for (const [text, name] of [
      [own, "Ad targeting"],
      [fraud, "Fraud"],
      [own, "Ad targeting"],
    ]) {
      await page.goBack();
      await eventually(() => event(page), text);
      await eventually(() => isPressed(page, name), "true");
    }
    await page.goForward();
    await eventually(() => event(page), fraud);
    await page.reload();
    await eventually(() => event(page), fraud);
    await eventually(() => isPressed(page, "Fraud"), "true");
  });

  // The page of another site, and an image.
  await playground(DESKTOP, async (page) => {
    await replace(page, "event", `{"country": "FR"}`);
    await settled(page);
    await page.goto(`${site.url}language.html`, { waitUntil: "networkidle" });
    await page.goBack();
    await eventually(() => event(page), `{"country": "FR"}`);
    await settled(page);
    await page.locator("#file").setInputFiles(image);
    await page.locator("#counts", { hasText: `${cases.info.expressions} expressions` }).waitFor();
    await page.goBack();
    await eventually(() => event(page), `{"country": "FR"}`);
    await page.goForward();
    await page.locator("#counts", { hasText: `${cases.info.expressions} expressions` }).waitFor();
  });
});

test("an address with anything but a link behind its # says so", async () => {
  for (const other of ["#expressions", "#2=abc", "#1=", "#1=abc"]) {
    await playground(
      DESKTOP,
      async (page) => {
        assert.match(await status(page), /(no link of the playground|link is damaged)\. This is an example instead\./);
        assert.ok((await ids(page)).length > 2);
      },
      other,
    );
  }
  await playground(DESKTOP, async (page) => assert.equal(await status(page), ""), "#");
});

test("the expression language has a page", async () => {
  await playground(DESKTOP, async (page, context) => {
    const opened = context.waitForEvent("page");
    await page.getByRole("link", { name: "Language" }).click();
    const language = await opened;
    await language.getByRole("heading", { name: "Expressions" }).waitFor();
    const forms = await language.locator("li").allInnerTexts();
    assert.ok(forms.length > 15 && forms.some((form) => form.includes(`country in ("CA", "US")`)));
    assert.ok(forms.some((form) => form.includes(String.raw`A \ escapes *, ? and itself`)));
    assert.deepEqual(await accessibilityFaults(language), []);
  });
});

test("a phone shows the first matches without scrolling", async () => {
  await playground(PHONE, async (page) => {
    const { y, height } = await page.locator("#matches button").nth(2).boundingBox();
    assert.ok(y + height <= PHONE.viewport.height, `the third match ends at ${y + height}`);
    const tops = await Promise.all(
      ["expressions", "event", "matches", "schema", "picture"].map(
        async (id) => (await page.locator(`#${id}`).boundingBox()).y,
      ),
    );
    assert.deepEqual(
      tops,
      tops.toSorted((a, b) => a - b),
    );
  });
});

test("serve.mjs takes the next port if one is busy, and says so", async () => {
  const busy = createServer();
  await new Promise((done) => busy.listen(0, "127.0.0.1", done));
  const { port } = busy.address();
  const server = spawn(process.execPath, [`${root}playground/serve.mjs`, `${root}_build/playground`, `${port}`]);
  try {
    let output = "";
    for await (const text of server.stdout) {
      output += text;
      if (output.includes("Ctrl+C")) break;
    }
    assert.match(output, new RegExp(`^Another program uses port ${port}\\.\n`));
    const [url, next] = /http:\/\/localhost:(\d+)\//.exec(output);
    assert.ok(Number(next) > port);
    assert.equal((await fetch(url)).status, 200);
  } finally {
    server.kill();
    busy.close();
  }
});

test("attributes and operators are completed", async () => {
  await playground(
    DESKTOP,
    async (page) => {
      const options = page.locator(".cm-tooltip-autocomplete li");
      await newLine(page, "cou");
      await options.first().waitFor();
      assert.deepEqual(await options.allTextContents(), ["countrystring"]);
      await options.first().click();
      await page.keyboard.type(" ");
      await options.filter({ hasText: "not in" }).waitFor();
      await page.keyboard.type("i");
      await options.filter({ hasText: /^in/ }).first().click();
      await page.keyboard.type("'CA'");
      await settled(page);
      assert.equal(await page.locator("#expressions .cm-line").last().innerText(), "country in ('CA')");
      assert.deepEqual(await ids(page), ["1", "4"]);
    },
    fragment(SMALL),
  );
});

test("a search is stepped through, node by node", async () => {
  await playground(DESKTOP, async (page) => {
    const lit = page.locator("#picture .node.lit");
    const total = async (name) =>
      Number(await page.locator("#totals div", { hasText: name }).locator("dd").innerText());
    const steps = Number(await page.locator("#step").getAttribute("max"));
    assert.ok(steps > 2);
    assert.equal(await lit.count(), steps);
    const scanned = await total("Entries scanned");
    const matches = await total("Matches");
    assert.equal(matches, (await ids(page)).length);

    await page.locator("#step").focus();
    await page.keyboard.press("Home");
    assert.equal(await lit.count(), 0);
    assert.deepEqual([await total("Entries scanned"), await total("Matches")], [0, 0]);
    assert.ok(await page.locator("#previous").isDisabled());
    await page.locator("#next").click();
    assert.equal(await lit.count(), 1);
    assert.match(await page.locator("#step-text").innerText(), /^Step 1 of \d+, the root: \d+ entries/);
    assert.equal(await page.locator("#picture .now .card-title").first().innerText(), "root");
    await page.locator("#next").click();
    assert.match(await page.locator("#step-text").innerText(), /^Step 2 of \d+, country: DE: /);
    assert.ok((await total("Entries scanned")) < scanned);

    // Played, it ends with the last step.
    await page.locator("#play").click();
    await page.locator("#play", { hasText: "Play" }).waitFor();
    assert.deepEqual([await lit.count(), await total("Entries scanned")], [steps, scanned]);
  });
});

test("each example matches, without a fault", async () => {
  await playground(DESKTOP, async (page) => {
    for (const name of ["Feature flags", "Alert routing", "Fraud", "Ad targeting"]) {
      await page.getByRole("button", { name }).click();
      await settled(page);
      assert.equal(await status(page), "");
      assert.ok((await ids(page)).length >= 3, `${name}: ${await ids(page)}`);
      assert.ok((await page.locator("#picture .level").count()) >= 1, name);
      assert.equal(await page.getByRole("button", { name }).getAttribute("aria-pressed"), "true");
      await page.locator("#matches button").last().click();
      await settled(page);
      assert.equal(await page.locator("#verdict").innerText(), "matches, because");
    }
  });
});

test("a link reproduces what one sees", async () => {
  const seen = async (page) => ({
    expressions: await page.locator("#expressions .cm-line").allInnerTexts(),
    event: await editor(page, "event").innerText(),
    matches: await ids(page),
    explained: await page.locator("#explained").inputValue(),
    verdict: await page.locator("#verdict").innerText(),
    step: await page.locator("#step-text").innerText(),
  });
  const options = {
    ...DESKTOP,
    permissions: ["clipboard-read", "clipboard-write"],
  };
  const [link, expected] = await playground(
    options,
    async (page) => {
      await newLine(page, "country = 'é日本' or age = 30");
      await settled(page);
      await page.locator("#explained").fill("2");
      await page.keyboard.press("Enter");
      await settled(page);
      await page.locator("#previous").click();
      await page.locator("#share").click();
      await page.locator("#status", { hasText: "The link is copied" }).waitFor();
      return [await page.evaluate(() => navigator.clipboard.readText()), await seen(page)];
    },
    fragment(SMALL),
  );
  assert.ok(link.startsWith(`${site.url}#1=`));
  assert.deepEqual([expected.explained, expected.verdict], ["2", "does not match, because"]);
  assert.match(expected.step, /^Before the first/);
  await playground(DESKTOP, async (page) => assert.deepEqual(await seen(page), expected), new URL(link).hash);

  // A link that is followed in an open page, and a damaged one.
  await playground(DESKTOP, async (page) => {
    await page.evaluate((hash) => (location.hash = hash), new URL(link).hash);
    await page.locator("#explained").and(page.locator(":not([value=''])")).waitFor();
    await page.waitForFunction(() => document.querySelector("#explained").value === "2");
    await settled(page);
    assert.deepEqual(await seen(page), expected);
    await page.evaluate(() => (location.hash = "#1=damaged"));
    await page.locator("#status", { hasText: "The link is damaged" }).waitFor();
    await settled(page);
    assert.ok((await ids(page)).length > 2);

    // 100 kilobytes that would be 100 megabytes.
    const large = fragment({ ...SMALL, expressions: " ".repeat(100_000_000) });
    assert.ok(large.length < 200_000);
    await page.evaluate((hash) => (location.hash = hash), large);
    await page
      .locator("#status", { hasText: "The link holds more than 16 MB of text, the most that is read" })
      .waitFor();
    await settled(page);
    assert.ok((await ids(page)).length > 2);

    // Much text is no fault.
    const long = fragment({ ...SMALL, expressions: `age < 21\n# ${"-".repeat(3_000_000)}` });
    await page.evaluate((hash) => (location.hash = hash), long);
    await page.locator("#counts", { hasText: "1 expression ·" }).waitFor();
    await settled(page);
    assert.deepEqual(await ids(page), []);
  });
});

test("a search and a build are stopped, and the next search has the same expressions", async () => {
  const stop = (page) => page.getByRole("button", { name: "Stop" });
  const stopped = async (page) => {
    await stop(page).click();
    await settled(page);
    assert.equal(await headline(page), "Stopped");
    assert.match(await status(page), /stopped/);
    assert.ok(await stop(page).isDisabled());
  };

  await withPage(browser, DESKTOP, async (page) => {
    // A search takes ten seconds.
    const expressions = Array.from({ length: 200 }, (_, index) => `s matches '.*a.{${1 + index}}x'`);
    const state = {
      schema: `{"s": "string"}`,
      expressions: expressions.join("\n"),
      event: `{"s": "${"a".repeat(20_000)}"}`,
    };
    await page.goto(site.url + fragment(state));
    await page.locator("#counts", { hasText: "200 expressions" }).waitFor();
    assert.equal(await page.locator("#result").getAttribute("aria-busy"), "true");
    await stopped(page);
    await replace(page, "event", `{"s": "aax"}`);
    await settled(page);
    assert.equal(await headline(page), "1 expression matches");
    assert.deepEqual(await ids(page), ["1"]);
    assert.equal(await status(page), "");
  });

  await withPage(browser, DESKTOP, async (page) => {
    await page.goto(site.url + fragment({ kind: "generated", count: 1_000_000, seed: 1, event: null }));
    await page.locator("#status", { hasText: "Inserting" }).waitFor();
    await stopped(page);
    await page.getByRole("button", { name: "Feature flags" }).click();
    await settled(page);
    assert.ok((await ids(page)).length > 0);
  });

  // The file of an image is read again.
  await playground(DESKTOP, async (page) => {
    await page.setInputFiles("#file", image);
    await page.locator("#counts", { hasText: `${cases.info.expressions} expressions` }).waitFor();
    await settled(page);
    const found = await headline(page);
    await page.evaluate(() => {
      // Before the worker replies.
      document.querySelector("#explained").value = "1";
      document.querySelector("#explained").dispatchEvent(new Event("change"));
      document.querySelector("#stop").click();
    });
    assert.equal(await headline(page), "Stopped");
    await replace(page, "event", "{ }");
    await settled(page);
    assert.equal(await headline(page), found);
  });
});

test("an image is opened, dropped, searched and explained", async () => {
  await playground(DESKTOP, async (page) => {
    const check = async () => {
      await page
        .locator("#counts", {
          hasText: `${cases.info.expressions} expressions`,
        })
        .waitFor();
      await replace(page, "event", `{"i": 4, "s": "CA"}`);
      await settled(page);
      const expressions = cases.rows.map(({ expression }) => expression);
      const found = await ids(page);
      assert.ok(
        found.includes(`${expressions.indexOf("i > 3")}`) && !found.includes(`${expressions.indexOf("i < 3")}`),
      );
      await page.locator("#explained").fill(`${expressions.indexOf("i < 3")}`);
      await page.keyboard.press("Enter");
      await settled(page);
      assert.equal(await page.locator("#verdict").innerText(), "does not match, because");
      assert.deepEqual(await page.locator("#explanation .part").allTextContents(), ["✗false: i < 3i is 4"]);
      assert.match(await editor(page, "schema").innerText(), /"segments"/);
    };
    await page.locator("#file").setInputFiles(image);
    await check();

    await page.getByRole("button", { name: "Fraud" }).click();
    await settled(page);
    const transfer = await page.evaluateHandle((bytes) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([Uint8Array.from(atob(bytes), (byte) => byte.charCodeAt(0))], "cases.wasm"));
      return transfer;
    }, readFileSync(image).toString("base64"));
    await page.dispatchEvent("main", "dragover", { dataTransfer: transfer });
    await page.locator("#drop").waitFor();
    await page.dispatchEvent("main", "drop", { dataTransfer: transfer });
    await page.locator("#drop").waitFor({ state: "hidden" });
    await check();

    await page.locator("#file").setInputFiles({
      name: "no.wasm",
      mimeType: "application/wasm",
      buffer: Buffer.from("no image"),
    });
    await page
      .locator("#status", {
        hasText: "no.wasm was not read: this is no image of an index",
      })
      .waitFor();
    await page.getByRole("button", { name: "Ad targeting" }).click();
    await settled(page);
    assert.ok((await ids(page)).length > 2);
  });
});

test("a hundred thousand expressions are built in the worker, and the page is used meanwhile", async () => {
  await playground(DESKTOP, async (page) => {
    await page.getByRole("button", { name: "100,000 expressions" }).click();
    await page.locator("#status", { hasText: "Inserting" }).waitFor();
    await page.getByRole("button", { name: "Feature flags" }).click();
    await settled(page);
    assert.ok((await ids(page)).length < 50);

    await page.getByRole("button", { name: "100,000 expressions" }).click();
    await page.locator("#counts", { hasText: "100,000 expressions" }).waitFor();
    await settled(page);
    const matches = Number((await headline(page)).replace(/[^\d]/g, ""));
    const total = await page.locator("#totals div", { hasText: "Matches" }).locator("dd").innerText();
    assert.ok(matches > 200);
    assert.equal(Number(total.replace(",", "")), matches);
    assert.equal(await page.locator("#verdict").innerText(), "matches, because");
    assert.match(await page.locator("#picture .note").innerText(), /only the search's path/);
    const link = await page.evaluate(() => location.hash);
    assert.ok(link.length < 1000, "the link has the seed, not the expressions");
  });
});

test("by keyboard alone", async () => {
  await playground(DESKTOP, async (page) => {
    const focused = () =>
      page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
    const tabTo = async (name) => {
      for (let key = 0; key < 40; key++) {
        await page.keyboard.press("Tab");
        if ((await focused()) === name) return;
      }
      assert.fail(`no Tab leads to ${name}`);
    };
    await tabTo("Feature flags");
    await page.keyboard.press("Enter");
    await settled(page);
    await tabTo("Expressions, one a line");
    await page.keyboard.press("Control+Home");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("End");
    await page.keyboard.type(" or true");
    await settled(page);
    await page.locator("#matches .id").first().filter({ hasText: /^2$/ }).waitFor();
    await tabTo("Event, as JSON");
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText(`{"user_id": 1, "plan": "free", "bucket": 50}`);
    await settled(page);
    await tabTo("Step");
    await page.keyboard.press("Home");
    assert.match(await page.locator("#step-text").innerText(), /^Before the first/);
    await page.keyboard.press("ArrowRight");
    assert.match(await page.locator("#step-text").innerText(), /^Step 1 of/);
  });
});

for (const [name, options] of [
  ["wide", DESKTOP],
  ["in dark mode", { ...DESKTOP, colorScheme: "dark" }],
  ["at phone width", PHONE],
  ["at phone width in dark mode", { ...PHONE, colorScheme: "dark" }],
]) {
  test(`accessible and whole, ${name}`, async () => {
    await playground(options, async (page) => {
      assert.deepEqual(await accessibilityFaults(page), []);
      await newLine(page, "age >");
      await settled(page);
      await page.locator(".cm-fault-line").waitFor();
      await page.locator("#matches button").first().click();
      await page.locator("#previous").click();
      assert.deepEqual(await accessibilityFaults(page), []);
      const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(inner <= outer, `the page is ${inner} wide in a window of ${outer}`);
      for (const id of ["expressions", "event", "schema", "matches", "explanation", "picture"]) {
        const { height } = await page.locator(`#${id}`).boundingBox();
        assert.ok(height > 60, `${id} is ${height} high`);
      }
    });
  });
}

test("all conformance cases, by the package in Chromium", async () => {
  await withPage(browser, {}, async (page) => {
    await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
    await page.goto(`${files.url}wasm/web/package.json`);
    const found = await page.evaluate(async () => {
      const library = await import("/_build/web/package/index.js");
      await library.init();
      const { differences } = await import("/wasm/web/test/conformance.js");
      const cases = await (await fetch("/_build/web/cases.json")).json();
      const image = new Uint8Array(await (await fetch("/_build/web/cases.wasm")).arrayBuffer());
      return differences(library, cases, image);
    });
    assert.deepEqual(found, []);
  });
});

test("an index in a worker of a page, which is ended and begins anew", async () => {
  await withPage(browser, {}, async (page) => {
    await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
    await page.goto(`${files.url}wasm/web/package.json`);
    const found = await page.evaluate(async () => {
      const { BeTreeWorker } = await import("/_build/web/package/worker.js");
      const worker = new BeTreeWorker({ age: "integer" });
      await worker.insert(1, "age >= 21");
      const first = await worker.search({ age: 30 });
      const late = await worker.profile(Array(20_000).fill({ age: 30 }), { timeout: 0 }).catch((error) => error.kind);
      const again = await worker.search({ age: 30 });
      const refused = await worker.search({ age: "x" }).catch((error) => error.kind);
      const { restarts } = worker;
      worker.terminate();
      return { first, late, again, refused, restarts };
    });
    assert.deepEqual(found, { first: [1], late: "timeout", again: [1], refused: "type", restarts: 1 });
  });
});

test("all conformance cases, on the page", async () => {
  const integer = (_name, value) => (value?.$integer === undefined ? value : (JSON.rawJSON?.(value.$integer) ?? value));
  const toText = (value) =>
    JSON.stringify(value, integer).replace(/\{"\$integer":"(-?\d+)"\}/g, (_all, digits) => digits);
  const constants = Object.entries(cases.constants).map(([name, value]) => `${name} = ${value}`);
  const texts = cases.rows.map(({ expression }) => expression.replace(/[\r\n\t]/g, " "));
  const link = (event) =>
    fragment({
      schema: JSON.stringify(Object.fromEntries(cases.schema)),
      expressions: [`# with ${constants.join(", ")}`, ...texts].join("\n"),
      event: toText(event),
    });
  await playground(
    DESKTOP,
    async (page) => {
      const wrong = [];
      for (const { expression, event, found } of cases.rows) {
        await page.evaluate((hash) => {
          if (location.hash === hash) return;
          document.querySelector("#result").setAttribute("aria-busy", "true");
          location.hash = hash;
        }, link(event));
        await settled(page);
        const [shown, expected] = [(await ids(page)).join(), found.map((id) => id + 2).join()];
        if (shown !== expected) wrong.push(`${expression} ${toText(event)}: ${shown} instead of ${expected}`);
      }
      assert.deepEqual(wrong, []);
    },
    link({}),
  );
});

test("each refusal of the conformance cases, on the page", async () => {
  const refusals = cases.refusals.filter(
    ({ expression }) => typeof expression === "string" && expression.trim() !== "",
  );
  assert.ok(refusals.length > 35);
  // An expression is refused for too many distinct constants by those of the others too, so these are alone.
  const [counted, others] = [
    refusals.filter(({ column }) => column === null),
    refusals.filter(({ column }) => column !== null),
  ];
  for (const list of [others, ...counted.map((refusal) => [refusal])]) {
    const state = {
      schema: JSON.stringify(Object.fromEntries([...cases.schema, ...cases.bounded])),
      expressions: list.map(({ expression }) => expression).join("\n"),
      event: "{}",
    };
    await playground(
      { viewport: { width: 1280, height: 3000 } },
      async (page) => {
        const shown = await page.locator(".cm-fault-line > span:last-child").allInnerTexts();
        assert.deepEqual(
          shown,
          list.map(({ reason }) => `^ ${reason}`),
        );
      },
      fragment(state),
    );
  }
});
