// The package in the runtimes and bundlers of JavaScript, without any configuration: `make test PART=bundlers`.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { cpSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

import {
  EXPECTED,
  IMPORT,
  ON_PAGE,
  REQUIRE,
  USE,
  installPackage,
  module,
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
  "import.mjs": synchronous(IMPORT),
  "dynamic.mjs": synchronous('const { BeTree, BeTreeError } = await import("be-tree");'),
  "require.cjs": synchronous(REQUIRE),
  "worker.mjs": WORKER,
  "init.mjs": module("console.log(result);"),
  "external.mjs": module("console.log(result);", { entry: "be-tree/external" }),
};

describe("runtimes", () => {
  const runtimes = [
    ["node", process.version, [process.execPath]],
    ["node18", version("node18"), [bin("node18/bin/node")]],
    ["node22", version("node22"), [bin("node22/bin/node")]],
    ["bun", version("bun"), [bin(".bin/bun")]],
    ["deno", version("deno"), [bin(".bin/deno"), "run", "-A"]],
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
  const body = (load) => `${synchronous(load, "")}\ntest("it searches", () => expect(result).toBe('${EXPECTED}'));`;

  test(`Jest ${version("jest")}`, async () => {
    const folder = write("jest", { "app.test.js": body(REQUIRE) });
    await run(folder, process.execPath, installed.resolve("jest/bin/jest"), "--rootDir", folder);
  });

  test(`Vitest ${version("vitest")}`, async () => {
    const imports = `import { expect, test } from "vitest";\n${IMPORT}`;
    const folder = write("vitest", { "app.test.js": body(imports) });
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
        entry: "be-tree/external",
        imports: 'import url from "be-tree/be_tree_web_bg.wasm?url";',
        init: "init(url)",
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
        assert.equal(await serving(join(folder, "dist"), {}, titleOf), EXPECTED);

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

  for (const entry of ["be-tree", "be-tree/external"]) {
    test(`${entry} for the web`, async () => {
      const files = { "app.js": module(ON_PAGE, { entry }), "dist/index.html": page };
      const dist = await bundle(`webpack-${entry.replace("/", "-")}`, files);
      assert.equal(await serving(dist, {}, titleOf), EXPECTED);
    });
  }

  test("for Node", async () => {
    const dist = await bundle("webpack-node", { "app.js": synchronous(IMPORT) }, { target: "node" });
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

  for (const [format, load] of [
    ["esm", IMPORT],
    ["cjs", IMPORT],
    ["cjs", REQUIRE],
  ]) {
    test(`for Node, ${load.split(" ")[0]} as ${format}`, async () => {
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
import { BeTree, BeTreeError, init } from "be-tree";
${USE}
export default function Client() {
  useEffect(() => void init().then(() => (document.title = use())), []);
  return null;
}`;
  const files = {
    "app/layout.js": "export default function Layout({ children }) { return <html><body>{children}</body></html>; }",
    "app/client.js": component,
    "app/page.js": 'import Client from "./client";\nexport default function Page() { return <Client />; }',
    "app/server/route.js": `${IMPORT}\n${USE}
export const dynamic = "force-dynamic";
export const GET = () => new Response(use());`,
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
    "worker.js": `${IMPORT}\n${USE}
export default { fetch: () => new Response(use()) };`,
    "run.mjs": `
import { unstable_startWorker } from "wrangler";
const dev = { server: { port: 0 }, inspector: false, logLevel: "error" };
const worker = await unstable_startWorker({ config: "wrangler.toml", dev });
console.log(await (await worker.fetch("http://localhost/")).text());
await worker.dispose();`,
    "wrangler.toml": 'name = "app"\nmain = "worker.js"\ncompatibility_date = "2025-01-01"\n',
  });
  // Its present versions need Node 22.
  assert.equal(await run(folder, bin("node22/bin/node"), "run.mjs"), EXPECTED);
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
  const policy = (sources) => ({ "content-security-policy": `script-src ${sources}` });

  function site(entry) {
    const folder = write(`page-${entry}`, {
      "index.html": '<!doctype html><script type="module" src="./main.js"></script>',
      "main.js": module(ON_PAGE, { entry: `./be-tree/${entry}.js` }),
    });
    cpSync(join(tools, "node_modules/be-tree"), join(folder, "be-tree"), { recursive: true });
    return folder;
  }

  for (const entry of ["index", "external"]) {
    test(`${entry}.js under a Content-Security-Policy`, async () => {
      const folder = site(entry);
      assert.equal(await serving(folder, policy("'self' 'wasm-unsafe-eval'"), titleOf), EXPECTED);
      assert.match(
        await serving(folder, policy("'self'"), titleOf),
        /^not_loaded: .*add 'wasm-unsafe-eval' to script-src/,
      );
    });
  }

  test("a module that the server lacks", async () => {
    const folder = site("external");
    rmSync(join(folder, "be-tree/be_tree_web_bg.wasm"));
    assert.match(
      await serving(folder, {}, titleOf),
      /^not_loaded: .*be_tree_web_bg\.wasm cannot be read: HTTP status 404/,
    );
  });
});
