//! Warnings about rules that can enable each other without end: expected warnings, and termination of rules without a warning.

#[path = "naive/random.rs"]
mod random;
mod support;

use std::fmt::Write;

use be_tree_rules::{Call, Engine, Limits, Pause, Value};
use random::Random;

const HEAD: &str = "
    fact click(user: integer)
    fact session(user: integer, state: integer 0..9, left: integer, note: string optional)
    fact seen(user: integer)
";

fn warnings(rules: &str) -> Vec<String> {
    Engine::new(&format!("{HEAD}{rules}"), Limits::default()).unwrap().rules().warnings().to_vec()
}

#[test]
fn warnings_name_the_rules_of_a_cycle_and_their_lines() {
    let open = "rule open when click none session then assert session(user: 1, state: 1, left: 1)\n";
    let close = "rule close when s: session then retract s\n";
    assert_eq!(
        warnings(&format!("{open}{close}")),
        ["rules `open` (line 5) and `close` (line 6) can enable each other without end"]
    );
    assert_eq!(warnings(open), [""; 0]);
    assert_eq!(warnings(close), [""; 0]);
    let ring = "rule a when s: session(state = 1) then modify s(state: 2)
        rule b when s: session(state = 2) then modify s(state: 3)
        rule c when s: session(state = 3) then modify s(state: 1)
        rule d when s: session(state = 4) then modify s(state: 1)";
    let all = "rules `a` (line 5), `b` (line 6) and `c` (line 7) can enable each other without end";
    assert_eq!(warnings(ring), [all]);
}

#[test]
fn warnings_count_rules_and_cycles_beyond_their_limits() {
    let mut ring = String::new();
    for state in 0..200 {
        let next = (state + 1) % 200;
        writeln!(ring, "rule r{state} when s: session(left = {state}) then modify s(left: {next})").unwrap();
    }
    let [warning] = &warnings(&ring)[..] else { panic!("not one warning") };
    assert!(warning.starts_with("rules `r0` (line 5), `r1` (line 6), "), "{warning}");
    assert!(warning.ends_with(" and 192 more can enable each other without end"), "{warning}");
    let mut selves = String::new();
    for rule in 0..100 {
        writeln!(selves, "fact t{rule}(x: integer) rule r{rule} when t: t{rule} then modify t(x: t.x + 1)").unwrap();
    }
    let warnings = warnings(&selves);
    assert_eq!(warnings.len(), 33);
    assert_eq!(warnings[0], "rule `r0` (line 5) can enable itself without end");
    assert_eq!(warnings[32], "68 more cycles of rules can enable each other without end");
}

#[test]
fn rules_that_go_on_without_end_are_told() {
    let endless = [
        "rule r when s: session then modify s(left: s.left + 1)",
        "rule r when s: session(state = 1) then modify s(left: s.left + 1)",
        "rule r when s: session(left > 0) then modify s(left: s.left + 1)",
        "rule r when s: session(left > 0) then modify s(left: s.left - 0)",
        "rule r when s: session(left > 0) then modify s(user: s.left - 1)",
        "rule r when c: click then assert click(user: c.user + 1), retract c",
        "rule r when c: click then assert click(user: c.user)",
        "rule r when s: session(left > 0) then retract s, assert session(user: 1, state: 1, left: 1)",
        "rule r when s: session(left > 0) then modify s(left: s.left - 1)
         rule q when s: session(left < 5) then modify s(left: s.left + 1)",
        "rule r when c: click none seen(user = c.user) then assert seen(user: c.user)
         rule q when s: seen then retract s",
        "rule r when c: click n: count seen(user = c.user), n < 1 then assert seen(user: c.user)
         rule q when s: seen then retract s",
        "rule r when c: click either (s: session(state = 1)) or (s: session(state = 2)) then modify s(state: 3 - s.state)",
        "rule r when a: session(state = 1) b: session(state = 1) then modify a(state: 2), modify b(left: 1)
         rule q when s: session(state = 2) then modify s(state: 1)",
        // The last of several modifications counts.
        "rule r when s: session(left > 0) then modify s(left: s.left - 1), modify s(left: s.left)",
        // Two slots may hold one fact: it is modified, and its successor remains.
        "rule r when a: click b: click then modify a(user: a.user + 1), retract b",
        "rule r when c: click s: session, after c then retract c, assert click(user: 1)
         rule q when s: session then modify s(left: 2)",
    ];
    for rules in endless {
        assert_eq!(warnings(rules).len(), 1, "{rules}");
    }
}

