// Fills the page from the run's JSON.
import { budget, expression, named, tile } from "./budget.js";
import * as charts from "./charts.js";
import { flame } from "./flame.js";
import { el, escape, grouped, percent, plural, range, short, shortSlice, slice, table, time } from "./format.js";
import { themeButton } from "./theme.js";

const PHASES = {
  decode: "reading the event",
  walk: "finding the nodes its values lead to",
  scan: "testing their entries",
  verify: "running expressions",
  dense: "boolean expressions in columns of bits",
  unindexed: "expressions that no attribute leads to",
  collect: "collecting ids",
  sort: "sorting ids",
  call: "the call itself",
};
const HUES = ["#3b6fe0", "#e07b39", "#1f9d7a", "#9a5be0", "#d1477c", "#6b8e23", "#2aa0c8", "#b08d2e", "#7d8794"];

const run = JSON.parse(document.getElementById("run").textContent);
const main = document.getElementById("main");
const texts = new Map((run.subscriptions ?? []).map(({ id, text }) => [id, text]));

const section = (id, title, text, ...children) => {
  main.append(el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), text ? el("p", {}, text) : null, ...children));
  document.getElementById("contents").append(el("a", { href: `#${id}` }, title));
};

const header = () => {
  const { machine, input } = run;
  document.getElementById("subtitle").textContent =
    `${plural(input.expressions.count, "expression")} (${(input.expressions.memory_bytes / 1e6).toFixed(1)} MB), ${plural(input.events.count, "event")}. ` +
    `${machine.cpu}, ${plural(machine.schedulers, "scheduler")}, OTP ${machine.otp}, Elixir ${machine.elixir}, BeTree ${machine.be_tree}. ${run.made_at.replace("T", " ").replace("Z", " UTC")}`;
};

const verdict = () => {
  const { verdict: result } = run;
  if (!result) {
    section("verdict", "Fuel", "This run measured fuel, not time: all of it is exact and the same on every machine. Run mix be_tree.tune without --budget for a recommendation.", el("div", { class: "card" }, fuelTiles()));
  } else if (result.state === "too_noisy") {
    section("verdict", "Recommendation", null,
      el("div", { class: "card" },
        el("span", { class: "badge warn" }, "Too noisy for a recommendation"),
        el("p", {}, "Something else kept this machine busy, so its times prove nothing now. Run it again when nothing else runs. What this page says of fuel is exact all the same; take its times as a rough picture."),
        el("ul", { class: "reasons" }, result.noise.map((reason) => el("li", {}, reason))),
        fuelTiles()));
  } else {
    const { setting, promise } = result;
    section("verdict", "Recommendation", null,
      el("div", { class: "card" },
        el("span", { class: "badge good" }, result.is_default ? "The defaults are right for you" : "Better than the defaults"),
        el("dl", { class: "tiles", id: "setting" },
          tile("Slice", slice(setting.slice), "fuel, then a search yields"),
          tile("Fuel per reduction", grouped(setting.fuel_per_reduction), "what a search is charged"),
          tile("Events a call", grouped(setting.batch), setting.batch === 1 ? "BeTree.search" : "BeTree.search_many"),
          tile("Replicas", grouped(setting.replicas), "searches at the same time"),
          tile("Processes", grouped(setting.max_concurrency), "that search"),
          tile("Budget", short(up(run.budget.budget)), "fuel, then a search ends")),
        el("h3", {}, "What it does here"),
        el("dl", { class: "tiles" },
          promised("Searches a second", promise.rate, grouped),
          promised("A call, p50", promise.latency_p50_us, time),
          promised("A call, p99", promise.latency_p99_us, time),
          promised("Others wake late, p99", promise.late_p99_us, time),
          promised("… beside plain Elixir", promise.late_of_plain, (value) => `${value.toFixed(2)} ×`)),
        el("p", { class: "muted small" }, "A second run on this machine lies within the ranges. Others are processes that sleep a millisecond beside the most searching processes; the VM's timer alone makes them up to a millisecond late."),
        el("h3", {}, "Why"),
        el("ul", { class: "reasons" }, result.reasons.map((reason) => el("li", {}, reason))),
        code(result.paste)));
  }
};

const promised = (title, estimate, format) => tile(title, format(estimate.value), `${format(estimate.low)} to ${format(estimate.high)}`);

const up = (fuel) => {
  const unit = 10 ** Math.max(String(fuel).length - 2, 0);
  return Math.ceil(fuel / unit) * unit;
};

const fuelTiles = () =>
  el("dl", { class: "tiles" }, ["p50", "p90", "p99", "p99.9", "max"].map((name) => tile(`Fuel of a search, ${name}`, grouped(run.budget.quantiles[name]))));

