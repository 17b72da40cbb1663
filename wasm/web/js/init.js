// Loads a module asynchronously, from a source of the caller or of the entry.

import { notLoaded } from "./error.js";

/**
 * Returns the function `init` of an entry whose module is `file`: `load` takes the compiled module, `standard` returns the source that
 * is used if the caller gives none.
 */
export function initOf(file, load, standard) {
  let loading = null;
  return (source) => {
    loading ??= compiled(file, source ?? standard()).then(load);
    const current = loading;
    // The next call tries again.
    current.catch(() => (loading = loading === current ? null : loading));
    return current;
  };
}

/** Returns the compiled module of a source: a module, its bytes, a Response, a Blob, or the address of one; or a promise of these. */
export async function compiled(file, source) {
  const given = await source;
  if (given instanceof WebAssembly.Module) return given;
  if (ArrayBuffer.isView(given) || Object.prototype.toString.call(given) === "[object ArrayBuffer]")
    return attempt(() => WebAssembly.compile(given));
  if (typeof given === "string" || typeof given?.href === "string") return ofResponse(file, await fetched(given));
  if (typeof given?.arrayBuffer === "function") return ofResponse(file, given);
  throw notLoaded(`init expects the address of ${file}, its bytes, a Response, a Blob or a WebAssembly.Module`);
}

async function fetched(url) {
  try {
    return await fetch(url);
  } catch (error) {
    throw notLoaded(`${url} cannot be read: ${error.message}`);
  }
}

/** Compiles while the body arrives, if the server tells the type of WebAssembly. */
async function ofResponse(file, response) {
  const mend = `serve ${file} of the package there, or give init its address`;
  if (response.ok === false)
    throw notLoaded(`${response.url} cannot be read: HTTP status ${response.status} ${response.statusText}; ${mend}`);
  const type = response.headers?.get("content-type") ?? "";
  if (type.startsWith("text/html"))
    throw notLoaded(`${response.url} is a page of HTML, no WebAssembly module; ${mend}`);
  return attempt(async () =>
    type.startsWith("application/wasm") && WebAssembly.compileStreaming !== undefined
      ? WebAssembly.compileStreaming(response)
      : WebAssembly.compile(await response.arrayBuffer()),
  );
}

async function attempt(compile) {
  try {
    return await compile();
  } catch (error) {
    const isPolicy = /unsafe-eval|Content Security Policy/i.test(error.message);
    const mend = isPolicy ? "; add 'wasm-unsafe-eval' to script-src of the page's Content-Security-Policy" : "";
    throw notLoaded(`the WebAssembly module cannot be compiled: ${error.message}${mend}`);
  }
}
