// A headless Chromium for tests: the one of the system, at CHROMIUM or where Debian installs it.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Starts Chromium. Close it with `close()`. */
export function launch() {
  const executablePath = process.env.CHROMIUM ?? PLACES.find((place) => existsSync(place));
  if (executablePath === undefined)
    throw new Error("Chromium is missing: apt-get install chromium, or set CHROMIUM to its path");
  // In a container Chromium cannot have its own sandbox. It opens only pages of this project.
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
}

/**
 * Opens a page with the options of a Playwright context, and gives it to `use`. Fails if the page logged an error, threw one, or
 * was refused a file.
 */
export async function withPage(browser, options, use) {
  const context = await browser.newContext(options);
  const faults = [];
  context.on("page", (page) => watch(page, faults));
  try {
    const page = await context.newPage();
    const result = await use(page, context);
    if (faults.length > 0) throw new Error(`the page reported:\n${faults.join("\n")}`);
    return result;
  } finally {
    await context.close();
  }
}

function watch(page, faults) {
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`uncaught: ${error.message}`));
  page.on("requestfailed", (request) => {
    const reason = request.failure()?.errorText;
    // The browser ends the requests of a page that is left, such as that of its icon.
    if (reason !== "net::ERR_ABORTED") faults.push(`not loaded: ${request.url()} (${reason})`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) faults.push(`${response.status()}: ${response.url()}`);
  });
}

/** Returns what axe-core finds wrong with the page, a line for each element. */
export async function accessibilityFaults(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.flatMap(({ id, help, nodes }) => nodes.map(({ html }) => `${id}: ${help}: ${html.slice(0, 200)}`));
}
