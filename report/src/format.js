// Numbers and texts as the page shows them.

const grouping = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const grouped = (number) => grouping.format(number);

/** 300,000 as 300k, for axes. */
export const short = (number) => {
  if (number >= 1e9) return `${trim(number / 1e9)}G`;
  if (number >= 1e6) return `${trim(number / 1e6)}M`;
  if (number >= 1e3) return `${trim(number / 1e3)}k`;
  return trim(number);
};

const trim = (number) => String(Number(number.toPrecision(3)));

export const percent = (share) => {
  const value = 100 * share;
  if (value === 0 || value === 100) return `${value} %`;
  if (value > 99) return `${value.toFixed(1)} %`;
  return `${value < 0.1 ? value.toPrecision(1) : value < 10 ? value.toFixed(1) : value.toFixed(0)} %`;
};

/** Microseconds, or milliseconds where those are easier to read. */
export const time = (microseconds) => {
  if (microseconds >= 10_000) return `${trim(microseconds / 1_000)} ms`;
  return `${microseconds >= 100 ? grouped(microseconds) : trim(microseconds)} µs`;
};

export const slice = (fuel) => (fuel === null ? "unlimited" : grouped(fuel));
export const shortSlice = (fuel) => (fuel === null ? "unlimited" : short(fuel));

export const range = ({ value, low, high }, format) => `${format(value)} (${format(low)} to ${format(high)})`;

export const plural = (count, one, many = `${one}s`) => `${grouped(count)} ${count === 1 ? one : many}`;

/** Makes an element. Children are elements or texts, so no text of the run is ever read as HTML. */
export const el = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
};

export const table = (header, rows, { caption, numeric = [] } = {}) =>
  el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption ?? "Table" },
    el(
      "table",
      {},
      caption ? el("caption", { class: "hidden" }, caption) : null,
      el("thead", {}, el("tr", {}, header.map((text, at) => el("th", { scope: "col", class: numeric.includes(at) && "number" }, text)))),
      el(
        "tbody",
        {},
        rows.map((row) => el("tr", {}, row.map((cell, at) => el("td", { class: numeric.includes(at) && "number" }, cell)))),
      ),
    ),
  );

/** Escapes a text for the tooltips of the charts, which are HTML. */
export const escape = (text) =>
  String(text).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
