// The error of every refusal.

import { caret } from "./be_tree_web.js";

export class BeTreeError extends Error {
  constructor({ kind, message, attribute = null, column = null, position = null }, text = null) {
    const shown = text !== null && column !== null ? caret(text, column) : null;
    // `structuredClone` and `postMessage` keep the cause of an error, and drop its other fields.
    const cause = { kind, message, attribute, column, position, text, caret: shown };
    super(shown === null ? message : `${message}\n\n${shown.replace(/^/gm, "    ")}`, { cause });
    this.name = "BeTreeError";
    this.kind = kind;
    this.reason = message;
    this.attribute = attribute;
    this.column = column;
    this.position = position;
    this.text = text;
    this.caret = shown;
  }
}