const code = (text) => {
  const copy = el("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  });
  return el("div", { class: "code" }, el("pre", { tabindex: "0", "aria-label": "The configuration as Elixir code" }, text.trim()), copy);
};

const comparison = () => {
  const { comparison: result } = run;
  if (!result) return;
  const change = ({ ratio, low, high }) => (low === high ? signed(ratio) : `${signed(ratio)} (${signed(low)} to ${signed(high)})`);
  section("comparison", "Compared with the earlier run", null,
    el("div", { class: "card" },
      el("span", { class: `badge ${result.worse ? "bad" : "good"}` }, result.worse ? `Worse by more than ${percent(result.threshold)}` : `Nothing is worse by more than ${percent(result.threshold)}`),
      result.changes.length ? el("ul", { class: "reasons" }, result.changes.map((text) => el("li", {}, text))) : el("p", {}, "The expressions, the events and the versions are the same."),
      table(["", "Before", "Now", "Change", ""], result.lines.map((line) => [line.name, `${number(line.old)} ${line.unit}`, `${number(line.new)} ${line.unit}`, change(line), line.worse ? "worse" : ""]), { caption: "Comparison", numeric: [1, 2, 3] }),
      result.events.length
        ? [el("h3", {}, "Events whose fuel grew the most"),
           table(["Event", "Before", "Now", "Change"], result.events.map((event) => [event.name, grouped(event.old), grouped(event.new), signed(event.new / Math.max(event.old, 1))]), { caption: "Events whose fuel grew the most", numeric: [1, 2, 3] })]
        : null,
      result.not_compared.map((text) => el("p", { class: "muted small" }, text))));
};

const number = (value) => (value >= 100 ? grouped(value) : value.toFixed(2));
const signed = (ratio) => `${ratio >= 1 ? "+" : "−"}${(100 * Math.abs(ratio - 1)).toFixed(1)} %`;

const profile = () => {
  const { profile: result } = run;
  if (!result || result.fuel === 0) return;
  const phases = [...result.phases].sort((one, other) => other.fuel - one.fuel);
  section("fuel", "Where the fuel goes",
    `Fuel is the cost of a search: about one unit an instruction, and the same on every machine. ${plural(result.searches, "search", "searches")} took ${grouped(result.fuel)}.`,
    el("div", { class: "card" },
      result.advice.length ? [el("h3", {}, "What to look at"), el("ul", { class: "reasons", id: "advice" }, result.advice.map((text) => el("li", {}, marked(text))))] : null,
      el("h3", {}, "By phase"),
      el("div", { class: "phases", id: "phases", role: "img", "aria-label": "Fuel by phase. The numbers follow as a list." },
        phases.map(({ phase, fuel }) => el("span", { style: `width:${(100 * fuel) / result.fuel}%;background:${hue(phase)}`, title: `${phase}: ${percent(fuel / result.fuel)}` }))),
      el("ul", { class: "legend" }, phases.map(({ phase, fuel }) => el("li", {}, el("i", { style: `background:${hue(phase)}` }), el("b", {}, `${percent(fuel / result.fuel)} `), `${phase} `, el("span", { class: "muted" }, PHASES[phase] ?? ""))))),
    el("div", { class: "card" }, el("h3", {}, "Flame graph"), el("p", { class: "muted small" }, "A frame is as wide as its fuel. Below it stands what it consists of."), flame(result.folded)),
    result.attributes.length
      ? el("div", { class: "card" },
          el("h3", {}, "By attribute"),
          el("p", { class: "muted small" }, "Attributes lead the search to expressions. Candidates are the expressions that had to be run; those that fail are wasted work."),
          table(["Attribute", "Entries scanned", "Candidates", "Of which failed", "Failed on"],
            result.attributes.slice(0, 12).map((one) => [one.name ?? "every event", grouped(one.entries), grouped(one.candidates), one.candidates ? percent(one.failed / one.candidates) : "–",
              (one.failed_by ?? []).slice(0, 3).map(({ name, times }) => `${name ?? "other tests"} ${percent(times / Math.max(one.failed, 1))}`).join(", ")]),
            { caption: "Fuel by attribute", numeric: [1, 2, 3] }))
      : null);
};

// Names stand between backticks.
const marked = (text) => text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));

const hue = (phase) => HUES[Object.keys(PHASES).indexOf(phase) % HUES.length] ?? HUES.at(-1);

