//! Miss Manners: guests in a row whose neighbours differ in sex and share a hobby.

use be_tree_rules::{Engine, Limits, Owned};

use super::{assert_all, text, Row};

pub const RULES: &str = include_str!("../../workloads/manners.rules");

const GUESTS: &str = include_str!("../../workloads/manners.guests");

/// Returns the facts of `guests` guests: 8, 16, 32, 64 or 128.
pub fn facts(guests: usize) -> Vec<Row> {
    let mut facts: Vec<Row> = Vec::new();
    let mut lists = GUESTS.split("\n\n").map(|list| list.split_whitespace().collect::<Vec<_>>());
    let list = lists.find(|list| list.len() == guests).unwrap();
    for (number, guest) in list.into_iter().enumerate() {
        let (name, sex) = ((number + 1).to_string(), &guest[..1]);
        for hobby in guest[1..].bytes() {
            let fields =
                vec![("name", text(&name)), ("sex", text(sex)), ("hobby", Owned::Integer((hobby - b'0').into()))];
            facts.push(("guest", fields));
        }
    }
    facts.push(("last_seat", vec![("seat", Owned::Integer(guests as i64))]));
    facts.push(("counter", vec![("value", Owned::Integer(1))]));
    facts.push(("context", vec![("state", text("start"))]));
    facts
}

/// Returns an engine with the facts of `guests` guests. The next run seats them.
pub fn engine(guests: usize, limits: Limits) -> Engine {
    let mut engine = Engine::new(RULES, limits).unwrap();
    assert_all(&mut engine, &facts(guests));
    engine
}
