// The examples: texts of the three editors. Lists of some fifty expressions and more make a tree with several levels.

export interface Texts {
  schema: string;
  expressions: string;
  event: string;
}

export interface Example extends Texts {
  /** The name of its button in the page. */
  name: string;
}

/** Joins parts of a text, of which the lists are lines. */
const lines = (...parts: (string | string[])[]) => parts.flat().join("\n");

/** Returns a line for each number below `count`. */
const times = (count: number, line: (number: number) => string) =>
  Array.from({ length: count }, (_, number) => line(number));

const at = <T>(list: readonly T[], place: number): T => list[place % list.length]!;

const COUNTRIES = ["US", "CA", "GB", "DE", "FR", "JP", "BR", "SE"] as const;
const CITIES = ["Boston", "Toronto", "London", "Berlin", "Paris", "Tokyo", "Recife", "Malmö"] as const;
const TOPICS = ["sport", "travel", "music", "cars", "food", "news", "games"] as const;

const ads: Example = {
  name: "ads",
  schema: `{
  "country": "string",
  "city": {"type": "string", "optional": true},
  "device": {"type": "string", "optional": true},
  "age": {"type": "integer", "optional": true, "min": 0, "max": 120},
  "hour": {"type": "integer", "min": 0, "max": 23},
  "topics": {"type": "string_list", "optional": true},
  "premium": {"type": "boolean", "optional": true},
  "latitude": {"type": "float", "optional": true},
  "longitude": {"type": "float", "optional": true},
  "now": {"type": "integer", "optional": true},
  "frequency_caps": {"type": "frequency_caps", "optional": true}
}`,
  expressions: lines(
    "# A campaign a line. The line's number is its id.",
    "country = 'DE' and age >= 18 and topics one of ('travel', 'food')",
    "country in ('US', 'CA') and device = 'tv' and hour >= 18",
    "device = 'phone' and not premium",
    "geo_within_radius(52.52, 13.40, 25.0) and hour >= 17",
    "age >= 65 or topics all of ('travel', 'music')",
    "",
    "# At most three times an hour for each user.",
    "# with campaign_id = 7",
    'country = \'DE\' and within_frequency_cap("campaign", "ads", 3, 3600)',
    "",
    "# Campaigns by country, and by city.",
    times(64, (n) => `country = '${at(COUNTRIES, n)}' and age >= ${18 + 3 * (n % 9)} and hour < ${12 + (n % 12)}`),
    times(48, (n) => `city = '${at(CITIES, n)}' and topics one of ('${at(TOPICS, n)}', '${at(TOPICS, n + 3)}')`),
    times(
      24,
      (n) => `country <> '${at(COUNTRIES, n)}' and device = '${n % 2 ? "tv" : "desktop"}' and age < ${20 + 2 * n}`,
    ),
  ),
  event: `{
  "country": "DE",
  "city": "Berlin",
  "device": "phone",
  "age": 34,
  "hour": 19,
  "topics": ["travel", "music"],
  "premium": false,
  "latitude": 52.5,
  "longitude": 13.45,
  "now": 1700000000,
  "frequency_caps": [[["campaign", 7, "ads"], 1, 1699999000000000]]
}`,
};

const TEAMS = ["search", "billing", "mobile", "editor", "growth", "admin"] as const;
const PLANS = ["free", "team", "business", "enterprise"] as const;

const flags: Example = {
  name: "flags",
  schema: `{
  "user_id": "integer",
  "plan": "string",
  "team": {"type": "string", "optional": true},
  "email": {"type": "string", "optional": true},
  "country": {"type": "string", "optional": true},
  "app_version": {"type": "integer", "optional": true},
  "bucket": {"type": "integer", "min": 0, "max": 99},
  "beta": {"type": "boolean", "optional": true},
  "roles": {"type": "string_list", "optional": true}
}`,
  expressions: lines(
    "# A flag a line. A bucket is a hash of the user, from 0 to 99.",
    "bucket < 10",
    "beta or ends_with(email, '@example.com')",
    "plan in ('business', 'enterprise') and app_version >= 412",
    "'owner' in roles and not (country = 'US')",
    "beta and bucket < 50 and app_version is not null",
    "",
    "# Early access by team.",
    times(60, (n) => `team = '${at(TEAMS, n)}' and app_version >= ${400 + n} and bucket < ${10 + ((7 * n) % 90)}`),
    "",
    "# By plan.",
    times(48, (n) => `plan = '${at(PLANS, n)}' and bucket >= ${2 * n} and bucket <= ${Math.min(2 * n + 7, 99)}`),
    "",
    "# Single users, for support.",
    times(40, (n) => `user_id in (${1000 + 17 * n}, ${1001 + 31 * n}, ${1042 + n})`),
  ),
  event: `{
  "user_id": 1042,
  "plan": "business",
  "team": "editor",
  "email": "ada@example.com",
  "app_version": 415,
  "bucket": 27,
  "roles": ["member", "owner"]
}`,
};