const outliers = () => {
  const events = run.budget.events.slice(0, 15);
  const expressions = (run.profile?.expressions ?? []).slice(0, 15);
  section("outliers", "Outliers", "The events that cost the most, and the expressions that run the most tests. Open a line to see its text.",
    el("div", { class: "card" },
      el("h3", {}, "Most expensive events"),
      table(["Event", "Fuel", "Times the median", "Matches", "Why"],
        events.map((event) => [named(event), grouped(event.fuel), (event.fuel / Math.max(run.budget.quantiles.p50, 1)).toFixed(1), grouped(event.matches), event.reason ?? ""]),
        { caption: "Most expensive events", numeric: [1, 2, 3] })),
    expressions.length
      ? el("div", { class: "card" },
          el("h3", {}, "Most tested expressions"),
          table(["Expression", "Tests", "Candidate", "Of which failed"],
            expressions.map((one) => [expression(one.id, texts), grouped(one.tests), plural(one.candidate, "time"), percent(one.failed / Math.max(one.candidate, 1))]),
            { caption: "Most tested expressions", numeric: [1, 2, 3] }))
      : null);
};

const times = () => {
  const { sweep } = run;
  if (!sweep) return;
  const cells = (chart) => sweep.charts[chart].map((at) => sweep.cells[at]);
  const grid = cells("grid");
  const beside = cells("beside");
  const crowd = Math.max(...beside.map((cell) => cell.processes));
  const plain = beside.find((cell) => cell.kind === "plain" && cell.processes === crowd);
  const slices = [...new Set(grid.map((cell) => cell.setting.slice))].sort((one, other) => (one ?? Infinity) - (other ?? Infinity));
  const ratios = [...new Set(grid.map((cell) => cell.setting.fuel_per_reduction))].sort((one, other) => one - other);
  const at = (fuel, ratio) => grid.find((cell) => cell.setting.slice === fuel && cell.setting.fuel_per_reduction === ratio);
  const ratio = run.default.fuel_per_reduction;
  const categories = slices.map(shortSlice);
  const quantiles = ["p50", "p99", "p99.9"];
  const sorted = (chart, key) => cells(chart).filter((cell) => cell.setting).sort((one, other) => one.setting[key] - other.setting[key]);

  section("times", "Times",
    `Points are medians or percentiles of ${sweep.rounds.rounds} rounds; the bars through them hold 95 % of what chance makes of them. Times are of this machine.`,
    el("div", { class: "grid" },
      charts.estimates({
        id: "chart-latency", title: "Time of a search, by slice", categories, x: "slice (fuel)", y: "time of a call (µs)", format: time, axisFormat: axisTime, log: true,
        text: `${crowd} processes search at ${ratio} fuel a reduction. A smaller slice lets others in more often, which makes long searches longer.`,
        lines: quantiles.map((name) => ({ name, estimates: slices.map((fuel) => at(fuel, ratio)?.latency[name]) })),
      }),
      charts.estimates({
        id: "chart-late", title: "How late others wake, by slice", categories, x: "slice (fuel)", y: "late at p99 (µs)", format: time, axisFormat: axisTime, log: true,
        text: `A process that sleeps a millisecond beside ${crowd} searching processes. The dotted line is the same beside plain Elixir. A lower ratio charges a search more, so it gives way sooner.`,
        lines: ratios.map((one) => ({ name: `${one} fuel a reduction`, estimates: slices.map((fuel) => at(fuel, one)?.late.p99) })),
        mark: { value: plain.late.p99.value, name: "plain Elixir" },
      }),
      charts.estimates({
        id: "chart-beside", title: "How late others wake, by percentile", categories: ["p50", "p90", "p99", "p99.9"], x: "percentile of all wakes", y: "late (µs)", format: time, axisFormat: axisTime, log: true,
        text: "With the default slice, beside searching processes (solid) and as many loops of plain Elixir (dashed). The VM's timer alone makes a sleeper up to 1,000 µs late.",
        lines: besideLines(beside),
      }),
      rate("chart-concurrency", "Searches a second, by processes", "Processes that search at the same time, one event a call.", sorted("concurrency", "max_concurrency"), "max_concurrency", "processes that search"),
      rate("chart-batch", "Searches a second, by events a call", `BeTree.search_many with that many events, ${plural(run.machine.schedulers, "process", "processes")}. A call takes longer the more events it has.`, sorted("batch", "batch"), "batch", "events a call"),
      rate("chart-replicas", "Searches a second, by replicas", `${crowd} processes search; a search waits while all replicas are in use.`, sorted("replicas", "replicas"), "replicas", "replicas of the index")),
    front(sweep));
};

const axisTime = (microseconds) => grouped(microseconds);

