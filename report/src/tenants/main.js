// The page of mix be_tree.tenants: an overview of all tenants, and a page for each. The address behind # says which one is shown,
// and over how many days. Every text from the server becomes a text node (format.js), so none is read as HTML.
import { el, grouped, plural } from "../format.js";
import { themeButton } from "../theme.js";
import { clear, draw } from "../charts.js";
import { overview } from "./overview.js";
import { address, go, RANGES } from "./place.js";
import { tenant } from "./tenant.js";

const POLL_MS = 700;
const main = document.getElementById("main");

let place = address();
// A later request makes the reply to an earlier one worthless.
let request = 0;

const load = async ({ focus = false } = {}) => {
  const mine = ++request;
  const query = new URLSearchParams({ days: place.days });
  if (place.key) query.set("key", place.key);
  else if (place.search) query.set("search", place.search);
  document.body.classList.add("loading");
  const data = await reply(`api/${place.key ? "tenant" : "overview"}?${query}`);
  if (mine !== request) return;
  document.body.classList.remove("loading");
  if (data.error) failed(data.error);
  else show(data);
  if (focus) main.focus();
  // The first look at all tenants takes a moment.
  if (data.progress) setTimeout(() => mine === request && load(), POLL_MS);
};

const reply = async (path) => {
  try {
    return await (await fetch(path)).json();
  } catch {
    return { error: "The server does not reply. Is it still running?" };
  }
};

const show = (data) => {
  const typing = document.activeElement?.id === "search";
  clear();
  const parts = place.key ? tenant(data, place) : overview(data, place, search);
  main.replaceChildren(...parts.filter(Boolean));
  document.title = place.key ? `${data.name} · BeTree tenants` : "BeTree tenants";
  header(data);
  draw();
  if (typing) document.getElementById("search")?.focus();
};

const failed = (text) => {
  clear();
  main.replaceChildren(el("div", { class: "card" }, el("span", { class: "badge bad" }, "No figures"), el("p", {}, text), el("a", { href: "#" }, "All tenants")));
};

const header = (data) => {
  document.getElementById("subtitle").textContent = place.key
    ? `One tenant. Days are in UTC, and today is ${data.today}.`
    : `${plural(data.info.tenants, "tenant")}, ${grouped(data.info.hot)} in memory. Days are in UTC, and today is ${data.today}.`;
  for (const link of document.querySelectorAll("#ranges a")) {
    const active = Number(link.dataset.days) === place.days;
    link.setAttribute("href", `#${go({ ...place, days: Number(link.dataset.days) })}`);
    if (active) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
};

let typed;
const search = (text) => {
  clearTimeout(typed);
  typed = setTimeout(() => {
    place = { ...place, search: text };
    history.replaceState(null, "", `#${go(place)}`);
    load();
  }, 200);
};

document.getElementById("ranges").append(...RANGES.map(({ days, name }) => el("a", { "data-days": days, href: "#" }, name)));
document.getElementById("refresh").addEventListener("click", () => load());
themeButton(document.getElementById("theme"));
addEventListener("hashchange", () => {
  const other = address();
  const same = other.key === place.key;
  place = other;
  if (!same) scrollTo(0, 0);
  load({ focus: !same });
});
load();
