// Images of which one function traps.
import { createHash } from "node:crypto";

const SECTIONS = { exports: 7, code: 10 };
const FUNCTION = 0;
const [UNREACHABLE, NOP] = [0x00, 0x01];
/** Two instructions with one byte behind the opcode, as functions of LLVM begin. */
const TWO_BYTES = [0x20, 0x23];
// Where the digest is in an image (docs/guides/image.md).
const DIGEST = { at: 38, bytes: 32 };

/** Returns an image whose exported function `name` begins with a trap. Its digest is right. */
export function trapping(image, name) {
  const bytes = new Uint8Array(image);
  const at = instructions(new Reader(bytes), name);
  if (!TWO_BYTES.includes(bytes[at])) throw new Error(`${name} begins with the opcode ${bytes[at]}`);
  bytes.set([UNREACHABLE, NOP], at);
  const covered = Buffer.concat([bytes.subarray(0, DIGEST.at), bytes.subarray(DIGEST.at + DIGEST.bytes)]);
  bytes.set(createHash("sha256").update(covered).digest(), DIGEST.at);
  return bytes;
}

/** Returns where the instructions of an exported function begin. An image imports no functions, so they count from 0. */
function instructions(reader, name) {
  reader.toSection(SECTIONS.exports);
  const index = reader.exported(name);
  reader.toSection(SECTIONS.code);
  reader.number();
  for (let passed = 0; passed < index; passed++) reader.skip();
  reader.number();
  for (let groups = reader.number(); groups > 0; groups--) {
    reader.number();
    reader.at += 1;
  }
  return reader.at;
}

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  /** Reads a number in LEB128. */
  number() {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.bytes[this.at++];
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  }

  /** Passes a size and as many bytes. */
  skip() {
    const size = this.number();
    this.at += size;
  }

  toSection(id) {
    const header = 8;
    this.at = header;
    while (this.bytes[this.at++] !== id) this.skip();
    this.number();
  }

  exported(name) {
    for (let left = this.number(); left > 0; left--) {
      const size = this.number();
      const found = Buffer.from(this.bytes.subarray(this.at, this.at + size)).toString();
      this.at += size;
      const kind = this.bytes[this.at++];
      const index = this.number();
      if (found === name && kind === FUNCTION) return index;
    }
    throw new Error(`the image has no function ${name}`);
  }
}
