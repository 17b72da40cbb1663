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

/** Returns the fragment of a state. */
export async function encode(state: State): Promise<string> {
  const text = JSON.stringify(state, (_name, value) => (typeof value === "bigint" ? { id: `${value}` } : value));
  const bytes = await pipe(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return `#${KEY}=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** Returns the state of a fragment, or `null` if it has none. Throws for a fragment that was damaged. */
export async function decode(fragment: string): Promise<State | null> {
  const [key, given] = fragment.replace(/^#/, "").split("=");
  if (key !== KEY || !given) return null;
  const binary = atob(given.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  const text = new TextDecoder().decode(await pipe(bytes, new DecompressionStream("deflate-raw")));
  return check(JSON.parse(text, (_name, value) => (typeof value?.id === "string" ? BigInt(value.id) : value)));
}

async function pipe(bytes: Uint8Array<ArrayBuffer>, through: ReadableWritablePair): Promise<Uint8Array> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(through)).arrayBuffer());
}

const isText = (value: unknown): value is string => typeof value === "string";
const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;

/** The most expressions that a link may have generated. */
const MOST = 1_000_000;

function check(given: Record<string, unknown>): State {
  const { kind, schema, expressions, event, count, seed } = given;
  const step = isCount(given.step) ? given.step : null;
  const selected = isCount(given.selected) || typeof given.selected === "bigint" ? given.selected : null;
  if (kind === "text" && isText(schema) && isText(expressions) && isText(event)) {
    return { kind, schema, expressions, event, step, selected };
  }
  if (kind === "generated" && isCount(count) && count > 0 && count <= MOST && isCount(seed)) {
    return { kind, count, seed, event: isText(event) ? event : null, step, selected };
  }
  throw new Error("the link is damaged");
}