#[test]
fn rules_that_end_are_not_told() {
    let finite = [
        // The fact goes, and no rule brings it back.
        "rule r when c: click then retract c, assert seen(user: c.user)
         rule q when s: seen then retract s",
        "rule r when c: click n: count seen then retract c, assert seen(user: 1)",
        // Constants rule the next firing out.
        "rule r when s: session(state = 1) then modify s(state: 2)
         rule q when s: session(state = 2) then modify s(state: 3)",
        "rule r when s: session(state < 3) then modify s(state: 3)",
        "rule r when s: session(state in (1, 2)) then modify s(state: 3)",
        "rule r when s: session(note is null) then modify s(note: 'a')",
        "rule r when s: session(note = 'a') then retract s, assert session(user: 1, state: 1, left: 1)",
        "rule r when c: click none session(state = 1) then assert session(user: 1, state: 1, left: 1)
         rule q when s: session(state = 2) then retract s",
        // A number reaches its bound.
        "rule r when s: session(left > 0) then modify s(left: s.left - 1)",
        "rule r when s: session(left < 10) then modify s(left: s.left + 2)",
        "rule r when s: session then modify s(state: s.state + 1)",
        "rule r when s: session(left >= 1) then retract s, assert session(user: s.user, state: 1, left: s.left - 1)",
        "rule r when s: session(left > 0) then modify s(left: s.left - 1, state: 2)
         rule q when s: session(state = 2) then modify s(state: 1)",
        // A modification of a field that a `none` does not read cannot make the `none` true.
        "rule r when c: click s: session(state = 1) none session(user = c.user) then modify s(state: 2)
         rule q when s: session(state = 2) then modify s(state: 3)",
        // A new fact waits for time, or for a later fact from outside.
        "rule r when s: session none click(user = s.user) within 1 minutes after s
         then retract s, assert session(user: s.user, state: 1, left: 1)",
        "rule r when c: click none session then assert session(user: 1, state: 1, left: 1)
         rule q when s: session c: click, after s then retract s",
    ];
    for rules in finite {
        assert_eq!(warnings(rules), [""; 0], "{rules}");
    }
}

#[test]
fn known_programs_have_few_warnings() {
    let examples = [
        include_str!("../../../examples/rules/devices.rules"),
        include_str!("../../../examples/rules/fraud.rules"),
        include_str!("../../../examples/rules/orders.rules"),
    ];
    for text in examples {
        assert_eq!(Engine::new(text, Limits::default()).unwrap().rules().warnings(), [""; 0]);
    }
    for (text, most) in [(support::manners::RULES, 1), (support::waltzdb::RULES, 1)] {
        let engine = Engine::new(text, Limits::default()).unwrap();
        assert!(engine.rules().warnings().len() <= most, "{:#?}", engine.rules().warnings());
    }
}

