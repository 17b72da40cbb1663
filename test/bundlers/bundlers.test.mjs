// The package in the runtimes and bundlers of JavaScript, without any configuration: `make test PART=bundlers`.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

import {
  EXPECTED,
  EXTERNAL,
  ON_PAGE,
  USE,
  dynamicImports,
  imports,
  installPackage,
  module,
  requires,
  synchronous,
  tools,
  version,
  write,
} from "./apps.mjs";
import { close, serving, titleOf } from "./pages.mjs";

const installed = createRequire(join(tools, "package.json"));
const bin = (name) => join(tools, "node_modules", name);
const environment = {
  ...process.env,
  CI: "1",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  NEXT_TELEMETRY_DISABLED: "1",
  WRANGLER_SEND_METRICS: "false",
};

const policy = (directives) => ({ "content-security-policy": directives });
// It forbids a worker whose script is a text, which is then a file.
const STRICT = policy("script-src 'self' 'wasm-unsafe-eval'");

before(installPackage);
after(close);

/** Runs a program in a folder, and returns its standard output. */
async function run(cwd, program, ...words) {
  const options = { cwd, env: environment, timeout: 300_000, maxBuffer: 2 ** 26 };
  try {
    return (await promisify(execFile)(program, words, options)).stdout.trim();
  } catch (error) {
    throw new Error(`${error.message}\n${error.stdout}\n${error.stderr}`, { cause: error });
  }
}

const WORKER = `
import { Worker } from "node:worker_threads";
new Worker(new URL("./import.mjs", import.meta.url));`;

const RUNTIMES = {
  "import.mjs": synchronous(imports()),
  "dynamic.mjs": synchronous(dynamicImports),
  "require.cjs": synchronous(requires),
  "worker.mjs": WORKER,
  "init.mjs": module("console.log(result);"),
  "external.mjs": module("console.log(result);", { entries: EXTERNAL }),
};

describe("runtimes", () => {
  const runtimes = [
    ["node", process.version, [process.execPath]],
    ["node18", version("node18"), [bin("node18/bin/node")]],
    ["node22", version("node22"), [bin("node22/bin/node")]],
    ["bun", version("bun"), [bin(".bin/bun")]],
    ["deno", version("deno"), [bin(".bin/deno"), "run", "--allow-read"]],
    ["deno-strict", version("deno"), [bin(".bin/deno"), "run"]],
  ];
  for (const [name, number, [program, ...words]] of runtimes) {
    test(`${name} ${number}`, async () => {
      const folder = write(name, RUNTIMES);
      for (const file of Object.keys(RUNTIMES)) {
        // Without rights Deno lets neither workers nor `require` read files.
        if (name === "deno-strict" && ["worker.mjs", "require.cjs"].includes(file)) continue;
        assert.equal(await run(folder, program, ...words, file), EXPECTED, file);
      }
    });
  }
});

describe("test runners", () => {
  const body = (load) =>
    synchronous(load, { report: `test("it searches", async () => expect(await use()).toBe('${EXPECTED}'));` });

  test(`Jest ${version("jest")}`, async () => {
    const folder = write("jest", { "app.test.js": body(requires) });
    await run(folder, process.execPath, installed.resolve("jest/bin/jest"), "--rootDir", folder);
  });

  test(`Vitest ${version("vitest")}`, async () => {
    const load = `import { expect, test } from "vitest";\n${imports()}`;
    const folder = write("vitest", { "app.test.js": body(load) });
    await run(folder, process.execPath, bin("vitest/vitest.mjs"), "run");
  });
});

describe("Vite", () => {
  const html = '<!doctype html><script type="module" src="./main.js"></script>';
  const onWorker = `
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => (document.title = data);`;
  const apps = {
    page: { "index.html": html, "main.js": module(ON_PAGE) },
    worker: { "index.html": html, "main.js": onWorker, "worker.js": module("postMessage(result);") },
    url: {
      "index.html": html,
      "main.js": module(ON_PAGE, {
        entries: EXTERNAL,
        more: `
import url from "be-tree/be_tree_web_bg.wasm?url";
import urlOfRules from "be-tree/be_tree_rules_web_bg.wasm?url";`,
        init: "init(url)",
        initRules: "initRules(urlOfRules)",
      }),
    },
  };

  for (const major of [5, 6, 7, 8]) {
    for (const [app, files] of Object.entries(apps)) {
      test(`${version(`vite${major}`)}: ${app}, built and served for development`, async () => {
        const { build, createServer } = await import(
          pathToFileURL(join(tools, `node_modules/vite${major}/dist/node/index.js`))
        );
        const folder = write(`vite${major}-${app}`, files);
        await build({ root: folder, logLevel: "error" });
        for (const headers of [{}, STRICT])
          assert.equal(await serving(join(folder, "dist"), headers, titleOf), EXPECTED);

        const server = await createServer({ root: folder, logLevel: "error", server: { port: 0 } });
        try {
          await server.listen();
          assert.equal(await titleOf(server.resolvedUrls.local[0]), EXPECTED);
        } finally {
          await server.close();
        }
      });
    }
  }
});

