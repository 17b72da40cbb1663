// The overview: the cost and the matches of all tenants, the dearest tenants, and the expressions that matched most.
import { el, grouped, percent, plural, short, table } from "../format.js";
import { bar, byDay, bytes, share, text, tile } from "./parts.js";
import { go, within } from "./place.js";

export const overview = (data, place, search) => [
  data.fault ? el("div", { class: "card" }, el("span", { class: "badge bad" }, "Not all figures"), el("p", {}, data.fault)) : null,
  data.progress ? progress(data.progress) : null,
  tiles(data, place),
  trends(data),
  tenants(data, place, search),
  expressions(data, place),
];

const progress = ({ done, of }) =>
  el("div", { class: "card", role: "status" },
    el("p", {}, `Reading the tenants: ${grouped(done)} of ${grouped(of)}. The figures below are of these.`),
    el("progress", { value: done, max: of, "aria-label": "Tenants read" }));

const tiles = ({ total, info }, place) =>
  el("section", { "aria-label": "Totals" },
    el("dl", { class: "tiles" },
      tile(`Events ${within(place.days)}`, short(total.events), `of ${plural(total.tenants, "tenant")}`),
      tile("Matches", short(total.matches), total.events ? `${(total.matches / total.events).toFixed(1)} an event` : null),
      tile("Fuel", short(total.fuel), total.events ? `${short(total.search / total.events)} a searched event` : null),
      tile("Over quota", short(total.refused + total.skipped), `${grouped(total.refused)} refused, ${grouped(total.skipped)} skipped`),
      tile("In memory", grouped(info.hot), `${bytes(info.bytes)} in ${plural(info.shards, "shard")}`),
      tile("In the folder", bytes(info.disk_bytes), `${plural(info.tenants, "tenant")}`)));

const trends = ({ by_day: days }) =>
  el("section", { "aria-labelledby": "days-title" },
    el("h2", { id: "days-title", class: "hidden" }, "By day"),
    el("div", { class: "grid" },
    byDay({
      id: "chart-matches", title: "Events and matches by day", text: "Events that were matched against their tenant's expressions, and the matches that they had.", y: "events, matches", days,
      series: [
        { name: "events", hue: 1, value: (day) => day.events, beside: true },
        { name: "matches", hue: 3, value: (day) => day.matches, beside: true },
      ],
    }),
    byDay({
      id: "chart-fuel", title: "Fuel by day", text: "Fuel is the cost of a call: about one unit an instruction, and the same on every machine.", y: "fuel", days,
      series: [
        { name: "searching and counting", hue: 1, value: (day) => day.search },
        { name: "changes", hue: 2, value: (day) => day.change },
        { name: "loading", hue: 4, value: (day) => day.load },
      ],
    })));

const tenants = (data, place, search) => {
  const input = el("input", {
    id: "search", type: "search", value: place.search, placeholder: "Part of a name", "aria-label": "Tenants whose name contains", maxlength: 100, autocomplete: "off", spellcheck: "false",
    oninput: () => search(input.value),
  });
  return el("section", { id: "tenants", "aria-labelledby": "tenants-title" },
    el("div", { class: "head" }, el("h2", { id: "tenants-title" }, `Tenants that cost most ${within(place.days)}`), input),
    el("div", { class: "card" },
      data.tenants.length
        ? table(["Tenant", "Fuel", "Of all", "Events", "Matches", "Fuel an event", "Over quota", "Kept"],
            data.tenants.map((one) => [
              el("a", { href: `#${go({ days: place.days, key: one.key })}` }, text(one.name)),
              grouped(one.fuel), bar(one.fuel, data.total.fuel), grouped(one.events), grouped(one.matches),
              one.events ? grouped(one.search / one.events) : "–", one.refused + one.skipped ? grouped(one.refused + one.skipped) : "–",
              el("span", { class: one.hot ? "state hot" : "state" }, one.hot ? "in memory" : "stored"),
            ]),
            { caption: "Tenants by fuel", numeric: [1, 3, 4, 5, 6] })
        : el("p", { class: "muted" }, place.search ? "No tenant's name contains this." : "There are no tenants yet. A tenant exists from its first change."),
      data.found > data.tenants.length
        ? el("p", { class: "muted small" }, `The first ${grouped(data.tenants.length)} of ${grouped(data.found)}, ${percent(share(sum(data.tenants), data.total.fuel))} of all fuel. Search for others by name.`)
        : null));
};

const sum = (tenants) => tenants.reduce((total, { fuel }) => total + fuel, 0);

const expressions = (data, place) =>
  el("section", { id: "expressions", "aria-labelledby": "expressions-title" },
    el("h2", { id: "expressions-title" }, `What matched ${within(place.days)}`),
    el("p", {}, "The expressions with the most matches, of the 20 tenants with the most matches."),
    el("div", { class: "card" },
      data.expressions.length
        ? table(["Expression", "Tenant", "Matches"],
            data.expressions.map((one) => [
              el("div", { class: "expression" }, el("span", { class: "muted" }, `${one.id} `), el("code", {}, text(one.text))),
              el("a", { href: `#${go({ days: place.days, key: one.key })}` }, text(one.name)), grouped(one.matches),
            ]),
            { caption: "Expressions by matches", numeric: [2] })
        : el("p", { class: "muted" }, `Nothing matched ${within(place.days)}.`)));
