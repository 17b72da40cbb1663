// Parts that the overview and a tenant's page share.
import { BarChart } from "echarts/charts";
import * as echarts from "echarts/core";
import * as charts from "../charts.js";
import { el, escape, grouped, percent, short } from "../format.js";

echarts.use([BarChart]);

/** Texts of the server may have any direction, which must not reach beyond them. */
export const text = (value) => el("bdi", {}, value);

export const tile = (title, value, note) =>
  el("div", { class: "tile" }, el("dt", {}, title), el("dd", {}, value, note ? el("span", { class: "range" }, note) : null));

/** A share with a bar as long. */
export const bar = (value, total) =>
  el("div", { class: "bar" },
    el("span", { class: "track" }, el("span", { class: "filled", style: `width:${Math.min(100 * share(value, total), 100)}%` })),
    el("span", { class: "share" }, percent(share(value, total))));

export const share = (value, total) => (total > 0 ? value / total : 0);

export const bytes = (count) => {
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)} GB`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(1)} MB`;
  return `${(count / 1e3).toFixed(count < 1e4 ? 1 : 0)} KB`;
};

/** Stacked bars by day. `series` have a name, the color's number, and the value of a day. */
export const byDay = ({ days, series, y, ...rest }) => {
  const names = days.map(({ day }) => shortDay(day));
  return charts.figure({
    ...rest,
    legend: series.map((one) => ({ name: one.name, color: `var(--series-${one.hue})` })),
    points: { count: days.length },
    header: ["Day", ...series.map(({ name }) => name)],
    numeric: series.map((_one, at) => at + 1),
    rows: days.map((day) => [day.day, ...series.map(({ value }) => grouped(value(day)))]),
    option: (theme) => ({
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: ([{ dataIndex }]) => {
          const day = days[dataIndex];
          const rows = series.map(({ name, hue, value }) => `<i style="display:inline-block;width:.65em;height:.65em;border-radius:.15em;background:${theme.series[hue - 1]}"></i> ${escape(name)}: <b>${escape(grouped(value(day)))}</b>`);
          return [`<b>${escape(day.day)}</b>`, ...rows].join("<br>");
        },
      },
      xAxis: charts.xAxis("day (UTC)", { type: "category", data: names }),
      yAxis: charts.yAxis(y, { type: "value", min: 0, axisLabel: { formatter: short } }),
      series: series.map(({ name, hue, value, beside }, at) => ({
        type: "bar",
        name,
        stack: beside ? undefined : "all",
        barMaxWidth: 34,
        data: days.map(value),
        itemStyle: { color: theme.series[hue - 1], borderRadius: beside || at === series.length - 1 ? [3, 3, 0, 0] : 0 },
      })),
    }),
  });
};

// 2026-11-27 as 27 Nov.
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const shortDay = (day) => {
  const [, month, date] = day.split("-");
  return `${Number(date)} ${MONTHS[Number(month) - 1]}`;
};

/** The value of a figure, as a short text. */
export const figure = ({ kind, value }) => {
  switch (kind) {
    case "uniques":
      return `${value.exact ? "" : "≈ "}${grouped(value.count)}`;
    case "sum":
      return `${number(value.sum)} in all, ${number(value.min)} to ${number(value.max)}`;
    case "top":
      return value.values.slice(0, 5).map((one) => `${one.value} (${one.error > 0 ? "≈ " : ""}${grouped(one.count)})`).join(", ");
    case "quantiles":
      return value.quantiles.map((one) => `p${trim(100 * one.quantile)} ${number(one.value)}`).join(", ");
    case "members":
      return `${value.values.slice(0, 8).join(", ")}${value.more || value.values.length > 8 ? ", …" : ""}`;
    default:
      return "";
  }
};

export const KINDS = { uniques: "different values of", sum: "sum of", top: "frequent values of", quantiles: "quantiles of", members: "values of" };

const number = (value) => (Number.isInteger(value) || Math.abs(value) >= 1e4 ? grouped(value) : trim(value));
const trim = (value) => String(Number(value.toPrecision(4)));
