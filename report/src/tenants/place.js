// The place that the page shows, as the text behind # in its address: `days=7&key=...` or `days=7&search=...`.

export const RANGES = [
  { days: 1, name: "Today" },
  { days: 7, name: "7 days" },
  { days: 30, name: "30 days" },
];

/** Reads the place from the address. Unknown texts count as absent. */
export const address = () => {
  const query = new URLSearchParams(location.hash.slice(1));
  const days = Number(query.get("days"));
  return {
    days: RANGES.some((range) => range.days === days) ? days : 1,
    key: query.get("key") ?? "",
    search: query.get("search") ?? "",
  };
};

/** The text behind # for a place. */
export const go = ({ days, key, search }) => {
  const query = new URLSearchParams({ days });
  if (key) query.set("key", key);
  else if (search) query.set("search", search);
  return query.toString();
};

/** "today" or "in 7 days", for sentences. */
export const within = (days) => (days === 1 ? "today" : `in ${days} days`);
