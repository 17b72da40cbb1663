// The examples of the page of rules.

export interface RuleTexts {
  rules: string;
  script: string;
}

export interface RuleExample extends RuleTexts {
  /** The name of its button in the page. */
  name: string;
}

const orders: RuleExample = {
  name: "orders",
  rules: `fact order(id: integer, user: string, total: float)
fact payment(order: integer, amount: float)

# An order without a payment within ten minutes.
rule unpaid
  when o: order
       none payment(order = o.id) within 10 minutes after o
  then notify unpaid(order: o.id, user: o.user)

rule paid
  when o: order
       p: payment(order = o.id), after o within 10 minutes
  then notify paid(order: o.id, seconds: (p.at - o.at) / 1000)
`,
  script: `# A call a line: a fact, with its time in milliseconds,
# or a time to advance to.
{"order": {"id": 1, "user": "ann", "total": 20, "at": 0}}
{"order": {"id": 2, "user": "bob", "total": 10, "at": 1000}}
{"payment": {"order": 1, "amount": 20, "at": 60000}}
{"advance": 601000}
`,
};

const takeover: RuleExample = {
  name: "takeover",
  rules: `fact login(user: string, ok: boolean)
fact password_change(user: string, device: string)
fact trusted(device: string)

# Two failed logins, then a change of the password on a device that is not trusted.
rule takeover priority 10
  when a: login, not a.ok
       b: login, not b.ok and b.user = a.user, after a within 5 minutes
       c: password_change, c.user = a.user, after b within 5 minutes
       none trusted(device = c.device)
  then notify takeover(user: a.user, device: c.device), retract a
`,
  script: `{"trusted": {"device": "ann's phone", "at": 0}}
{"login": {"user": "ann", "ok": false, "at": 0}}
{"login": {"user": "bob", "ok": false, "at": 20000}}
{"login": {"user": "ann", "ok": false, "at": 30000}}
{"login": {"user": "bob", "ok": false, "at": 40000}}
{"password_change": {"user": "ann", "device": "ann's phone", "at": 60000}}
{"password_change": {"user": "bob", "device": "unknown", "at": 61000}}
# Ann's phone is no longer trusted, so her change counts from now on.
{"retract": 1}
`,
};

const devices: RuleExample = {
  name: "devices",
  rules: `fact reading(device: string, celsius: float)
fact alert(device: string)

# Three high readings within a minute raise an alert, unless there is one.
rule hot
  when r: reading(celsius > 80)
       n: count reading(device = r.device, celsius > 80, within 1 minutes before r), n >= 2
       none alert(device = r.device)
       none reading(device = r.device, celsius < 60, after r)
  then assert alert(device: r.device), notify hot(device: r.device, celsius: r.celsius)

rule cool
  when a: alert
       r: reading(device = a.device, celsius < 60), after a
  then retract a, notify cool(device: a.device)
`,
  script: `{"reading": {"device": "pump", "celsius": 70, "at": 0}}
{"reading": {"device": "pump", "celsius": 81, "at": 10000}}
{"reading": {"device": "pump", "celsius": 85, "at": 20000}}
{"reading": {"device": "pump", "celsius": 90, "at": 30000}}
# A list of facts is inserted as a whole, or not at all.
[{"reading": {"device": "pump", "celsius": 95, "at": 40000}}, {"reading": {"device": "fan", "celsius": 20, "at": 40000}}]
{"reading": {"device": "pump", "celsius": 50, "at": 50000}}
`,
};

const endless: RuleExample = {
  name: "endless",
  rules: `fact click(user: string)
fact session(user: string)

# These rules enable each other without end. A call that fires too many rules is undone.
rule open
  when c: click
       none session(user = c.user)
  then assert session(user: c.user), notify opened(user: c.user)

rule close
  when s: session
  then retract s
`,
  script: `{"session": {"user": "bob"}}
{"click": {"user": "ann"}}
`,
};

export const RULE_EXAMPLES: readonly RuleExample[] = [orders, takeover, devices, endless];
