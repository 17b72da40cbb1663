// Charts on ECharts. Each is a figure with a title, a sentence on how to read it, and its numbers as a table. The arrow keys
// move through the points of the chart that has the focus.
import { CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, GridComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { el, escape, range, table } from "./format.js";
import { colors, onTheme } from "./theme.js";

echarts.use([
  AriaComponent, CustomChart, GridComponent, LineChart, MarkLineComponent, ScatterChart, SVGRenderer, TooltipComponent,
]);

/** A figure with a chart. `option` makes the options from the colors; `points` is how many points the arrow keys visit. */
export const figure = ({ id, title, text, legend = [], option, points, header, rows, numeric }) => {
  const place = el("div", { class: "chart", id, tabindex: "0", role: "img", "aria-label": `${title}. ${text} The numbers follow as a table.` });
  const card = el(
    "figure",
    { class: "card" },
    el("figcaption", {}, el("h3", {}, title), el("p", { class: "muted small" }, text)),
    legend.length > 1
      ? el("ul", { class: "legend" }, legend.map(({ name, color, dashed }) => el("li", {}, el("i", { class: dashed ? "ring" : "disc", style: `color:${color}` }), name)))
      : null,
    place,
    el("details", {}, el("summary", {}, "The numbers"), table(header, rows, { caption: title, numeric })),
  );
  later(place, option, points);
  return card;
};

// A chart needs its width, so it is made when its place is in the page.
const pending = [];
const later = (place, option, points) => pending.push({ place, option, points });

// Charts of a page that shows others later. They are no longer drawn when the theme changes.
const drawn = [];

/** Forgets all charts, before their places leave the page. */
export const clear = () => {
  for (const { chart, observer } of drawn.splice(0)) {
    observer.disconnect();
    chart.dispose();
  }
};

onTheme(() => drawn.forEach(({ update }) => update()));

export const draw = () => {
  for (const { place, option, points } of pending.splice(0)) {
    const chart = echarts.init(place, null, { renderer: "svg" });
    const update = () => chart.setOption(base(option(colors())), { notMerge: true });
    update();
    const observer = new ResizeObserver(() => chart.resize());
    observer.observe(place);
    drawn.push({ chart, observer, update });
    keys(place, chart, points);
  }
};

const keys = (place, chart, { series = 0, count }) => {
  let at = -1;
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") chart.dispatchAction({ type: "hideTip" });
    if (!step) return;
    event.preventDefault();
    at = Math.min(Math.max(at + step, 0), count - 1);
    chart.dispatchAction({ type: "showTip", seriesIndex: series, dataIndex: at });
  });
  place.addEventListener("blur", () => chart.dispatchAction({ type: "hideTip" }));
};

const base = (option) => {
  const { text, muted, line, card } = colors();
  const axis = (given) =>
    given && {
      nameTextStyle: { color: muted, fontSize: 12, ...given.nameTextStyle },
      axisLabel: { color: muted, fontSize: 12, hideOverlap: true, ...given.axisLabel },
      axisLine: { lineStyle: { color: line } },
      axisTick: { show: false },
      splitLine: { show: given.split ?? false, lineStyle: { color: line } },
      minorSplitLine: { show: false },
      ...without(given, ["axisLabel", "nameTextStyle", "split"]),
    };
  return {
    animation: false,
    textStyle: { fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif" },
    ...option,
    grid: { left: 8, right: 18, top: 34, bottom: 34, containLabel: true, ...option.grid },
    tooltip: {
      confine: true,
      backgroundColor: card,
      borderColor: line,
      textStyle: { color: text, fontSize: 13 },
      extraCssText: "box-shadow: 0 4px 16px rgb(0 0 0 / 18%); max-width: 22rem; white-space: normal;",
      ...option.tooltip,
    },
    xAxis: axis(option.xAxis),
    yAxis: axis(option.yAxis),
  };
};

const without = (object, names) => Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));

/** The axes: names with units, the y axis' name above it. */
export const xAxis = (name, rest) => ({ name, nameLocation: "middle", nameGap: 28, ...rest });
export const yAxis = (name, rest) => ({ name, nameLocation: "end", nameTextStyle: { align: "left", padding: [0, 0, 0, -30] }, split: true, ...rest });

