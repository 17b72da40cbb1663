//! The crate a-tree, an A-Tree (SIGMOD 2021).
//!
//! Its language is nearly ours, but `not` of a test of an undefined attribute is unknown there and true here. So negations
//! are pushed down to the tests, and a negated test of an optional attribute is joined by `or` to `is null`. Lists have no
//! such test, so a boolean attribute beside each list replaces it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use a_tree::{ATree, AttributeDefinition, Event as PeerEvent, EventBuilder, EventError};
use be_tree_index::event::{decode, Event, Value};
use be_tree_index::language::predicate_text;
use be_tree_index::model::predicate::{Constants, Predicate, Test, Text};
use be_tree_index::model::schema::{Attribute, Type};
use be_tree_index::model::strings::Interner;

use be_tree_bench_common::measure::Engine;
use be_tree_bench_common::tree::Tree;
use be_tree_bench_common::workload::{Events, Workload};
use be_tree_bench_common::Unavailable;

/// Decimals of floats, which are integers in a-tree.
const DECIMALS: u32 = 9;

pub struct Peer<'a> {
    workload: &'a Workload,
    events: &'a Events,
    index: ATree<u64>,
    decoded: Event,
    event: Option<PeerEvent>,
    ids: Vec<u64>,
}

impl<'a> Peer<'a> {
    pub fn new(workload: &'a Workload, events: &'a Events, limit: Duration) -> Result<Self, Unavailable> {
        let definitions = workload.attributes.iter().map(definitions).collect::<Result<Vec<_>, _>>()?.concat();
        let mut index = ATree::new(&definitions).map_err(|error| Unavailable::Failed(error.to_string()))?;
        let started = Instant::now();
        for parsed in workload.parsed() {
            let (id, postfix) = parsed?;
            let mut text = String::new();
            write(&Tree::new(postfix), false, workload, &mut text)?;
            index.insert(&id, &text).map_err(|error| Unavailable::Failed(format!("{text}: {error}")))?;
            if started.elapsed() > limit {
                let reason = format!("after {} s it has {id} expressions", limit.as_secs());
                return Err(Unavailable::Skipped(reason));
            }
        }
        Ok(Peer { workload, events, index, decoded: Event::default(), event: None, ids: Vec::new() })
    }

    fn build_event(&self) -> Result<PeerEvent, EventError> {
        let mut builder = self.index.make_event();
        for (attribute, value) in self.workload.attributes.iter().zip(&self.decoded.values) {
            self.add(&mut builder, attribute, *value)?;
        }
        builder.build()
    }

    fn add(&self, builder: &mut EventBuilder, attribute: &Attribute, value: Value) -> Result<(), EventError> {
        let name = &attribute.name;
        if is_list(attribute.ty) {
            builder.with_boolean(&undefined(name), value == Value::Undefined)?;
        }
        let text = |text| std::str::from_utf8(self.decoded.text(text)).expect("events are UTF-8");
        match value {
            Value::Boolean(boolean) => builder.with_boolean(name, boolean),
            Value::Integer(integer) => builder.with_integer(name, integer),
            Value::Float(float) => {
                builder.with_float(name, (float * f64::from(10u32.pow(DECIMALS))).round() as i64, DECIMALS)
            }
            Value::String(string) => builder.with_string(name, text(string)),
            Value::Integers(list) => builder.with_integer_list(name, list.of(&self.decoded.integers)),
            Value::Strings(list) => {
                let strings: Vec<&str> = list.of(&self.decoded.strings).iter().map(|&string| text(string)).collect();
                builder.with_string_list(name, &strings)
            }
            Value::Undefined
            | Value::Segments(_)
            | Value::Caps(_)
            | Value::Objects(_)
            | Value::Address(_)
            | Value::Patterns
            | Value::Unfit(_) => Ok(()),
        }
    }
}

impl Engine for Peer<'_> {
    fn decode(&mut self, first: usize) {
        let bytes = &self.events.bytes[first];
        let strings = Interner::default();
        let decoded = decode(self.events.format, bytes, &self.workload.schema, &strings, &mut self.decoded);
        decoded.expect("the events of a workload are right");
        self.event = Some(self.build_event().expect("its attributes are those of the workload"));
    }

    fn search(&mut self) {
        let event = self.event.as_ref().expect("an event was decoded");
        let report = self.index.search(event).expect("the event fits the attributes");
        self.ids.clear();
        self.ids.extend(report.matches().iter().copied());
    }

    fn ids(&mut self, _nth: usize) -> Vec<u64> {
        self.ids.clone()
    }
}