const page = '<!doctype html><script src="main.js" defer></script>';

describe(`webpack ${version("webpack")}`, () => {
  async function bundle(name, files, more) {
    const folder = write(name, files);
    const options = { context: folder, entry: "./app.js", mode: "production", output: { path: join(folder, "dist") } };
    const stats = await promisify(installed("webpack"))({ ...options, ...more });
    assert.ok(!stats.hasErrors(), stats.toString());
    return join(folder, "dist");
  }

  for (const [name, entries] of [["be-tree"], ["be-tree/external", EXTERNAL]]) {
    test(`${name} for the web`, async () => {
      const files = { "app.js": module(ON_PAGE, { entries }), "dist/index.html": page };
      const dist = await bundle(`webpack-${name.replace("/", "-")}`, files);
      for (const headers of [{}, STRICT]) assert.equal(await serving(dist, headers, titleOf), EXPECTED);
    });
  }

  test("for Node", async () => {
    const dist = await bundle("webpack-node", { "app.js": synchronous(imports()) }, { target: "node" });
    assert.equal(await run(dist, process.execPath, "main.js"), EXPECTED);
  });
});

describe(`esbuild ${version("esbuild")}`, () => {
  const { build } = installed("esbuild");

  test("for a browser", async () => {
    const folder = write("esbuild-browser", { "app.js": module(ON_PAGE), "dist/index.html": page });
    await build({ entryPoints: [join(folder, "app.js")], bundle: true, outfile: join(folder, "dist/main.js") });
    assert.equal(await serving(join(folder, "dist"), {}, titleOf), EXPECTED);
  });

  test("for a browser, where the policy permits no script of a worker", async () => {
    const app = `
import { BeTreeWorker } from "be-tree/worker";
async function use() {
  const worker = new BeTreeWorker({});
  const kinds = [];
  for (let calls = 0; calls < 2; calls++) await worker.size().catch(({ kind }) => kinds.push(kind));
  document.title = kinds.join();
}
use();`;
    const folder = write("esbuild-policy", { "app.js": app, "dist/index.html": page });
    await build({ entryPoints: [join(folder, "app.js")], bundle: true, outfile: join(folder, "dist/main.js") });
    assert.equal(await serving(join(folder, "dist"), STRICT, titleOf), "not_loaded,not_loaded");
  });

  for (const [format, load] of [
    ["esm", imports()],
    ["cjs", imports()],
    ["cjs", requires],
  ]) {
    test(`for Node, ${load.trim().split(" ")[0]} as ${format}`, async () => {
      const folder = write("esbuild-node", { "app.js": synchronous(load) });
      const outfile = join(folder, format === "esm" ? "dist/main.mjs" : "dist/main.cjs");
      await build({ entryPoints: [join(folder, "app.js")], bundle: true, platform: "node", format, outfile });
      assert.equal(await run(folder, process.execPath, outfile), EXPECTED);
    });
  }
});

describe(`Next ${version("next")}`, () => {
  const component = `"use client";
import { useEffect } from "react";
${imports({ init: true })}
${USE}
export default function Client() {
  useEffect(() => void Promise.all([init(), initRules()]).then(use).then((result) => (document.title = result)), []);
  return null;
}`;
  const files = {
    "app/layout.js": "export default function Layout({ children }) { return <html><body>{children}</body></html>; }",
    "app/client.js": component,
    "app/page.js": 'import Client from "./client";\nexport default function Page() { return <Client />; }',
    "app/server/route.js": `${imports()}\n${USE}
export const dynamic = "force-dynamic";
export const GET = async () => new Response(await use());`,
  };
  const next = bin("next/dist/bin/next");

  for (const [bundler, ...words] of [["webpack"], ["Turbopack", "--turbopack"]]) {
    test(`with ${bundler}: a page, and a route of the server`, async () => {
      const folder = write(`next-${bundler.toLowerCase()}`, files);
      await run(folder, process.execPath, next, "build", ...words);
      const server = spawn(process.execPath, [next, "start", "--port", "0", "--hostname", "127.0.0.1"], {
        cwd: folder,
        env: environment,
      });
      try {
        const url = await new Promise((done, failed) => {
          let text = "";
          const read = (data) => {
            text += data;
            const found = /http:\/\/127\.0\.0\.1:\d+/.exec(text);
            if (found && /Ready/.test(text)) done(found[0]);
          };
          server.stdout.on("data", read);
          server.stderr.on("data", read);
          server.once("exit", () => failed(new Error(text)));
        });
        assert.equal(await (await fetch(`${url}/server`)).text(), EXPECTED);
        assert.equal(await titleOf(url), EXPECTED);
      } finally {
        server.kill();
      }
    });
  }
});