/** A line through estimates over categories, with the intervals as bars through its points. */
export const estimateLine = (name, estimates, color, fill, dashed = false) => [
  {
    type: "line",
    name,
    data: estimates.map((estimate) => estimate?.value ?? null),
    symbol: "circle",
    symbolSize: 8,
    connectNulls: true,
    lineStyle: { width: 2, color, type: dashed ? "dashed" : "solid" },
    itemStyle: { color: dashed ? fill : color, borderColor: color, borderWidth: dashed ? 2 : 0 },
  },
  {
    type: "custom",
    name,
    silent: true,
    z: 1,
    itemStyle: { color },
    data: estimates.map((estimate, at) => [at, estimate?.low ?? null, estimate?.high ?? null]),
    encode: { x: 0, y: [1, 2] },
    tooltip: { show: false },
    renderItem: (_params, api) => {
      if (Number.isNaN(api.value(1))) return null;
      const [x, top] = api.coord([api.value(0), api.value(2)]);
      const [, bottom] = api.coord([api.value(0), api.value(1)]);
      const style = { stroke: color, lineWidth: 1.5, opacity: 0.6 };
      const bar = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
      return { type: "group", children: [bar(x, top, x, bottom), bar(x - 4, top, x + 4, top), bar(x - 4, bottom, x + 4, bottom)] };
    },
  },
];

/** The tooltip of a category: each estimate with its interval. */
export const estimateTip = (title, lines, format) => ({
  trigger: "axis",
  axisPointer: { type: "line" },
  formatter: (params) => {
    const at = params[0].dataIndex;
    const rows = lines
      .filter(({ estimates }) => estimates[at])
      .map(({ name, estimates, color }) => `${dot(color)} ${escape(name)}: <b>${escape(format(estimates[at].value))}</b> <span style="opacity:.7">${escape(format(estimates[at].low))} to ${escape(format(estimates[at].high))}</span>`);
    return [`<b>${escape(title(at))}</b>`, ...rows].join("<br>");
  },
});

const dot = (color) => `<span style="display:inline-block;width:.65em;height:.65em;border-radius:50%;background:${color}"></span>`;

/** A chart of estimates over categories. `lines` have a name and estimates; the colors are dealt in order. */
export const estimates = ({ categories, x, y, lines, format, axisFormat = format, mark, ...rest }) => {
  const tipTitle = (at) => `${x}: ${categories[at]}`;
  const log = wide(lines.flatMap(({ estimates: all }) => all.filter(Boolean)), rest.log);
  const from = log ? logBounds(lines.flatMap(({ estimates: all }) => all.filter(Boolean)), mark) : {};
  return figure({
    ...rest,
    legend: lines.map((line, at) => ({ ...line, color: `var(--series-${((line.hue ?? at) % 4) + 1})` })),
    points: { count: categories.length },
    header: [x, ...lines.map(({ name }) => `${name}, ${y}`)],
    numeric: lines.map((_line, at) => at + 1),
    rows: categories.map((category, at) => [category, ...lines.map(({ estimates: all }) => (all[at] ? range(all[at], format) : ""))]),
    option: (theme) => {
      const colored = lines.map((line, at) => ({ ...line, color: theme.series[(line.hue ?? at) % theme.series.length] }));
      const series = colored.flatMap((line) => estimateLine(line.name, line.estimates, line.color, theme.card, line.dashed));
      if (mark) series[0].markLine = markLine(mark, theme, axisFormat);
      return {
        tooltip: estimateTip(tipTitle, colored, format),
        xAxis: xAxis(x, { type: "category", data: categories, boundaryGap: true }),
        yAxis: yAxis(y, { type: log ? "log" : "value", ...from, axisLabel: { formatter: axisFormat } }),
        series,
      };
    },
  });
};

const markLine = ({ value, name }, theme) => ({
  silent: true,
  symbol: "none",
  lineStyle: { color: theme.muted, type: "dotted", width: 1.5 },
  label: { formatter: name, position: "insideEndTop", color: theme.muted, fontSize: 12 },
  data: [{ yAxis: value }],
});

// Values far apart need a logarithmic axis.
const wide = (all, allowed) => allowed && Math.max(...all.map(({ high }) => high)) > 12 * Math.min(...all.map(({ low }) => low));

// A logarithmic axis ends at powers of ten, unless it is told.
const logBounds = (all, mark) => {
  const values = all.flatMap(({ value, low, high }) => [value, low, high]).concat(mark?.value ?? []).filter((value) => value > 0);
  return { min: nice(Math.min(...values), Math.floor), max: nice(Math.max(...values), Math.ceil) };
};

const nice = (value, round) => {
  const power = 10 ** Math.floor(Math.log10(value));
  return round(value / power) * power;
};
