// Generated expressions of ad targeting, the same for the same seed.
import type { Schema } from "be-tree";

const COUNTRIES = ["US", "CA", "GB", "DE", "FR", "IT", "ES", "BR", "MX", "JP", "KR", "IN", "AU", "SE", "NO", "PL"];
const DEVICES = ["phone", "tablet", "desktop", "tv", "console"];
const LANGUAGES = ["en", "fr", "de", "es", "it", "pt", "ja", "ko", "hi", "sv", "no", "pl"];
const TOPICS = [
  "news",
  "sport",
  "music",
  "games",
  "travel",
  "food",
  "cars",
  "finance",
  "health",
  "fashion",
  "home",
  "tech",
];

/** The number of attributes `interest_0`, `interest_1` and so on. The first are the most popular. */
const INTERESTS = 40;
/** The distinct cities. */
const CITIES = 400;

const interests = Array.from({ length: INTERESTS }, (_, number) => `interest_${number}`);

export const schema: Schema = {
  country: "string",
  city: { type: "string", optional: true },
  language: { type: "string", optional: true },
  device: "string",
  age: { type: "integer", optional: true, min: 0, max: 120 },
  hour: { type: "integer", min: 0, max: 23 },
  bid_floor: { type: "float", optional: true },
  premium: { type: "boolean", optional: true },
  topics: { type: "string_list", optional: true },
  ...Object.fromEntries(interests.map((name) => [name, { type: "integer", optional: true, min: 0, max: 99 }])),
};

/** Yields expressions with the ids from 1 to `count`. */
export function* generate(count: number, seed: number): Generator<{ id: number; expression: string }> {
  const random = source(seed);
  for (let id = 1; id <= count; id++) yield { id, expression: expression(random) };
}

type Random = ReturnType<typeof source>;

/** Returns a source of numbers by mulberry32. */
function source(seed: number) {
  let state = seed >>> 0;
  const fraction = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number) => Math.floor(fraction() * limit);
  const of = <T>(list: readonly T[]): T => list[below(list.length)]!;
  // The first of a list are taken most often.
  const skewed = (limit: number) => Math.floor(limit ** fraction()) - 1;
  const some = <T>(list: readonly T[], most: number): T[] => {
    const taken = new Set(Array.from({ length: 1 + below(most) }, () => of(list)));
    return [...taken];
  };
  return { below, of, skewed, some };
}

const quoted = (values: string[]) => values.map((value) => `'${value}'`).join(", ");

function expression(random: Random): string {
  const parts = [place(random)];
  const more = 2 + random.below(4);
  for (let number = 0; number < more; number++) parts.push(condition(random));
  const joined = parts.join(" and ");
  return random.below(12) === 0 ? `${joined} and not (${condition(random)} or ${condition(random)})` : joined;
}

function place(random: Random): string {
  switch (random.below(4)) {
    case 0:
      return `country in (${quoted(random.some(COUNTRIES, 3))})`;
    case 1:
      return `country = '${COUNTRIES[random.skewed(COUNTRIES.length)]}' and city = 'city ${random.skewed(CITIES)}'`;
    case 2:
      return `interest_${random.skewed(INTERESTS)} >= ${60 + random.below(40)}`;
    default:
      return `country = '${random.of(COUNTRIES)}'`;
  }
}

function condition(random: Random): string {
  switch (random.below(8)) {
    case 0:
      return `device ${random.below(3) ? "=" : "<>"} '${random.of(DEVICES)}'`;
    case 1: {
      const from = 13 + random.below(50);
      return `age >= ${from} and age <= ${from + 5 + random.below(20)}`;
    }
    case 2:
      return `hour >= ${random.below(20)}`;
    case 3:
      return `language in (${quoted(random.some(LANGUAGES, 3))})`;
    case 4:
      return `topics one of (${quoted(random.some(TOPICS, 3))})`;
    case 5:
      return `bid_floor < ${(random.below(80) + 5) / 10}`;
    case 6:
      return random.below(2) ? "premium" : "not premium";
    default:
      return `interest_${random.skewed(INTERESTS)} > ${random.below(90)}`;
  }
}

/** Returns an event for generated expressions, as text. */
export function sampleEvent(seed: number): string {
  const random = source(seed + 1);
  const event: Record<string, unknown> = {
    country: "DE",
    city: `city ${random.skewed(CITIES)}`,
    language: "de",
    device: "phone",
    age: 34,
    hour: 20,
    bid_floor: 1.5,
    premium: false,
    topics: random.some(TOPICS, 3),
  };
  for (const name of interests.slice(0, 6)) event[name] = random.below(100);
  return JSON.stringify(event, null, 2).replace(/\[[^\]]*\]/g, (list) =>
    JSON.stringify(JSON.parse(list)).replaceAll(",", ", "),
  );
}
