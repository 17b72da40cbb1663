// The line of a text in which a fault lies, over a caret below the fault.

/** The characters that are shown before the caret, and from it on: as many as fit on a terminal's line. */
const BEFORE = 40;
const FROM = 32;
const ELLIPSIS = "...";

/**
 * Returns the line of `text` with the character `column`, counted from 1, cut to a window, and a second line with a caret below that
 * character.
 */
export function caret(text, column) {
  const characters = Array.from(text);
  const at = Math.min(column - 1, characters.length);
  const start = characters.lastIndexOf("\n", at - 1) + 1;
  const newline = characters.indexOf("\n", at);
  const head = at === 0 ? [] : characters.slice(start, at);
  const tail = characters.slice(at, newline === -1 ? undefined : newline);
  const before = head.length > BEFORE ? ELLIPSIS + shown(head.slice(-BEFORE)) : shown(head);
  const from = tail.length > FROM ? shown(tail.slice(0, FROM)) + ELLIPSIS : shown(tail);
  return `${before}${from}\n${" ".repeat(Array.from(before).length)}^`;
}

/** A space takes the place of a control character. */
function shown(characters) {
  return characters.join("").replace(/[\0-\x1f\x7f]/g, " ");
}