const besideLines = (beside) => {
  const crowds = [...new Set(beside.map((cell) => cell.processes))].filter((count) => count > 0).sort((one, other) => one - other);
  const lines = (kind, one, many, dashed) =>
    crowds.map((count, hue) => {
      const cell = beside.find((one) => one.kind === kind && one.processes === count);
      return { name: plural(count, one, many), hue, dashed, estimates: ["p50", "p90", "p99", "p99.9"].map((quantile) => cell?.late[quantile]) };
    });
  const nothing = beside.find((cell) => cell.kind === "nothing");
  return [
    ...lines("search", "searches", "search", false),
    ...lines("plain", "loop of Elixir", "loops of Elixir", true),
    { name: "nothing", hue: 3, estimates: ["p50", "p90", "p99", "p99.9"].map((quantile) => nothing.late[quantile]) },
  ];
};

const rate = (id, title, text, cells, key, x) =>
  charts.estimates({
    id, title, text, x, y: "searches a second", format: grouped, axisFormat: short,
    categories: cells.map((cell) => grouped(cell.setting[key])),
    lines: [{ name: "searches a second", estimates: cells.map((cell) => cell.rate) }],
  });

const described = (setting) =>
  `slices of ${slice(setting.slice)}, ${setting.fuel_per_reduction} fuel a reduction, ${plural(setting.batch, "event")} a call, ${plural(setting.replicas, "replica")}, ${plural(setting.max_concurrency, "process", "processes")}`;

const front = (sweep) => {
  const searching = sweep.cells.map((cell, at) => ({ ...cell, front: sweep.front.includes(at) })).filter((cell) => cell.setting);
  const best = searching.filter((cell) => cell.front).sort((one, other) => other.rate.value - one.rate.value);
  const order = [...best, ...searching.filter((cell) => !cell.front)];
  const point = (cell) => [cell.late.p99.value, cell.rate.value];
  return charts.figure({
    id: "chart-front",
    title: "What no other configuration surpasses",
    text: "Each point is a configuration: better is higher, and further left. Filled points are the Pareto front: no other one is better in searches a second, time of a call and lateness alike.",
    legend: [{ name: "Pareto front", color: "var(--series-1)" }, { name: "surpassed", color: "var(--muted)", dashed: true }],
    points: { count: best.length },
    header: ["Configuration", "Searches a second", "Call p99", "Others late p99", ""],
    numeric: [1, 2, 3],
    rows: order.map((cell) => [described(cell.setting), range(cell.rate, grouped), time(cell.latency.p99.value), time(cell.late.p99.value), cell.front ? "front" : ""]),
    option: (theme) => ({
      tooltip: {
        trigger: "item",
        formatter: ({ seriesIndex, dataIndex }) => {
          const cell = seriesIndex === 0 ? best[dataIndex] : order[best.length + dataIndex];
          return `<b>${grouped(cell.rate.value)} searches a second</b><br>call p99 ${time(cell.latency.p99.value)}, others ${time(cell.late.p99.value)} late at p99<br><span style="opacity:.75">${escape(described(cell.setting))}</span>`;
        },
      },
      xAxis: charts.xAxis("how late others wake, p99 (µs)", { type: "value", scale: true, split: true, axisLabel: { formatter: axisTime } }),
      yAxis: charts.yAxis("searches a second", { type: "value", scale: true, axisLabel: { formatter: short } }),
      series: [
        { type: "scatter", name: "Pareto front", data: best.map(point), symbolSize: 13, itemStyle: { color: theme.series[0] } },
        { type: "scatter", name: "surpassed", data: order.slice(best.length).map(point), symbolSize: 9, itemStyle: { color: theme.card, borderColor: theme.muted, borderWidth: 1.5 } },
      ],
    }),
  });
};

const method = () => {
  const { sweep, verdict: result } = run;
  const busy = sweep?.rounds.others == null ? "" : ` Other programs took ${percent(sweep.rounds.others)} of the processors' time in the sweep, and ${percent(sweep.confirmation.others ?? 0)} in the confirmation.`;
  const parts = [
    sweep
      ? el("p", {}, `${plural(sweep.cells.length, "configuration")} took turns of ${sweep.rounds.milliseconds} ms in ${plural(sweep.rounds.rounds, "round")}, each in a random order; the best and the defaults again in ${plural(sweep.confirmation.rounds, "round")}. Intervals are of 95 %, from 400 bootstrapped draws of whole turns.${busy} Two measurements of the same configuration had a ratio of ${result.control.value.toFixed(2)} (${result.control.low.toFixed(2)} to ${result.control.high.toFixed(2)}).`)
      : null,
    el("p", {}, "Made by mix be_tree.tune. This page loads nothing from elsewhere."),
  ];
  document.getElementById("footer").append(...parts.filter(Boolean));
};

header();
verdict();
comparison();
section("budget", "Budgets", "With the option fuel: of BeTree.search/3 a search ends when it has used that much. A budget protects you from the few events that cost far more than the rest.", ...budget(run));
profile();
times();
outliers();
method();
charts.draw();
themeButton(document.getElementById("theme"));
