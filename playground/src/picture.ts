// The picture of the tree. Its nodes, levels and labels are those of the drawing, or of the search's path if the tree is too
// large for a drawing.
import type { Trace } from "be-tree";

import { element } from "./dom";

interface Card {
  /** `node` and a number, or `every`. */
  name: string;
  /** The value that leads to the node. */
  title: string;
  /** The ids of its entries. */
  text: string;
  levels: Level[];
}

interface Level {
  name: string;
  attribute: string;
  cards: Card[];
  /** The nodes that are not shown. */
  hidden: number;
}

const ROOT = "node0";
const EVERY = "every";

/** The nodes that are shown of a path. */
const SHOWN = 150;

/** Reads a drawing. Returns its cards: the root, and the expressions that every search visits. */
export function readDrawing(drawing: string): Card[] {
  const cards = new Map<string, Card>();
  const levels = new Map<string, Level>();
  const card = (name: string) => {
    const known = cards.get(name) ?? { name, title: "", text: "", levels: [] };
    cards.set(name, known);
    return known;
  };
  const level = (name: string) => {
    const known = levels.get(name) ?? { name, attribute: "", cards: [], hidden: 0 };
    levels.set(name, known);
    return known;
  };
  for (const line of drawing.split("\n")) {
    const box = /^ {2}(\w+) \[shape=(?:box|ellipse), label="(.*)"\];$/.exec(line);
    const edge = /^ {2}(\w+) -> (\w+)(?: \[label="(.*)"\])?;$/.exec(line);
    if (box?.[1]!.startsWith("level")) level(box[1]!).attribute = unescaped(box[2]!);
    else if (box) card(box[1]!).text = unescaped(box[2]!);
    else if (edge && edge[3] === undefined) card(edge[1]!).levels.push(level(edge[2]!));
    else if (edge) {
      const below = card(edge[2]!);
      below.title = unescaped(edge[3]!);
      level(edge[1]!).cards.push(below);
    }
  }
  const every = cards.get(EVERY);
  if (every) Object.assign(every, { title: "every event", text: every.text.replace(/^every event\n/, "") });
  Object.assign(card(ROOT), { title: "root" });
  return every ? [card(ROOT), every] : [card(ROOT)];
}

function unescaped(label: string): string {
  return label.replace(/\\(.)/g, (_all, character) => (character === "n" ? "\n" : character));
}

/** Returns the cards of a search's path. */
export function readTrace({ steps }: Trace): { cards: Card[]; hidden: number } {
  const cards = new Map<string, Card>();
  const levels = new Map<string, Level>();
  let hidden = 0;
  for (const { node, edge, visited } of steps) {
    const name = node === null ? EVERY : `node${node}`;
    const above = edge && cards.get(`node${edge.above}`);
    if ((edge && !above) || cards.size >= SHOWN) {
      hidden += 1;
      continue;
    }
    const title = edge ? edge.label : node === null ? "every event" : "root";
    const card = cards.get(name) ?? { name, title, text: "", levels: [] };
    card.text = `${visited.toLocaleString("en")} ${visited === 1 ? "entry" : "entries"}`;
    cards.set(name, card);
    if (!edge || !above) continue;
    const levelName = `level${edge.level}`;
    let level = levels.get(levelName);
    if (!level) {
      level = { name: levelName, attribute: edge.attribute, cards: [], hidden: edge.siblings };
      levels.set(levelName, level);
      above.levels.push(level);
    }
    level.cards.push(card);
    level.hidden -= 1;
  }
  const roots = [ROOT, EVERY].flatMap((name) => cards.get(name) ?? []);
  return { cards: roots, hidden };
}

/** The picture in the page. It lights up the nodes that a search has visited. */
export class Picture {
  readonly #cards = new Map<string, HTMLElement>();

  constructor(
    readonly frame: HTMLElement,
    cards: Card[],
    note: string,
  ) {
    const list = element("ul", { className: "tree" }, ...cards.map((card) => this.#node(card)));
    frame.replaceChildren(list, ...(note ? [element("p", { className: "note" }, note)] : []));
    frame.scrollTo(0, 0);
  }

  #node({ name, title, text, levels }: Card): HTMLElement {
    const card = element(
      "div",
      { className: "card" },
      element("span", { className: "card-title" }, title || "(empty)"),
    );
    if (text) card.append(element("span", { className: "card-text" }, text));
    const item = element("li", { className: "node" }, card);
    this.#cards.set(name, item);
    if (levels.length > 0)
      item.append(element("ul", { className: "levels" }, ...levels.map((level) => this.#level(level))));
    return item;
  }

  #level({ attribute, cards, hidden }: Level): HTMLElement {
    const children = cards.map((card) => this.#node(card));
    if (hidden > 0) {
      const more = element("div", { className: "card more" }, `${hidden.toLocaleString("en")} more, not visited`);
      children.push(element("li", { className: "node" }, more));
    }
    const pill = element("div", { className: "pill" }, attribute);
    return element("li", { className: "level" }, pill, element("ul", { className: "children" }, ...children));
  }

  /** Lights up the nodes of `steps`, and shows the last one if `isLast`. */
  light(steps: Trace["steps"], isLast: boolean) {
    const marked = this.frame.querySelectorAll(".lit, .now, .reached, .passed");
    marked.forEach((marked) => marked.classList.remove("lit", "now", "reached", "passed"));
    for (const { node } of steps) {
      const card = this.#cards.get(node === null ? EVERY : `node${node}`);
      const level = card?.closest(".level");
      card?.classList.add("lit");
      level?.classList.add("lit");
      if (level) [level, card!].forEach(lightLines);
    }
    const last = steps.at(-1);
    const now = last && isLast && this.#cards.get(last.node === null ? EVERY : `node${last.node}`);
    if (!now) return;
    now.classList.add("now");
    this.#show(now.firstElementChild!);
  }

  /** Scrolls the picture, and never the page. */
  #show(card: Element) {
    const [frame, shown] = [this.frame.getBoundingClientRect(), card.getBoundingClientRect()];
    const top = shown.top - frame.top + this.frame.scrollTop;
    const left = shown.left - frame.left + this.frame.scrollLeft;
    const isSeen =
      shown.top >= frame.top && shown.bottom <= frame.bottom && shown.left >= frame.left && shown.right <= frame.right;
    if (!isSeen)
      this.frame.scrollTo({ top: Math.max(0, top - frame.height / 2), left: Math.max(0, left - frame.width / 2) });
  }
}

/** Lights up the lines that lead to a child: from the parent, and past the children before it. */
function lightLines(child: Element) {
  child.parentElement!.classList.add("reached");
  let before = child.previousElementSibling;
  for (; before && !before.classList.contains("passed"); before = before.previousElementSibling) {
    before.classList.add("passed");
  }
}