const SERVICES = ["checkout", "search", "login", "cart", "email", "images"] as const;
const REGIONS = ["eu-1", "eu-2", "us-1", "us-2", "ap-1"] as const;

const alerts: Example = {
  name: "alerts",
  schema: `{
  "service": "string",
  "severity": {"type": "integer", "min": 0, "max": 5},
  "region": {"type": "string", "optional": true},
  "environment": "string",
  "error_rate": {"type": "float", "optional": true},
  "latency_ms": {"type": "integer", "optional": true},
  "message": {"type": "string", "optional": true},
  "tags": {"type": "string_list", "optional": true},
  "acknowledged": {"type": "boolean", "optional": true}
}`,
  expressions: lines(
    "# A route a line: who is told of an alert.",
    "severity >= 4 and environment = 'production'",
    "contains(message, 'out of memory') or contains(message, 'disk full')",
    "service in ('checkout', 'cart') and error_rate > 0.05 and not acknowledged",
    "tags all of ('database', 'primary') and severity >= 2",
    "environment <> 'production' and severity = 5",
    "latency_ms > 2000 and region is not null",
    "",
    "# On call by service and region.",
    times(60, (n) => `service = '${at(SERVICES, n)}' and region = '${at(REGIONS, n)}' and severity >= ${n % 4}`),
    "",
    "# Thresholds.",
    times(48, (n) => `service = '${at(SERVICES, n)}' and latency_ms > ${100 * (n + 1)}`),
    times(
      48,
      (n) => `error_rate > ${(n + 1) / 100} and service = '${at(SERVICES, n + 2)}' and environment = 'production'`,
    ),
    times(24, (n) => `'team-${n}' in tags and severity >= ${n % 5}`),
  ),
  event: `{
  "service": "checkout",
  "severity": 4,
  "region": "eu-1",
  "environment": "production",
  "error_rate": 0.081,
  "latency_ms": 1240,
  "message": "upstream timed out",
  "tags": ["database", "primary", "team-3"],
  "acknowledged": false
}`,
};

const CURRENCIES = ["EUR", "USD", "GBP", "JPY", "SEK"] as const;
const CATEGORIES = ["electronics", "travel", "gift cards", "groceries", "jewellery", "games"] as const;

const fraud: Example = {
  name: "fraud",
  schema: `{
  "amount": "float",
  "currency": "string",
  "category": {"type": "string", "optional": true},
  "card_country": {"type": "string", "optional": true},
  "ip_country": {"type": "string", "optional": true},
  "account_age_days": {"type": "integer", "optional": true},
  "payments_today": {"type": "integer", "optional": true},
  "email_domain": {"type": "string", "optional": true},
  "new_device": {"type": "boolean", "optional": true},
  "signals": {"type": "string_list", "optional": true}
}`,
  expressions: lines(
    "# A rule a line: a payment that makes one true is looked at.",
    "amount > 900 and account_age_days < 7",
    "new_device and payments_today >= 5",
    "card_country = 'DE' and ip_country not in ('DE', 'AT', 'CH')",
    "signals one of ('proxy', 'emulator') and amount >= 50",
    "category = 'gift cards' and (new_device or account_age_days < 30)",
    "email_domain is null and amount > 200",
    "not (signals is empty) and payments_today > 20",
    "",
    "# Limits by currency and category.",
    times(
      60,
      (n) => `currency = '${at(CURRENCIES, n)}' and category = '${at(CATEGORIES, n)}' and amount > ${100 + 60 * n}`,
    ),
    "",
    "# Countries that do not agree.",
    times(
      48,
      (n) => `card_country = '${at(COUNTRIES, n)}' and ip_country = '${at(COUNTRIES, n + 3)}' and amount >= ${20 * n}`,
    ),
    "",
    "# Bursts.",
    times(36, (n) => `payments_today >= ${3 + n} and category = '${at(CATEGORIES, n)}' and new_device`),
    times(24, (n) => `email_domain = 'mail${n}.example' and account_age_days < ${10 * (n + 1)}`),
  ),
  event: `{
  "amount": 940.0,
  "currency": "EUR",
  "category": "gift cards",
  "card_country": "DE",
  "ip_country": "JP",
  "account_age_days": 3,
  "payments_today": 6,
  "email_domain": "mail4.example",
  "new_device": true,
  "signals": ["proxy"]
}`,
};

export const EXAMPLES: readonly Example[] = [ads, flags, alerts, fraud];
