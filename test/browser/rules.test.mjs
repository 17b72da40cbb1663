// The page of rules in Chromium, with real clicks and keys. `make test` builds it and the cases before.
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { deflateRawSync, gzipSync } from "node:zlib";

import { serve } from "../../playground/serve.mjs";
import { accessibilityFaults, launch, withPage } from "./browser.mjs";

const root = fileURLToPath(new URL("../../", import.meta.url));

const DESKTOP = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

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

/** Opens the page of rules, and gives it to `use` when it shows a result. */
function playground(options, use, fragment = "") {
  return withPage(browser, options, async (page, context) => {
    await page.goto(`${site.url}rules.html${fragment}`);
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
const notices = (page) => page.locator("#notices li").allInnerTexts();
const facts = (page) => page.locator("#facts li").allInnerTexts();
const status = (page) => page.locator("#status").innerText();
const words = (texts) => texts.map((text) => text.replace(/\s+/g, " "));

async function replace(page, id, text) {
  await editor(page, id).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

/** Returns the fragment of a link. */
const fragment = (state) => `#1=${deflateRawSync(JSON.stringify({ kind: "rules", ...state })).toString("base64url")}`;

const COUNT = `fact click(n: integer)\nrule seen when c: click then notify seen(n: c.n)\n`;

test("the first load is small, from this server only, and loads no index", async () => {
  await withPage(browser, DESKTOP, async (page) => {
    const loaded = [];
    page.on("response", (response) => loaded.push(response));
    await page.goto(`${site.url}rules.html`);
    await settled(page);
    assert.equal(await headline(page), "2 notices");
    const bodies = await Promise.all(loaded.map((response) => response.body()));
    const bytes = bodies.reduce((sum, body) => sum + gzipSync(body).length, 0);
    assert.ok(loaded.length >= 5 && bytes < 1_000_000, `${bytes} bytes in ${loaded.length} files`);
    const names = loaded.map((response) => response.url());
    assert.ok(names.every((name) => name.startsWith(site.url) && !name.endsWith("be_tree_web_bg.wasm")));
  });
});

test("notices stand at the line of their call, and the facts that are left below", async () => {
  await playground(DESKTOP, async (page) => {
    assert.deepEqual(words(await notices(page)), ["5 paid order: 1, seconds: 60", '6 unpaid order: 2, user: "bob"']);
    assert.deepEqual(words(await page.locator("#facts h3").allInnerTexts()), ["order 0 facts", "payment 1 fact"]);
    assert.equal(await page.locator("#script .cm-match").count(), 2);
    await page.locator("[data-name=takeover]").click();
    await settled(page);
    assert.deepEqual(
      words(await notices(page)).map((text) => text.slice(0, 10)),
      ["7 takeover", "9 takeover"],
    );
  });
});

test("a script is run again while it is typed", async () => {
  const script =
    '{"click": {"n": 1}}\n[{"click": {"n": 2}}, {"click": {"n": 3}}]\n{"retract": 1}\n\n# {"retract": 2}\n';
  await playground(
    DESKTOP,
    async (page) => {
      assert.deepEqual(words(await notices(page)), ["1 seen n: 1", "2 seen n: 2", "2 seen n: 3"]);
      assert.deepEqual(words(await facts(page)), ["3 n: 3 at 0", "2 n: 2 at 0"]);
      await editor(page, "script").click();
      await page.keyboard.press("Control+End");
      await page.keyboard.insertText('{"click": {"n": 4, "at": 60000}}');
      await settled(page);
      assert.equal(await headline(page), "4 notices");
      assert.deepEqual(words(await facts(page))[0], "4 n: 4 at 60,000");
      assert.equal(await page.locator("#counts").innerText(), "time 60,000 ms");
    },
    fragment({ rules: COUNT, script }),
  );
});

test("a fault is marked at its place, in the rules and in the calls", async () => {
  await playground(DESKTOP, async (page) => {
    await replace(page, "rules", COUNT.replace("c: click", "c: clik"));
    await settled(page);
    const fault = page.locator("#rules .cm-fault-line");
    assert.match(await fault.innerText(), /\^ .*did you mean `click`\?/);
    assert.match(await status(page), /^In the rules, line 2, column 19: /);
    assert.equal(await page.locator("#rules .cm-fault").innerText(), "clik");
    assert.equal(await headline(page), "The rules have a fault");

    await replace(page, "rules", COUNT);
    await replace(page, "script", '{"click": {"n": x}}\n{"click": {"n": "1"}}\n{"retract": 9}\n{"click": {"n": 1}}');
    await settled(page);
    const shown = await page.locator("#script .cm-fault-line > span:last-child").allInnerTexts();
    assert.equal(shown.length, 3);
    assert.match(shown[1], /`n` of `click` is an integer/);
    assert.match(shown[2], /there is no fact 9/);
    assert.match(await status(page), /^In the calls, line 1, column 17: /);
    // A call with a fault changes nothing, and the others are made.
    assert.deepEqual(words(await notices(page)), ["4 seen n: 1"]);
    assert.deepEqual(words(await facts(page)), ["1 n: 1 at 0"]);
  });
});

test("rules without end are told of, and their call is undone", async () => {
  await playground(DESKTOP, async (page) => {
    await page.locator("[data-name=endless]").click();
    await settled(page);
    assert.match(await status(page), /^In the calls, line 2, column 1: the call fired 20000 rules/);
    assert.equal(await headline(page), "0 notices");
    assert.deepEqual(await facts(page), []);
    await replace(page, "script", '{"session": {"user": "bob"}}');
    await settled(page);
    assert.match(await status(page), /^Warning: rules `open` .* can enable each other without end$/);
  });
});

test("a join that takes long is stopped", async () => {
  const names = Array.from({ length: 8 }, (_, place) => `c${place}`);
  const conditions = names.map((name, place) => `${name}: click${place === 7 ? `(n > c0.n + c6.n + 999)` : ""}`);
  const rules = `fact click(n: integer)\nrule long when ${conditions.join(" ")} then notify seen`;
  const script = JSON.stringify(Array.from({ length: 60 }, (_, n) => ({ click: { n } })));
  await withPage(browser, DESKTOP, async (page) => {
    await page.goto(`${site.url}rules.html${fragment({ rules, script })}`);
    await page.locator("#stop:not(:disabled)").click();
    assert.equal(await headline(page), "Stopped");
    await replace(page, "rules", COUNT);
    await replace(page, "script", '{"click": {"n": 1}}');
    await settled(page);
    assert.equal(await headline(page), "1 notice");
  });
});

test("a reply about older texts does not end the wait for newer ones", async () => {
  await withPage(browser, DESKTOP, async (page) => {
    await page.addInitScript(holdPauses);
    const script = (count) => '{"click": {"n": 1}}\n'.repeat(count);
    await page.goto(`${site.url}rules.html${fragment({ rules: COUNT, script: script(1) })}`);
    await settled(page);
    await replace(page, "script", script(2));
    // The calls go to the worker, and a third one is typed before the reply comes.
    await page.evaluate((text) => {
      globalThis.endPauses();
      document.execCommand("insertText", false, text);
    }, script(1));
    await page.locator("#headline", { hasText: "2 notices" }).waitFor();
    assert.equal(await page.locator("#result").getAttribute("aria-busy"), "true");
    await page.evaluate(() => globalThis.endPauses());
    await settled(page);
    assert.equal(await headline(page), "3 notices");
  });
});

/** Runs in the page: its pauses after typing end when `endPauses` is called. */
function holdPauses() {
  const { setTimeout } = globalThis;
  let pauses = [];
  globalThis.setTimeout = (run, delay, ...rest) => (delay === 120 ? pauses.push(run) : setTimeout(run, delay, ...rest));
  globalThis.endPauses = () => {
    const [run] = pauses.splice(0).slice(-1);
    run();
  };
}

test("a link reproduces the page, and Back returns to the texts before", async () => {
  await playground(DESKTOP, async (page, context) => {
    await replace(page, "rules", COUNT);
    await replace(page, "script", '{"click": {"n": 7}}');
    await settled(page);
    await page.locator("#share").click();
    await page.locator("#status", { hasText: "link" }).waitFor();
    const other = await context.newPage();
    await other.goto(page.url());
    await settled(other);
    assert.deepEqual(words(await notices(other)), ["1 seen n: 7"]);
    await page.locator("[data-name=devices]").click();
    await page.locator("#notices", { hasText: "hot" }).waitFor();
    await page.goBack();
    await page.locator("#notices", { hasText: "n: 7" }).waitFor();
    assert.equal(await editor(page, "script").innerText(), '{"click": {"n": 7}}');
  });
});

test("a damaged link, and one of the page of expressions, show an example", async () => {
  for (const hash of ["#1=xyz", "#2=a", fragment({ kind: "text", schema: "{}", expressions: "", event: "{}" })]) {
    await playground(
      DESKTOP,
      async (page) => {
        assert.equal(await headline(page), "2 notices");
        assert.match(await status(page), /This is an example instead\.$/);
      },
      hash,
    );
  }
});

test("the pages link to each other", async () => {
  /** Follows a link. A page that is left while its icon loads would report that. */
  async function follow(page, name, file) {
    await page.waitForLoadState("networkidle");
    await page.getByRole("link", { name, exact: true }).click();
    await page.waitForURL(({ pathname }) => pathname.endsWith(`/${file}`), { waitUntil: "networkidle" });
    await settled(page);
  }
  await playground(DESKTOP, async (page) => {
    await follow(page, "Expressions", "");
    assert.match(await headline(page), /expressions match/);
    await follow(page, "Rules", "rules.html");
    assert.equal(await headline(page), "2 notices");
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
      await replace(page, "script", '{"order": {"id": "1"}}');
      await page.locator("#script .cm-fault-line").waitFor();
      assert.deepEqual(await accessibilityFaults(page), []);
      const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(inner <= outer, `the page is ${inner} wide in a window of ${outer}`);
      for (const id of ["rules", "script", "notices", "facts"]) {
        const { height } = await page.locator(`#${id}`).boundingBox();
        assert.ok(height > 60, `${id} is ${height} high`);
      }
    });
  });
}

test("scripts of calls, by the package in Chromium", async () => {
  await withPage(browser, {}, async (page) => {
    await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
    await page.goto(`${files.url}wasm/web/package.json`);
    const faults = await page.evaluate(async () => {
      const library = await import("/_build/web/package/rules.js");
      await library.init();
      const { differencesOfRules } = await import("/wasm/web/test/rules_conformance.js");
      const cases = await (await fetch("/_build/web/rules_cases.json")).json();
      return differencesOfRules(library, cases).faults;
    });
    assert.deepEqual(faults, []);
  });
});
