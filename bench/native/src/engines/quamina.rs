//! The crate quamina: patterns over JSON events, each a conjunction with one set of values a field.
//!
//! A list that must have several values at once has no pattern. Such a list is given as an object with a member that is
//! true for each element, which quamina matches as so many fields.

use std::fmt::Write;
use std::time::{Duration, Instant};

use be_tree_index::event::{decode, Event, Value};
use be_tree_index::interner::Interner;
use be_tree_index::predicate::{Constants, Postfix, Predicate, Relation, Step, Test, Text};
use quamina::{Quamina, QuaminaBuilder};

use super::Unavailable;
use crate::measure::Engine;
use crate::workload::{Events, Workload};

/// Its own limit of 10 MB a field is for patterns from strangers.
const ARENA_BYTES: usize = 1 << 30;

pub struct Peer {
    patterns: Quamina<u64>,
    events: Vec<String>,
    event: usize,
    ids: Vec<u64>,
}

impl Peer {
    pub fn new(workload: &Workload, events: &Events, limit: Duration) -> Result<Self, Unavailable> {
        let builder = QuaminaBuilder::new().with_arena_byte_budget(ARENA_BYTES);
        let mut patterns = builder.build().map_err(|error| Unavailable::Failed(error.to_string()))?;
        let started = Instant::now();
        for parsed in workload.parsed() {
            let (id, postfix) = parsed?;
            let pattern = pattern(&postfix, workload)?;
            patterns
                .add_pattern(id, &pattern)
                .map_err(|error| Unavailable::Failed(format!("{pattern}: {error}")))?;
            if started.elapsed() > limit {
                let reason = format!("after {} s it has {id} patterns", limit.as_secs());
                return Err(Unavailable::Skipped(reason));
            }
        }
        let events = events.bytes.iter().map(|bytes| event(bytes, events, workload)).collect();
        Ok(Peer { patterns, events, event: 0, ids: Vec::new() })
    }
}

impl Engine for Peer {
    /// It reads events itself.
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

fn pattern(postfix: &Postfix, workload: &Workload) -> Result<String, Unavailable> {
    let mut fields = Vec::new();
    for step in postfix {
        match step {
            Step::Predicate(predicate) => fields.push(field(predicate, workload)?),
            Step::And => {}
            _ => return Err(Unavailable::Skipped("its patterns are conjunctions".into())),
        }
    }
    Ok(format!("{{{}}}", fields.join(",")))
}

fn field(predicate: &Predicate<Text>, workload: &Workload) -> Result<String, Unavailable> {
    let name = string(workload.schema.attribute(predicate.attribute).name.as_bytes());
    let values = match &predicate.test {
        Test::Integer(Relation::Equal, constant) => format!("[{constant}]"),
        Test::StringEqual(text) => format!("[{}]", string(text)),
        Test::StringNotEqual(text) => format!("[{{\"anything-but\":[{}]}}]", string(text)),
        Test::OneOf(Constants::Strings(texts)) => format!("[{}]", strings(texts)),
        Test::AllOf(Constants::Strings(texts)) => members(texts.iter().map(|text| &text[..]), "[true]"),
        Test::Contains(part) => format!("[{{\"wildcard\":{}}}]", string(&[b"*", &part[..], b"*"].concat())),
        other => return Err(Unavailable::Skipped(format!("it has no pattern for {other:?}"))),
    };
    Ok(format!("{name}:{values}"))
}

fn strings(texts: &[Text]) -> String {
    texts.iter().map(|text| string(text)).collect::<Vec<_>>().join(",")
}

fn members<'a>(names: impl Iterator<Item = &'a [u8]>, value: &str) -> String {
    let members: Vec<String> = names.map(|name| format!("{}:{value}", string(name))).collect();
    format!("{{{}}}", members.join(","))
}

fn string(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..='\x1f' => {
                write!(out, "\\u{:04x}", character as u32).expect("a string takes all that is written to it")
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// An event of the workload as the patterns ask for it.
fn event(bytes: &[u8], events: &Events, workload: &Workload) -> String {
    let mut event = Event::default();
    let strings = Interner::default();
    decode(events.format, bytes, &workload.schema, &strings, &mut event).expect("the events of a workload are right");
    let mut fields = Vec::new();
    for (attribute, value) in workload.attributes.iter().zip(&event.values) {
        let value = match *value {
            Value::Undefined | Value::Segments(_) | Value::Caps(_) => continue,
            Value::Boolean(boolean) => boolean.to_string(),
            Value::Integer(integer) => integer.to_string(),
            Value::Float(float) => float.to_string(),
            Value::String(text) => string(event.text(text)),
            Value::Integers(list) => format!("{:?}", list.of(&event.integers)),
            Value::Strings(list) => members(list.of(&event.strings).iter().map(|&text| event.text(text)), "true"),
        };
        fields.push(format!("{}:{value}", string(attribute.name.as_bytes())));
    }
    format!("{{{}}}", fields.join(","))
}
