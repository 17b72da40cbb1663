// The error of every refusal.

import { caret } from "./caret.js";

export class BeTreeError extends Error {
  constructor(refusal, text = null) {
    const { kind, message, attribute = null, column = null, position = null, line = null, steps = null } = refusal;
    const shown = text !== null && column !== null ? caret(text, column) : null;
    // `structuredClone` and `postMessage` keep the cause of an error, and drop its other fields.
    const cause = { kind, message, attribute, column, position, line, steps, text, caret: shown };
    const sentence = line === null ? message : `${message} (line ${line})`;
    super(shown === null ? sentence : `${sentence}\n\n${shown.replace(/^/gm, "    ")}`, { cause });
    this.name = "BeTreeError";
    this.kind = kind;
    this.reason = message;
    this.attribute = attribute;
    this.column = column;
    this.position = position;
    this.line = line;
    this.steps = steps;
    this.text = text;
    this.caret = shown;
  }
}

/** Returns the error of a WebAssembly module that is not there yet, or cannot be loaded. */
export function notLoaded(message) {
  return new BeTreeError({ kind: "not_loaded", message });
}
