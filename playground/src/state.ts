// The state of the page in the fragment of its address, so that a link reproduces what one sees.
import type { Id } from "be-tree";

export type State = {
  /** The step of the search's path that is shown, or `null` for all. */
  step: number | null;
  selected: Id | null;
} & (
  | { kind: "text"; schema: string; expressions: string; event: string }
  | { kind: "generated"; count: number; seed: number; event: string | null }
);

const KEY = "1";

/** Returns the fragment of a page's state. */
export async function encode(state: object): Promise<string> {
  const text = JSON.stringify(state, (_name, value) => (typeof value === "bigint" ? { id: `${value}` } : value));
  const bytes = await pipe(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return `#${KEY}=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The most bytes of a link's texts. A link of 100 kilobytes may hold a thousand times as many. */
const LARGEST = 16_000_000;
/** The bytes that are inflated at a time, to a thousand times as many. */
const PIECE = 1_024;

/** Why a link is not read. */
export class LinkError extends Error {}

/** Returns the state of a fragment, or `null` if there is none. Throws a `LinkError` for any fragment that this page has not written:
 * `read` returns `null` for the state of another. */
export async function decode<Read>(
  fragment: string,
  read: (given: Record<string, unknown>) => Read | null,
): Promise<Read | null> {
  if (fragment === "" || fragment === "#") return null;
  const [key, given] = fragment.slice(1).split("=");
  if (key !== KEY || !given) throw new LinkError("The part of the address after # is no link of the playground.");
  try {
    const binary = atob(given.replaceAll("-", "+").replaceAll("_", "/"));
    const text = await inflate(Uint8Array.from(binary, (character) => character.charCodeAt(0)));
    const state = read(JSON.parse(text, (_name, value) => (typeof value?.id === "string" ? BigInt(value.id) : value)));
    if (state !== null) return state;
  } catch (error) {
    if (error instanceof LinkError) throw error;
  }
  throw new LinkError("The link is damaged.");
}

async function pipe(bytes: Uint8Array<ArrayBuffer>, through: ReadableWritablePair): Promise<Uint8Array> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(through)).arrayBuffer());
}

/** Inflates a text. It stops beyond the most that a link may hold: a browser inflates each piece as a whole. */
async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  let begin = 0;
  const pieces = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      if (begin >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(begin, (begin += PIECE)));
    },
  });
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  const reader = pieces.pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    length += read.value.length;
    if (length > LARGEST) {
      await reader.cancel();
      throw new LinkError(`The link holds more than ${LARGEST / 1_000_000} MB of text, the most that is read.`);
    }
    text += decoder.decode(read.value, { stream: true });
  }
  return text + decoder.decode();
}

const isText = (value: unknown): value is string => typeof value === "string";
const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;

/** The most expressions that a link may have generated. */
const MOST = 1_000_000;

/** Reads the state of the page of expressions. */
export function readState(given: Record<string, unknown>): State | null {
  const { kind, schema, expressions, event, count, seed } = given;
  const step = isCount(given.step) ? given.step : null;
  const selected = isCount(given.selected) || typeof given.selected === "bigint" ? given.selected : null;
  if (kind === "text" && isText(schema) && isText(expressions) && isText(event)) {
    return { kind, schema, expressions, event, step, selected };
  }
  if (kind === "generated" && isCount(count) && count > 0 && count <= MOST && isCount(seed)) {
    return { kind, count, seed, event: isText(event) ? event : null, step, selected };
  }
  return null;
}
