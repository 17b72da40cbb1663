// Images: indexes in modules of their own.

import { attributes } from "./be_tree_web.js";
import { attempt } from "./attempt.js";
import { notAnImage, read } from "./image_bytes.js";

/** The exports of an image's instance, and the attributes of its schema. */
export class Instance {
  constructor(exports, attributes) {
    this.exports = exports;
    this.attributes = attributes;
  }
}

/** Returns the instance of an image. */
export async function instantiate(image) {
  const bytes = await read(image);
  const module = await compile(bytes);
  const [section] = WebAssembly.Module.customSections(module, "be_tree");
  if (section === undefined) throw notAnImage("it lacks the section `be_tree`");
  await checkDigest(bytes, section);
  let instance;
  try {
    instance = await WebAssembly.instantiate(module, {});
  } catch (error) {
    throw notAnImage(error.message);
  }
  const fields = attempt(() => attributes(new Uint8Array(section)));
  return new Instance(instance.exports, fields);
}

async function compile(bytes) {
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw notAnImage(error.message);
  }
}

// Where the digest is in the section and in the file, and its bytes (docs/guides/image.md).
const DIGEST = { inSection: 16, inFile: 38, bytes: 32 };

/** Checks the digest where the platform has one: a browser lacks it on a page that came over HTTP. */
async function checkDigest(bytes, section) {
  const subtle = globalThis.crypto?.subtle;
  if (subtle === undefined) return;
  const expected = new Uint8Array(section, DIGEST.inSection, DIGEST.bytes);
  const covered = new Uint8Array(bytes.length - DIGEST.bytes);
  covered.set(bytes.subarray(0, DIGEST.inFile));
  covered.set(bytes.subarray(DIGEST.inFile + DIGEST.bytes), DIGEST.inFile);
  const actual = new Uint8Array(await subtle.digest("SHA-256", covered));
  if (!actual.every((byte, place) => byte === expected[place]))
    throw notAnImage("its digest is another; it was changed");
}
