// The script of the page of rules: a call a line, in JSON.

/** A call. `{"advance": 60000}` and `{"retract": 1}` have a number, a fact an object of fields; a list is of facts. */
export type Call =
  | { kind: "assert"; fact: string }
  | { kind: "assertAll"; facts: object[] }
  | { kind: "advance"; time: number }
  | { kind: "retract"; id: number };

export interface ScriptLine {
  line: number;
  text: string;
}

/** Returns the lines that have a call. Empty lines and lines that begin with `#` have none. */
export function scriptLines(script: string): ScriptLine[] {
  return script
    .split("\n")
    .map((text, place) => ({ line: place + 1, text }))
    .filter(({ text }) => text.trim() !== "" && !text.trim().startsWith("#"));
}

/** Reads a call. The rules read a fact from its text, so that they tell the column of a fault, JSON's own faults too. */
export function readCall(text: string): Call {
  const given = parsed(text);
  if (Array.isArray(given)) return { kind: "assertAll", facts: given as object[] };
  if (typeof given?.advance === "number") return { kind: "advance", time: given.advance };
  if (typeof given?.retract === "number") return { kind: "retract", id: given.retract };
  return { kind: "assert", fact: text };
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown> | null;
  } catch {
    return null;
  }
}
