// An explanation as nested lists.
import type { Actual, ExplanationNode } from "be-tree";

import { element } from "./dom";

/** The nodes that are shown, and the levels. */
const NODES = 300;
const LEVELS = 12;

export function explanationList(root: ExplanationNode): HTMLElement {
  const open = { left: NODES };
  return element("ul", { className: "explanation" }, part(root, open, 1));
}

function part(node: ExplanationNode, open: { left: number }, level: number): HTMLElement {
  open.left -= 1;
  const verdict = element("span", { className: "verdict", title: `${node.verdict}` }, node.verdict ? "✓" : "✗");
  const row = element("div", { className: "part" }, verdict, spoken(node.verdict), ...label(node));
  const item = element("li", { className: node.verdict ? "true" : "false" }, row);
  if (node.children.length === 0) return item;
  const list = element("ul", {});
  for (const child of node.children) {
    if (open.left > 0 && level < LEVELS) list.append(part(child, open, level + 1));
  }
  const omitted = node.children.length - list.children.length;
  if (omitted > 0) list.append(element("li", { className: "omitted" }, `${omitted} more`));
  item.append(list);
  return item;
}

function spoken(verdict: boolean) {
  return element("span", { className: "unseen" }, verdict ? "true: " : "false: ");
}

function label(node: ExplanationNode): HTMLElement[] {
  switch (node.kind) {
    case "predicate":
      return [
        element("code", {}, node.text),
        element("span", { className: "actual" }, `${node.attribute} is ${shown(node.actual)}`),
      ];
    case "omitted":
      return [element("span", { className: "actual" }, `${node.omitted} more operands`)];
    case "constant":
      return [element("code", {}, `${node.verdict}`)];
    default:
      return [element("strong", {}, node.kind)];
  }
}

function shown(actual: Actual): string {
  if (actual === undefined) return "undefined";
  if (typeof actual === "object" && "omitted" in actual) return `a long value (${actual.omitted})`;
  return JSON.stringify(actual, (_name, value) => (typeof value === "bigint" ? Number(value) : value));
}
