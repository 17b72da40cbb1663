//! The crate quamina: patterns over JSON events, each a conjunction with one set of values a field.
//!
//! quamina has no pattern for a list with several required values. So a list becomes an object with a member of value true
//! for each element, and quamina matches each member as a field.
//!
//! quamina tests fields in the order of their names. So a name begins with its rank by the number of distinct compared
//! values, and the most selective attribute comes first.

use std::collections::HashSet;
use std::fmt::{Display, Write};
use std::time::{Duration, Instant};

use be_tree_index::event::{decode, Event, Value};
use be_tree_index::model::predicate::{Constants, Postfix, Predicate, Relation, Step, Test, Text};
use be_tree_index::model::schema::AttributeId;
use be_tree_index::model::strings::Interner;
use quamina::{Quamina, QuaminaBuilder};

use be_tree_bench_common::measure::Engine;
use be_tree_bench_common::workload::{Events, Workload};
use be_tree_bench_common::Unavailable;

/// Maximum bytes of a field. quamina's default of 10 MB guards against untrusted patterns.
const ARENA_BYTES: usize = 1 << 30;

pub struct Peer {
    patterns: Quamina<u64>,
    events: Vec<String>,
    event: usize,
    ids: Vec<u64>,
}

impl Peer {
    pub fn new(workload: &Workload, events: &Events, limit: Duration) -> Result<Self, Unavailable> {
        let started = Instant::now();
        let mut conjunctions = Vec::new();
        for parsed in workload.parsed() {
            let (id, postfix) = parsed?;
            conjunctions.push((id, conjunction(&postfix)?));
        }
        let names = names(workload, &conjunctions);
        let builder = QuaminaBuilder::new().with_arena_byte_budget(ARENA_BYTES);
        let mut patterns = builder.build().map_err(|error| Unavailable::Failed(error.to_string()))?;
        for (id, fields) in conjunctions {
            let fields = fields.iter().map(|(attribute, values)| (&names[attribute.index()], values));
            let pattern = object(fields);
            let added = patterns.add_pattern(id, &pattern);
            added.map_err(|error| Unavailable::Failed(format!("{pattern}: {error}")))?;
            if started.elapsed() > limit {
                let reason = format!("after {} s it has {id} patterns", limit.as_secs());
                return Err(Unavailable::Skipped(reason));
            }
        }
        let events = events.bytes.iter().map(|bytes| event(bytes, events, workload, &names)).collect();
        Ok(Peer { patterns, events, event: 0, ids: Vec::new() })
    }
}

impl Engine for Peer {
    /// quamina reads events itself.
    fn decode(&mut self, first: usize) {
        self.event = first;
    }

    fn search(&mut self) {
        let found = self.patterns.matches_for_event(self.events[self.event].as_bytes());
        self.ids = found.expect("the event is JSON");
    }

    fn ids(&mut self, _nth: usize) -> Vec<u64> {
        self.ids.clone()
    }
}

/// An attribute, and the accepted values of its predicate in the language of patterns.
type Field = (AttributeId, String);

fn conjunction(postfix: &Postfix) -> Result<Vec<Field>, Unavailable> {
    let mut fields = Vec::new();
    for step in postfix {
        match step {
            Step::Predicate(predicate) => fields.push((predicate.attribute, values(predicate)?)),
            Step::And => {}
            _ => return Err(Unavailable::Skipped("its patterns are conjunctions".into())),
        }
    }
    Ok(fields)
}

fn values(predicate: &Predicate<Text>) -> Result<String, Unavailable> {
    Ok(match &predicate.test {
        Test::Integer(Relation::Equal, constant) => format!("[{constant}]"),
        Test::StringEqual(text) => format!("[{}]", string(text)),
        Test::StringNotEqual(text) => format!("[{{\"anything-but\":[{}]}}]", string(text)),
        Test::OneOf(Constants::Strings(texts)) => format!("[{}]", strings(texts)),
        Test::AllOf(Constants::Strings(texts)) => members(texts.iter().map(|text| &text[..]), "[true]"),
        Test::Contains(part) => format!("[{{\"wildcard\":{}}}]", string(&[b"*", &part[..], b"*"].concat())),
        other => return Err(Unavailable::Skipped(format!("it has no pattern for {other:?}"))),
    })
}

/// Returns the quoted name of each attribute in patterns.
fn names(workload: &Workload, conjunctions: &[(u64, Vec<Field>)]) -> Vec<String> {
    let mut distinct = vec![HashSet::new(); workload.attributes.len()];
    for (attribute, values) in conjunctions.iter().flat_map(|(_, fields)| fields) {
        distinct[attribute.index()].insert(values.as_str());
    }
    let rank = |values: &HashSet<&str>| distinct.iter().filter(|others| others.len() > values.len()).count();
    let names = workload.attributes.iter().zip(&distinct);
    names.map(|(attribute, values)| string(format!("{:05}-{}", rank(values), attribute.name).as_bytes())).collect()
}

fn strings(texts: &[Text]) -> String {
    texts.iter().map(|text| string(text)).collect::<Vec<_>>().join(",")
}

fn members<'a>(names: impl Iterator<Item = &'a [u8]>, value: &str) -> String {
    object(names.map(|name| (string(name), value)))
}

fn object(members: impl Iterator<Item = (impl Display, impl Display)>) -> String {
    let members: Vec<String> = members.map(|(name, value)| format!("{name}:{value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn string(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..='\x1f' => write!(out, "\\u{:04x}", character as u32).expect("writing to a string does not fail"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Returns an event in the form of the patterns.
fn event(bytes: &[u8], events: &Events, workload: &Workload, names: &[String]) -> String {
    let mut event = Event::default();
    let strings = Interner::default();
    decode(events.format, bytes, &workload.schema, &strings, &mut event).expect("the events of a workload are right");
    let mut fields = Vec::new();
    for (name, value) in names.iter().zip(&event.values) {
        let value = match *value {
            Value::Undefined
            | Value::Segments(_)
            | Value::Caps(_)
            | Value::Objects(_)
            | Value::Address(_)
            | Value::Patterns
            | Value::Unfit(_) => continue,
            Value::Boolean(boolean) => boolean.to_string(),
            Value::Integer(integer) => integer.to_string(),
            Value::Float(float) => float.to_string(),
            Value::String(text) => string(event.text(text)),
            Value::Integers(list) => format!("{:?}", list.of(&event.integers)),
            Value::Strings(list) => members(list.of(&event.strings).iter().map(|&text| event.text(text)), "true"),
        };
        fields.push((name, value));
    }
    object(fields.into_iter())
}
