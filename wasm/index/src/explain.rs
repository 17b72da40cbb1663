//! Why a subscription matches an event, or does not: its expression with the value of every part.

use crate::error::{Error, Kind};
use crate::event::{decode, Event, Format, Value};
use crate::expression::{Expression, Step};
use crate::index::Index;
use crate::interner::StringId;
use crate::language::predicate_text;
use crate::predicate::Predicate;
use crate::{evaluate, term::Writer};

/// Writes the explanation of the subscription `id` for the event in `bytes` as a term: a node is
/// `{Verdict, Kind, Detail, Children}`, and the detail of a predicate `{Attribute, Expected, Actual}`.
///
/// Every predicate is evaluated, whether or not it decides anything. Errors: [`Kind::NotFound`], and what is wrong with
/// the event.
pub fn explain(index: &Index, format: Format, bytes: &[u8], id: u64, out: &mut Vec<u8>) -> Result<(), Error> {
    let Some(slot) = index.subscriptions().find(id) else {
        return Err(Error::new(Kind::NotFound, format!("no subscription has the id {id}")));
    };
    let mut event = Event::default();
    decode(format, bytes, index.schema(), index.strings(), &mut event)?;
    let expression = index.library().expression(index.subscriptions().get(slot));
    let parts = evaluated_parts(&expression, &event);
    write(&parts, &expression, index, &event, &mut Writer::new(out));
    Ok(())
}

/// A part of an expression, with what it came to.
struct Part {
    step: Step,
    value: bool,
    /// The parts it joins: those of a chain of one operator stand side by side.
    children: Vec<usize>,
}

/// The parts of an expression, operands before what joins them; the last one is the whole.
fn evaluated_parts(expression: &Expression, event: &Event) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut operands: Vec<usize> = Vec::new();
    for &step in &expression.steps {
        let mut children = Vec::new();
        let value = match step {
            Step::Constant(value) => value,
            Step::Predicate(index) => evaluate::holds(&expression.predicates[index as usize], event),
            Step::Not => {
                children.extend(operands.pop());
                children.iter().all(|&child| !parts[child].value)
            }
            Step::And | Step::Or => {
                let right = operands.pop();
                let left = operands.pop();
                for operand in [left, right].into_iter().flatten() {
                    if parts[operand].step == step {
                        children.append(&mut parts[operand].children);
                    } else {
                        children.push(operand);
                    }
                }
                let mut values = children.iter().map(|&child| parts[child].value);
                if step == Step::And {
                    values.all(|value| value)
                } else {
                    values.any(|value| value)
                }
            }
        };
        operands.push(parts.len());
        parts.push(Part { step, value, children });
    }
    parts
}

/// What is still to be written.
enum Task {
    Part(usize),
    EndOfChildren,
}

fn write(parts: &[Part], expression: &Expression, index: &Index, event: &Event, writer: &mut Writer) {
    let mut tasks = vec![Task::Part(parts.len() - 1)];
    while let Some(task) = tasks.pop() {
        let part = match task {
            Task::Part(part) => &parts[part],
            Task::EndOfChildren => {
                writer.end_list();
                continue;
            }
        };
        writer.tuple(4);
        writer.boolean(part.value);
        match part.step {
            Step::Predicate(predicate) => {
                writer.atom("predicate");
                write_detail(&expression.predicates[predicate as usize], index, event, writer);
            }
            Step::Constant(_) => write_operator("constant", writer),
            Step::Not => write_operator("not", writer),
            Step::And => write_operator("and", writer),
            Step::Or => write_operator("or", writer),
        }
        writer.list(part.children.len());
        tasks.push(Task::EndOfChildren);
        tasks.extend(part.children.iter().rev().map(|&child| Task::Part(child)));
    }
}

fn write_operator(kind: &str, writer: &mut Writer) {
    writer.atom(kind);
    writer.atom("nil");
}

fn write_detail(predicate: &Predicate<StringId>, index: &Index, event: &Event, writer: &mut Writer) {
    let bytes = |id: &StringId| index.strings().get(*id);
    writer.tuple(3);
    writer.binary(index.schema().attribute(predicate.attribute).name.as_bytes());
    writer.binary(predicate_text(predicate, index.schema(), bytes).as_bytes());
    write_value(event.values[predicate.attribute as usize], event, writer);
}

fn write_value(value: Value, event: &Event, writer: &mut Writer) {
    match value {
        Value::Undefined => writer.atom("undefined"),
        Value::Boolean(value) => writer.boolean(value),
        Value::Integer(value) => writer.integer(value),
        Value::Float(value) => writer.float(value),
        Value::String(text) => writer.binary(event.text(text)),
        Value::Integers(span) => {
            write_list(span.of(&event.integers), writer, |integer, writer| writer.integer(*integer));
        }
        Value::Strings(span) => {
            write_list(span.of(&event.strings), writer, |text, writer| writer.binary(event.text(*text)));
        }
        Value::Segments(span) => write_list(span.of(&event.segments), writer, |segment, writer| {
            writer.tuple(2);
            writer.integer(segment.id);
            writer.integer(segment.micros);
        }),
        Value::Caps(span) => write_list(span.of(&event.caps), writer, |cap, writer| {
            writer.tuple(3);
            writer.tuple(3);
            writer.binary(cap.cap.name().as_bytes());
            writer.integer(cap.id);
            writer.binary(event.text(cap.namespace));
            writer.integer(cap.value);
            match cap.micros {
                Some(micros) => writer.integer(micros),
                None => writer.atom("undefined"),
            }
        }),
    }
}

fn write_list<T>(elements: &[T], writer: &mut Writer, mut write: impl FnMut(&T, &mut Writer)) {
    writer.list(elements.len());
    elements.iter().for_each(|element| write(element, writer));
    writer.end_list();
}