fn definitions(attribute: &Attribute) -> Result<Vec<AttributeDefinition>, Unavailable> {
    let name = &attribute.name;
    let companion = AttributeDefinition::boolean(&undefined(name));
    Ok(match attribute.ty {
        Type::Boolean => vec![AttributeDefinition::boolean(name)],
        Type::Integer => vec![AttributeDefinition::integer(name)],
        Type::Float => vec![AttributeDefinition::float(name)],
        Type::String => vec![AttributeDefinition::string(name)],
        Type::IntegerList => vec![AttributeDefinition::integer_list(name), companion],
        Type::StringList => vec![AttributeDefinition::string_list(name), companion],
        other => return Err(Unavailable::Skipped(format!("it has no type {}", other.name()))),
    })
}

fn is_list(ty: Type) -> bool {
    matches!(ty, Type::IntegerList | Type::StringList)
}

fn undefined(name: &str) -> String {
    format!("undefined-{name}")
}

/// Writes `tree`, or its negation, in the peer's language.
fn write(tree: &Tree<Text>, negated: bool, workload: &Workload, out: &mut String) -> Result<(), Unavailable> {
    let (left, operator, right) = match tree {
        Tree::Constant(_) => return Err(Unavailable::Skipped("it has no constants".into())),
        Tree::Test(predicate) => return write_test(predicate, negated, workload, out),
        Tree::Not(operand) => return write(operand, !negated, workload, out),
        Tree::And(left, right) => (left, if negated { " or " } else { " and " }, right),
        Tree::Or(left, right) => (left, if negated { " and " } else { " or " }, right),
    };
    out.push('(');
    write(left, negated, workload, out)?;
    out.push_str(operator);
    write(right, negated, workload, out)?;
    out.push(')');
    Ok(())
}

fn write_test(
    predicate: &Predicate<Text>,
    negated: bool,
    workload: &Workload,
    out: &mut String,
) -> Result<(), Unavailable> {
    if matches!(predicate.test, Test::Contains(_) | Test::StartsWith(_) | Test::EndsWith(_)) {
        return Err(Unavailable::Skipped("it has no tests of parts of strings".into()));
    }
    let attribute = workload.schema.attribute(predicate.attribute);
    let name = &attribute.name;
    let text = match &predicate.test {
        Test::AllOf(constants) => all_of(predicate, constants, workload),
        _ => predicate_text(predicate, &workload.schema, |text| text),
    };
    let (absent, present) = if is_list(attribute.ty) {
        (undefined(name), format!("not {}", undefined(name)))
    } else {
        (format!("{name} is null"), format!("{name} is not null"))
    };
    let written = match (&predicate.test, negated) {
        (Test::Null, false) | (Test::NotNull, true) => write!(out, "({absent})"),
        (Test::Null, true) | (Test::NotNull, false) => write!(out, "({present})"),
        (_, false) => write!(out, "({text})"),
        (_, true) if attribute.optional => write!(out, "(not ({text}) or {absent})"),
        (_, true) => write!(out, "(not ({text}))"),
    };
    written.expect("writing to a string does not fail");
    Ok(())
}

/// Writes our `all of`: the list has all constants. a-tree's own means that the list has no others.
fn all_of(predicate: &Predicate<Text>, constants: &Constants<Text>, workload: &Workload) -> String {
    let singles: Vec<Constants<Text>> = match constants {
        Constants::Integers(integers) => {
            integers.iter().map(|&integer| Constants::Integers([integer].into())).collect()
        }
        Constants::Strings(texts) => texts.iter().map(|text| Constants::Strings([text.clone()].into())).collect(),
    };
    let tests = singles.into_iter().map(|single| {
        let predicate = Predicate { attribute: predicate.attribute, test: Test::OneOf(single) };
        predicate_text(&predicate, &workload.schema, |text| text)
    });
    tests.collect::<Vec<_>>().join(" and ")
}
