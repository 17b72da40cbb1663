// A tenant's page: its bill and its matches by day, its figures, and its expressions.
import { el, grouped, percent, plural, short, table } from "../format.js";
import { bar, byDay, figure, KINDS, share, text, tile } from "./parts.js";
import { go, within } from "./place.js";

export const tenant = (data, place) => [
  el("nav", { class: "path", "aria-label": "Path" }, el("a", { href: `#${go({ days: place.days })}` }, "All tenants"), " / ", text(data.name)),
  el("div", { class: "head" },
    el("h2", { class: "name" }, text(data.name)),
    el("span", { class: data.hot ? "state hot" : "state" }, data.hot ? "in memory" : "stored")),
  tiles(data, place),
  trends(data),
  figures(data, place),
  expressions(data, place),
  el("p", { class: "muted small" }, "As JSON: ",
    el("a", { href: `api/report?${new URLSearchParams({ key: data.key, days: place.days })}` }, "report"), ", ",
    el("a", { href: `api/usage?${new URLSearchParams({ key: data.key })}` }, "bill"),
    `. Fuel was counted by the module ${data.module.slice(0, 12)}.`),
];

const tiles = ({ total, quota, expressions_count: count }, place) =>
  el("section", { "aria-label": "Totals" },
    el("dl", { class: "tiles" },
      tile(`Events ${within(place.days)}`, short(total.events), `${percent(share(total.matched, total.events))} matched something`),
      tile("Matches", short(total.matches), `of ${plural(count, "expression")}`),
      tile("Fuel", short(total.fuel), total.events ? `${short(total.search / total.events)} a searched event` : null),
      tile("Over quota", short(total.refused + total.skipped), `${grouped(total.refused)} refused, ${grouped(total.skipped)} skipped`),
      quota?.rate ? tile("Quota", `${short(quota.rate)}/s`, quota.left == null ? `holds ${short(quota.burst)} fuel` : `${short(Math.max(quota.left, 0))} of ${short(quota.burst)} left`) : null));

const trends = ({ by_day: days }) =>
  el("section", { "aria-labelledby": "days-title" },
    el("h2", { id: "days-title", class: "hidden" }, "By day"),
    el("div", { class: "grid" },
    byDay({
      id: "chart-matches", title: "Events and matches by day", text: "The tenant's events, those that matched at least one expression, and all matches.", y: "events, matches", days,
      series: [
        { name: "events", hue: 1, value: (day) => day.events, beside: true },
        { name: "events that matched", hue: 2, value: (day) => day.matched, beside: true },
        { name: "matches", hue: 3, value: (day) => day.matches, beside: true },
      ],
    }),
    byDay({
      id: "chart-fuel", title: "Fuel by day", text: "The tenant's bill, by kind of call.", y: "fuel", days,
      series: [
        { name: "searching and counting", hue: 1, value: (day) => day.search },
        { name: "changes", hue: 2, value: (day) => day.change },
        { name: "loading", hue: 4, value: (day) => day.load },
      ],
    })));

const figures = ({ stats }, place) =>
  stats.length
    ? el("section", { id: "figures", "aria-labelledby": "figures-title" },
        el("h2", { id: "figures-title" }, `Figures ${within(place.days)}`),
        el("p", {}, "Of all events that matched an expression. ≈ is an estimate with an error of about 1.7 %."),
        el("div", { class: "card" },
          table(["Figure", "Kind", "Value"], stats.map((one) => [text(one.name), [`${KINDS[one.kind] ?? one.kind} `, text(one.attribute)], text(figure(one))]), { caption: "Figures" })))
    : null;

const expressions = (data, place) => {
  const greatest = Math.max(...data.expressions.map(({ matches }) => matches), 0);
  const kinds = new Map(data.expressions.flatMap(({ stats }) => stats.map(({ name, kind }) => [name, kind])));
  const names = [...kinds.keys()].sort((one, other) => (kinds.get(other) === "uniques") - (kinds.get(one) === "uniques")).slice(0, 3);
  return el("section", { id: "expressions", "aria-labelledby": "expressions-title" },
    el("h2", { id: "expressions-title" }, `Expressions by matches ${within(place.days)}`),
    el("div", { class: "card" },
      data.expressions.length
        ? table(["Expression", "Matches", "Of events", ...names],
            data.expressions.map((one) => [
              el("div", { class: "expression" }, el("span", { class: "muted" }, `${one.id} `), one.text == null ? el("span", { class: "muted" }, "deleted since") : el("code", {}, text(one.text))),
              grouped(one.matches), bar(one.matches, data.total.events),
              ...names.map((name) => {
                const found = one.stats.find((stat) => stat.name === name);
                return found ? text(figure(found)) : "–";
              }),
            ]),
            { caption: "Expressions by matches", numeric: [1, ...names.map((_name, at) => at + 3).filter((at) => uniques(data, names[at - 3]))] })
        : el("p", { class: "muted" }, "The tenant has no expressions."),
      data.expressions_count > data.expressions.length
        ? el("p", { class: "muted small" }, `The first ${grouped(data.expressions.length)} of ${grouped(data.expressions_count)}.`)
        : null,
      greatest ? null : el("p", { class: "muted small" }, `Nothing matched ${within(place.days)}.`)));
};

const uniques = ({ expressions }, name) => expressions.every(({ stats }) => stats.every((stat) => stat.name !== name || stat.kind === "uniques"));
