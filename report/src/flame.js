// The flame graph of the profile, on d3-flame-graph. Frames can be reached and opened by keyboard.
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";
import { el, grouped, percent } from "./format.js";
import { onTheme } from "./theme.js";

const tree = (folded) => {
  const root = { name: "all searches", value: 0, children: [] };
  for (const { stack, fuel } of folded) {
    let node = root;
    // Every stack begins with the same frame, which is the root.
    for (const name of stack.slice(1)) {
      let child = node.children.find((one) => one.name === name);
      if (!child) node.children.push((child = { name, value: 0, children: [] }));
      node = child;
    }
    node.own = (node.own ?? 0) + fuel;
  }
  root.name = folded[0]?.stack[0] ?? root.name;
  sum(root);
  return root;
};

const sum = (node) => {
  node.value = (node.own ?? 0) + node.children.reduce((total, child) => total + sum(child), 0);
  node.children.sort((one, other) => other.value - one.value);
  return node.value;
};

// Warm colors by the name, so that a frame keeps its color from run to run.
const color = (name) => {
  let hash = 7;
  for (const character of name) hash = (hash * 31 + character.charCodeAt(0)) % 997;
  return `hsl(${22 + (hash % 34)} ${78 + (hash % 14)}% ${66 + (hash % 11)}%)`;
};

const told = (node, total) => `${node.data.name}: ${grouped(node.data.value)} fuel, ${percent(node.data.value / total)} of all`;

export const flame = (folded) => {
  const data = tree(folded);
  const place = el("div", { id: "flame" });
  const line = el("p", { id: "flame-told", class: "small", "aria-live": "polite" }, "Point at a frame, or move to it with the Tab key, to see its share. Click it, or press Enter, to enlarge it.");
  const back = el("button", { type: "button" }, "Show all again");

  const make = () => {
    place.replaceChildren();
    const chart = flamegraph()
      .width(Math.max(place.clientWidth, 280))
      .cellHeight(24)
      .minFrameSize(2)
      .inverted(true)
      .sort(false)
      .transitionDuration(0)
      .selfValue(false)
      .tooltip(false)
      .setColorMapper((node) => (node.highlight ? "#fff" : color(node.data.name)))
      .onClick(() => queueMicrotask(reach));
    select(place).datum(structuredClone(data)).call(chart);
    back.onclick = () => {
      chart.resetZoom();
      reach();
    };
    reach();
  };

  const reach = () => {
    select(place)
      .selectAll("g.frame")
      .attr("tabindex", 0)
      .attr("role", "button")
      .attr("aria-label", (node) => told(node, data.value))
      .on("mouseenter.told focus.told", (_event, node) => (line.textContent = told(node, data.value)))
      .on("keydown.open", function (event) {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        this.dispatchEvent(new MouseEvent("click"));
      });
  };

  let width = 0;
  new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    make();
  }).observe(place);
  onTheme(() => place.firstChild && make());
  return el("div", {}, line, place, back);
};