impl Random<'_> {
    fn test(&mut self) -> String {
        let field = ["x", "y"][self.below(2) as usize];
        let relation = ["=", "=", "=", "<>", "<", ">", ">="][self.below(7) as usize];
        match self.below(6) {
            0 => "y is null".into(),
            1 => format!("not ({field} = {})", self.below(3)),
            2 => "x in (0, 2)".into(),
            _ => format!("{field} {relation} {}", self.below(3)),
        }
    }

    fn value(&mut self, slot: u64, ty: &str) -> String {
        match self.below(6) {
            0 => format!("c{slot}.x + 1"),
            1 => format!("c{slot}.x - 1"),
            2 if ty == "b" => format!("c{slot}.y"),
            3 => format!("c{slot}.x"),
            _ => self.below(3).to_string(),
        }
    }

    fn values(&mut self, slot: u64, ty: &str) -> String {
        match self.below(3) {
            0 => format!("x: {}", self.value(slot, ty)),
            _ => format!("x: {}, y: {}", self.value(slot, ty), self.value(slot, ty)),
        }
    }

    fn rule(&mut self, number: usize) -> String {
        let mut text = format!("rule r{number} when ");
        let slots = 1 + self.below(2);
        let mut types = Vec::new();
        for slot in 0..slots {
            let ty = ["a", "b"][self.below(2) as usize];
            types.push(ty);
            write!(text, "c{slot}: {ty}({}) ", self.test()).unwrap();
            if slot > 0 && self.below(4) == 0 {
                text += ["after c0 ", "before c0 ", ", x = c0.x "][self.below(3) as usize];
            }
        }
        if self.below(3) == 0 {
            let ty = ["a", "b"][self.below(2) as usize];
            let joined = [", x = c0.x", "", " after c0", " within 5 milliseconds after c0"][self.below(4) as usize];
            write!(text, "none {ty}({}){joined} ", self.test()).unwrap();
        }
        if self.below(5) == 0 {
            let ty = ["a", "b"][self.below(2) as usize];
            write!(
                text,
                "n: count {ty}({}), n {} {} ",
                self.test(),
                ["<", ">="][self.below(2) as usize],
                self.below(3)
            )
            .unwrap();
        }
        text += "then ";
        let actions = 1 + self.below(2);
        for action in 0..actions {
            let slot = self.below(slots);
            let ty = types[slot as usize];
            if action > 0 {
                text += ", ";
            }
            match self.below(5) {
                0 => write!(text, "retract c{slot}").unwrap(),
                1 => {
                    let other = ["a", "b"][self.below(2) as usize];
                    write!(text, "assert {other}({})", self.values(slot, ty)).unwrap();
                }
                _ => write!(text, "modify c{slot}({})", self.values(slot, ty)).unwrap(),
            }
        }
        text
    }
}

#[test]
fn random_rules_without_a_warning_end() {
    const FIRINGS: u32 = 2_000;
    let (mut told, mut endless) = (0, 0);
    let programs = 3_000;
    for seed in 0..programs {
        let mut random = Random::of_seed(seed);
        let mut text =
            "fact a(x: integer, y: integer optional) fact b(x: integer 0..4, y: integer optional)\n".to_owned();
        for number in 0..1 + random.below(4) as usize {
            text += &(random.rule(number) + "\n");
        }
        let Ok(mut engine) = Engine::new(&text, Limits { firings: FIRINGS, facts: 200, ..Limits::default() }) else {
            continue;
        };
        engine.begin(Call::Fire, 0).unwrap();
        let mut is_endless = false;
        for time in 0..6 {
            let ty = ["a", "b"][random.below(2) as usize];
            let fields = [("x", Value::Integer(random.below(3) as i64)), ("y", Value::Integer(random.below(3) as i64))];
            let fact = engine.types().fact(ty, Some(time), &fields[..1 + random.below(2) as usize]).unwrap();
            // Too many facts are such an end too.
            let ended =
                engine.assert(&fact).is_ok() && matches!(engine.run(), Ok(run) if run.pause != Some(Pause::Firings));
            if !ended {
                is_endless = true;
                break;
            }
            engine.take_notices();
        }
        told += usize::from(!engine.rules().warnings().is_empty());
        endless += usize::from(is_endless);
        assert!(!is_endless || !engine.rules().warnings().is_empty(), "seed {seed}:\n{text}");
    }
    // Most rules with a warning do run without end.
    assert!(endless > programs as usize / 10 && endless * 3 > told, "{endless} of {told}");
}