test(`Cloudflare Workers, wrangler ${version("wrangler")}`, async () => {
  const folder = write("workers", {
    "worker.js": `${imports()}\n${USE}
export default { fetch: async () => new Response(await use()) };`,
    "run.mjs": `
import { unstable_startWorker } from "wrangler";
const dev = { server: { port: 0 }, inspector: false, logLevel: "error" };
const worker = await unstable_startWorker({ config: "wrangler.toml", dev });
console.log(await (await worker.fetch("http://localhost/")).text());
await worker.dispose();`,
    "wrangler.toml": 'name = "app"\nmain = "worker.js"\ncompatibility_date = "2025-01-01"\n',
  });
  // Its present versions need Node 22.
  const printed = await run(folder, bin("node22/bin/node"), "run.mjs");
  const [found, kind, notice, inWorker] = JSON.parse(printed);
  assert.deepEqual([found, kind, notice], [[1], "syntax", 7]);
  assert.match(inWorker, /^not_loaded: Cloudflare Workers cannot begin a worker; search in a BeTree/);
});

test(`TypeScript ${version("typescript")}, modules and CommonJS`, async () => {
  const types = join(tools, "../../wasm/web/test/types");
  const settings = JSON.parse(readFileSync(join(types, "tsconfig.json")));
  delete settings.compilerOptions.paths;
  const folder = write("types", {
    "use.mts": readFileSync(join(types, "use.mts"), "utf8"),
    "require.cts":
      'import { BeTree } from "be-tree";\nexport const found: number[] = new BeTree<number>({}).search({});\n',
    "tsconfig.json": JSON.stringify({ ...settings, files: ["use.mts", "require.cts"] }),
  });
  await run(folder, process.execPath, bin("typescript/bin/tsc"), "-p", folder);
});

describe("a page without a bundler", () => {
  function site(entry) {
    const rules = entry === "index" ? "rules" : `rules_${entry}`;
    const entries = { index: `./be-tree/${entry}.js`, rules: `./be-tree/${rules}.js`, worker: "./be-tree/worker.js" };
    const folder = write(`page-${entry}`, {
      "index.html": '<!doctype html><script type="module" src="./main.js"></script>',
      "main.js": module(ON_PAGE, { entries }),
    });
    cpSync(join(tools, "node_modules/be-tree"), join(folder, "be-tree"), { recursive: true });
    return folder;
  }

  for (const entry of ["index", "external"]) {
    test(`${entry}.js under a Content-Security-Policy`, async () => {
      const folder = site(entry);
      assert.equal(await serving(folder, STRICT, titleOf), EXPECTED);
      assert.match(
        await serving(folder, policy("script-src 'self'"), titleOf),
        /^not_loaded: .*add 'wasm-unsafe-eval' to script-src/,
      );
    });
  }

  test("a worker without its file, where the policy has blob:", async () => {
    const folder = site("index");
    rmSync(join(folder, "be-tree/worker_page.js"));
    const sources = "script-src 'self' 'wasm-unsafe-eval'; worker-src blob:";
    assert.equal(await serving(folder, policy(sources), titleOf), EXPECTED);
    assert.match(
      await serving(folder, STRICT, titleOf),
      /not_loaded: the worker cannot run: .*permit its script with worker-src blob:/,
    );
  });

  test("a worker alone, where the policy lacks 'wasm-unsafe-eval'", async () => {
    const folder = site("index");
    const main = `
import { BeTreeWorker } from "./be-tree/worker.js";
new BeTreeWorker({}).size().catch((error) => (document.title = error.kind + ": " + error.message));`;
    writeFileSync(join(folder, "main.js"), main);
    assert.match(
      await serving(folder, policy("script-src 'self'; worker-src 'self' blob:"), titleOf),
      /^not_loaded: .*add 'wasm-unsafe-eval' to script-src/,
    );
  });

  test("a module that the server lacks", async () => {
    const folder = site("external");
    rmSync(join(folder, "be-tree/be_tree_web_bg.wasm"));
    assert.match(
      await serving(folder, {}, titleOf),
      /^not_loaded: .*be_tree_web_bg\.wasm cannot be read: HTTP status 404/,
    );
  });
});
