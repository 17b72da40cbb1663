//! Explains why an expression is true for an event, or false.

use std::fmt::Write;

use crate::error::{push, Error};
use crate::evaluate::predicate_holds;
use crate::event::Event;
use crate::expression::{Constants, Part, Predicate, Quantifier, Step, Test};
use crate::schema::Schema;
use crate::term::Writer;
use crate::value::{Shape, Value};

/// A part of an expression: its last step, its value, and its operands.
struct Node<'s> {
    step: &'s Step,
    verdict: bool,
    children: Vec<usize>,
}

/// Writes a node, `{Verdict, Kind, Detail, Children}`, for all of `steps`.
pub fn explain(steps: &[Step], event: &Event, schema: &Schema, out: &mut Vec<u8>) -> Result<(), Error<'static>> {
    let nodes = evaluated(steps, event)?;
    let mut writer = Writer::new(out);
    // An explicit stack of parts to write, nodes and ends of children, replaces recursion.
    let mut tasks = vec![Some(nodes.len() - 1)];
    while let Some(task) = tasks.pop() {
        let Some(node) = task.map(|place| &nodes[place]) else {
            writer.end_list();
            continue;
        };
        writer.tuple(4);
        writer.boolean(node.verdict);
        match node.step {
            Step::Predicate(predicate) => {
                writer.atom("predicate");
                writer.tuple(3);
                writer.binary(&[&schema[predicate.attribute].name]);
                writer.binary(&[print(predicate, schema).as_bytes()]);
                write(event.attributes[predicate.attribute], event, &mut writer);
            }
            operator => {
                writer.atom(match operator {
                    Step::Not => "not",
                    Step::And => "and",
                    Step::Or => "or",
                    _ => "constant",
                });
                writer.atom("nil");
            }
        }
        writer.list(node.children.len());
        push(&mut tasks, None)?;
        for &child in node.children.iter().rev() {
            push(&mut tasks, Some(child))?;
        }
    }
    Ok(())
}

fn evaluated<'s>(steps: &'s [Step], event: &Event) -> Result<Vec<Node<'s>>, Error<'static>> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut operands: Vec<usize> = Vec::new();
    for step in steps {
        let arity = match step {
            Step::Constant(_) | Step::Predicate(_) => 0,
            Step::Not => 1,
            Step::And | Step::Or => 2,
        };
        let children = operands.split_off(operands.len() - arity);
        let verdict = match step {
            Step::Constant(value) => *value,
            Step::Predicate(predicate) => predicate_holds(predicate, event),
            Step::Not => !nodes[children[0]].verdict,
            Step::And => children.iter().all(|&child| nodes[child].verdict),
            Step::Or => children.iter().any(|&child| nodes[child].verdict),
        };
        push(&mut operands, nodes.len())?;
        push(&mut nodes, Node { step, verdict, children })?;
    }
    Ok(nodes)
}

fn write(value: Value, event: &Event, writer: &mut Writer) {
    match value {
        Value::Boolean(boolean) => writer.boolean(boolean),
        Value::Integer(integer) => writer.integer(integer),
        Value::Float(float) => writer.float(float),
        Value::Text(text) => writer.binary(&[event.values.bytes(text)]),
        // A checked value is nested no deeper than a frequency cap.
        Value::Sequence(sequence) if sequence.shape == Shape::Tuple => {
            writer.tuple(sequence.length as u8);
            event.values.each(sequence).for_each(|part| write(part, event, writer));
        }
        Value::Sequence(sequence) => {
            writer.list(sequence.length as usize);
            event.values.each(sequence).for_each(|element| write(element, event, writer));
            writer.end_list();
        }
        Value::Undefined | Value::Wide(_) | Value::Huge(_) | Value::Other => writer.atom("undefined"),
    }
}

/// Returns the predicate's text in canonical form.
fn print(predicate: &Predicate, schema: &Schema) -> String {
    let name = String::from_utf8_lossy(&schema[predicate.attribute].name);
    match &predicate.test {
        Test::True => name.into_owned(),
        Test::Integer(relation, constant) => format!("{name} {} {constant}", relation.symbol),
        Test::Float(relation, constant) => format!("{name} {} {constant:?}", relation.symbol),
        Test::Text(relation, constant) => format!("{name} {} {}", relation.symbol, quote(constant)),
        Test::Among(quantifier, constants) => {
            let list = schema[predicate.attribute].is_list();
            let how = match (quantifier, list) {
                (Quantifier::One, false) => "in",
                (_, false) => "not in",
                (Quantifier::One, true) => "one of",
                (Quantifier::None, true) => "none of",
                (Quantifier::All, true) => "all of",
            };
            let constants: Vec<String> = match constants {
                Constants::Integers(integers) => integers.iter().map(i64::to_string).collect(),
                Constants::Texts(texts) => texts.iter().map(|text| quote(text)).collect(),
            };
            format!("{name} {how} ({})", constants.join(", "))
        }
        Test::Null => format!("{name} is null"),
        Test::NotNull => format!("{name} is not null"),
        Test::Empty => format!("{name} is empty"),
        Test::Part(part, text) => {
            let function = match part {
                Part::Any => "contains",
                Part::Start => "starts_with",
                Part::End => "ends_with",
            };
            format!("{function}({name}, {})", quote(text))
        }
        Test::Geo { latitude, longitude, radius, .. } => {
            format!("geo_within_radius({latitude:?}, {longitude:?}, {radius:?})")
        }
        Test::Segment { within, id, seconds, .. } => {
            format!("segment_{}({name}, {id}, {seconds})", if *within { "within" } else { "before" })
        }
        Test::Cap { kind, namespace, value, seconds, .. } => {
            format!("within_frequency_cap({}, {}, {value}, {seconds})", quote(kind), quote(namespace))
        }
    }
}

fn quote(text: &[u8]) -> String {
    let mut quoted = String::from("'");
    for character in String::from_utf8_lossy(text).chars() {
        let _ = match character {
            '\\' | '\'' => write!(quoted, "\\{character}"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            plain => write!(quoted, "{plain}"),
        };
    }
    quoted + "'"
}
