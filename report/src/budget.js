// The budget curve, and a slider over its budgets.
import * as charts from "./charts.js";
import { el, grouped, percent, plural, table } from "./format.js";

const LISTED = 8;

export const budget = (run) => {
  const { stops, budget: serving, events, share } = run.budget;
  const texts = new Map((run.subscriptions ?? []).map(({ id, text }) => [id, text]));
  // From the smallest budget to the largest.
  const rising = [...stops].reverse();
  const start = Math.max(rising.findIndex((stop) => stop.budget >= serving), 0);

  const curve = charts.figure({
    id: "chart-budget",
    title: "Searches that a total budget ends",
    text: `Each point is a budget. Searches that need more fuel end with an error of kind :out_of_fuel. The dotted line is the least budget with which ${percent(share)} of the searches end by themselves.`,
    points: { count: rising.length },
    header: ["Budget, fuel", "Of the searches", "Searches", "Matches lost", "Expressions affected"],
    numeric: [0, 1, 2, 3, 4],
    rows: rising.map((stop) => [grouped(stop.budget), percent(stop.share), grouped(stop.ended), known(stop.lost), known(stop.subscriptions)]),
    option: (theme) => ({
      tooltip: {
        trigger: "axis",
        formatter: ([{ dataIndex }]) => {
          const stop = rising[dataIndex];
          return `<b>${grouped(stop.budget)} fuel</b><br>ends ${percent(stop.share)}: ${grouped(stop.ended)} of ${grouped(run.fuel.length)} searches`;
        },
      },
      xAxis: charts.xAxis("total budget of a search (fuel)", { type: "value", scale: true, axisLabel: { formatter: grouped } }),
      yAxis: charts.yAxis("searches that it ends (%)", { type: "value", min: 0, axisLabel: { formatter: (value) => `${value}` } }),
      series: [
        {
          type: "line",
          step: "end",
          name: "ended",
          data: rising.map((stop) => [stop.budget, 100 * stop.share]),
          symbolSize: 6,
          lineStyle: { width: 2, color: theme.series[0] },
          itemStyle: { color: theme.series[0] },
          areaStyle: { color: theme.series[0], opacity: 0.12 },
          markLine: {
            silent: true,
            symbol: "none",
            lineStyle: { color: theme.muted, type: "dotted", width: 1.5 },
            label: { formatter: `serves ${percent(share)}`, color: theme.muted, position: "insideEndTop", fontSize: 12 },
            data: [{ xAxis: serving }],
          },
        },
      ],
    }),
  });

  const told = el("output", { id: "budget-told", for: "budget-slider" });
  const slider = el("input", {
    type: "range", id: "budget-slider", min: 0, max: rising.length - 1, step: 1, value: start,
    oninput: () => show(rising[Number(slider.value)]),
  });

  const show = (stop) => {
    slider.setAttribute("aria-valuetext", `${grouped(stop.budget)} fuel`);
    const ended = events.filter((event) => event.fuel > stop.budget);
    told.replaceChildren(
      el("dl", { class: "tiles" },
        tile("Budget", `${grouped(stop.budget)}`, "fuel"),
        tile("Searches that it ends", percent(stop.share), `${grouped(stop.ended)} of ${grouped(run.fuel.length)}`),
        tile("Matches lost", known(stop.lost), stop.lost === null ? "counted for the 1,000 most expensive events" : plural(stop.subscriptions, "expression")),
      ),
      stop.ended === 0
        ? el("p", {}, "No search of these events needs more.")
        : el("div", { class: "grid" },
            el("div", {},
              el("h3", {}, "Events whose searches end"),
              table(["Event", "Fuel", "Matches"], ended.slice(0, LISTED).map((event) => [named(event), grouped(event.fuel), grouped(event.matches)]), { caption: "Events whose searches end", numeric: [1, 2] }),
              more(stop.ended, LISTED)),
            el("div", {},
              el("h3", {}, "Expressions that lose the most matches"),
              stop.most?.length
                ? table(["Expression", "Matches lost"], stop.most.slice(0, LISTED).map(({ id, times }) => [expression(id, texts), grouped(times)]), { caption: "Expressions that lose the most matches", numeric: [1] })
                : el("p", { class: "muted small" }, stop.most ? "None: these searches find nothing." : "Counted for the 1,000 most expensive events only; this budget ends more."))),
    );
  };

  show(rising[start]);

  return [
    curve,
    el("div", { class: "card" },
      el("div", { class: "slider" },
        el("label", { for: "budget-slider" }, "Try a budget"),
        slider,
        el("div", { class: "ends" }, el("span", {}, `${grouped(rising[0].budget)} fuel`), el("span", {}, `${grouped(rising[rising.length - 1].budget)} fuel`))),
      told),
  ];
};

const known = (number) => (number === null ? "–" : grouped(number));

export const tile = (title, value, note) => el("div", { class: "tile" }, el("dt", {}, title), el("dd", {}, value, note ? el("span", { class: "range" }, note) : null));

const more = (count, shown) => (count > shown ? el("p", { class: "muted small" }, `and ${grouped(count - shown)} more`) : null);

export const named = (event) => el("details", {}, el("summary", {}, event.name, el("span", { class: "line" }, event.text)), el("code", { class: "small" }, event.text));

export const expression = (id, texts) =>
  texts.has(id) ? el("details", {}, el("summary", {}, id, el("span", { class: "line" }, texts.get(id))), el("code", { class: "small" }, texts.get(id))) : id;
