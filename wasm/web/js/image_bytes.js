// The bytes of an image, which a page may read without the module of the index.

import { describe, isArrayBuffer, isBytes, toBytes, wrong } from "./arguments.js";
import { BeTreeError } from "./error.js";

/** Returns the bytes of an image. Those of the caller are not copied. */
export async function read(image) {
  if (isBytes(image)) return toBytes(image);
  if (isArrayBuffer(image)) return new Uint8Array(image);
  if (typeof image?.arrayBuffer !== "function")
    throw wrong(`load expects a Uint8Array, an ArrayBuffer, a Blob or a Response, but got ${describe(image)}`);
  if (image.ok === false)
    throw notAnImage(`${image.url} cannot be read: HTTP status ${image.status} ${image.statusText}`);
  return new Uint8Array(await image.arrayBuffer());
}

export function notAnImage(fault) {
  return new BeTreeError({
    kind: "bad_module",
    message: `this is no image of an index: ${fault}`,
  });
}
