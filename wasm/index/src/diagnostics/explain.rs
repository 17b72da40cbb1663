//! Explains why a subscription matches an event or not: its expression with the value of every part.

use crate::compile::{Expression, Step};
use crate::diagnostics;
use crate::error::{Error, Kind};
use crate::eval::predicate;
use crate::event::{decode, Encoding, Event, Span, Value};
use crate::index::Index;
use crate::model::arithmetic::Term;
use crate::model::predicate::{Lowered, Predicate, Test};
use crate::model::schema::Schema;
use crate::model::strings::StringId;
use crate::support::hash::out_of_memory;
use crate::support::headroom;
use crate::support::heap_sort::sort;
use crate::term::Writer;

/// The maximum number of nodes of an explanation, and of bytes before its last node. Other nodes are omitted.
const MAX_NODES: usize = 10_000;
const MAX_BYTES: usize = 1 << 20;

/// The maximum number of bytes of a predicate's text, which is truncated, and of a value, which is omitted if it is longer.
const MAX_DETAIL_BYTES: usize = 4096;

/// Writes the explanation of the subscription `id` for the event in `bytes` as a term. A node is `{Verdict, Kind, Detail,
/// Children}`, and the detail of a predicate is `{Attribute, Expected, Actual}`.
///
/// Every predicate is evaluated, without short-circuiting. Takes time linear in the expression and the event. The term has
/// at most about a mebibyte, and marks the parts that it omits.
///
/// ```
/// use be_tree_index::diagnostics::explain::explain;
/// use be_tree_index::event::Format;
/// use be_tree_index::index::{Index, Insertion};
/// use be_tree_index::term::Reader;
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let mut index = Index::new(schema);
/// index.insert(&Insertion { id: 1, text: b"age > 30 and city = 'Rome'", constants: vec![] })?;
/// let mut term = Vec::new();
/// explain(&index, Format::Json, br#"{"age": 20, "city": "Rome"}"#, 1, &mut term)?;
/// let mut reader = Reader::new(&term)?;
/// assert_eq!(reader.tuple()?, 4);
/// assert_eq!(reader.atom()?.as_ref(), b"false");
/// assert_eq!(reader.atom()?.as_ref(), b"and");
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
///
/// # Errors
///
/// [`Kind::NotFound`], [`Kind::OutOfMemory`], and the errors of decoding the event. In the sandbox, running out of memory
/// may trap instead.
pub fn explain(
    index: &Index,
    encoding: impl Into<Encoding>,
    bytes: &[u8],
    id: u64,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let Some(slot) = index.subscriptions().find(id) else {
        return Err(Error::new(Kind::NotFound, format!("no subscription has the id {id}")));
    };
    let mut event = Event::default();
    decode(encoding, bytes, index.schema(), index.strings(), &mut event)?;
    event.lower(index.catalog().predicates.patterns().lowered())?;
    let subscription = index.subscriptions().get(slot);
    ensure(index.catalog().extent(subscription).analysis_bytes())?;
    let expression = index.catalog().expression(subscription);
    let parts = evaluated_parts(&expression, &event)?;
    make_room(&expression, index, out)?;
    Explainer { expression: &expression, parts: &parts, index, event: &event, nodes: MAX_NODES }
        .write(&mut Writer::new(out))
}

/// Checks that a block of `bytes` bytes is available for later allocations that cannot return an error.
///
/// The sandbox skips this check: an explanation frees nothing there, so the block would add to the memory used. There a
/// failed allocation traps, and the host reports that memory ran out.
fn ensure(bytes: usize) -> Result<(), Error> {
    if cfg!(target_arch = "wasm32") {
        return Ok(());
    }
    headroom::ensure(bytes)
}

/// Reserves room in `out` for the explanation, and checks that there is memory for writing it.
fn make_room(expression: &Expression, index: &Index, out: &mut Vec<u8>) -> Result<(), Error> {
    if cfg!(target_arch = "wasm32") {
        return Ok(());
    }
    let steps = expression.steps.len();
    let details = expression.predicates.iter().map(|predicate| {
        let name = index.schema().attribute(predicate.attribute).name.len();
        (name, text_bytes(predicate, index.schema(), index))
    });
    let (mut longest, mut written) = (0, steps * MAX_NODE_BYTES);
    for (name, text) in details {
        longest = longest.max(text);
        written += name + text.min(2 * MAX_DETAIL_BYTES) + MAX_VALUE_BYTES;
    }
    let last_node = MAX_NODE_BYTES + MAX_VALUE_BYTES + 2 * MAX_DETAIL_BYTES + longest;
    let most = written.min(MAX_BYTES + (MAX_NODES + steps.min(MAX_NODES)) * MAX_NODE_BYTES + last_node);
    out.try_reserve(most).map_err(out_of_memory)?;
    // A predicate's text, whose buffer doubles as it grows, with the table of its strings; and the operands of a chain.
    ensure(8 * longest + 2 * MAX_VALUE_BYTES + steps * CHILD_BYTES)
}

/// The maximum number of bytes of a node without its detail, and of a value that is written.
const MAX_NODE_BYTES: usize = 64;
const MAX_VALUE_BYTES: usize = 4 * MAX_DETAIL_BYTES;
/// The bytes for each operand of a chain in two tables that double as they grow.
const CHILD_BYTES: usize = 4 * size_of::<[usize; 2]>();

/// Returns an upper bound of the bytes of a predicate's text and of a table of its strings.
fn text_bytes(predicate: &Predicate<StringId>, schema: &Schema, index: &Index) -> usize {
    let name = schema.attribute(predicate.attribute).name.len();
    let part = match &predicate.test {
        Test::Contains(part) | Test::StartsWith(part) | Test::EndsWith(part) => part.len(),
        // A wildcard or an escape takes at most two bytes; the factor below counts a string's escapes.
        Test::Like(text) => 2 * text.len(),
        Test::Matches(regex) => regex.text().len(),
        Test::Lowered(Lowered::OneOf(texts)) => texts.iter().map(|text| 4 + text.len()).sum(),
        Test::Lowered(Lowered::Contains(text) | Lowered::StartsWith(text) | Lowered::EndsWith(text)) => text.len(),
        Test::Lowered(Lowered::Like(text)) => 2 * text.len(),
        Test::InNetworks(networks) => 48 * networks.len(),
        Test::Compared(comparison) => comparison.terms().map(|term| term_bytes(term, schema)).sum(),
        Test::SameString { other, .. } => schema.attribute(*other).name.len(),
        // An operator takes less than 16 bytes, including parentheses around its operands.
        Test::Objects(quantified) => {
            let objects = schema.objects(predicate.attribute);
            let predicates = quantified.predicates().map(|predicate| text_bytes(predicate, objects, index));
            16 * quantified.steps().len() + predicates.sum::<usize>()
        }
        _ => 0,
    };
    let mut bytes = 256 + name + 2 * part + predicate.test.constants() * (24 + size_of::<&[u8]>());
    predicate.test.each_string(|id| bytes += 2 * index.strings().get(*id).len());
    bytes
}

/// Returns an upper bound of the bytes of a term's text.
fn term_bytes(term: Term, schema: &Schema) -> usize {
    match term {
        Term::Attribute(id) | Term::Size(id) | Term::Length(id) => 16 + schema.attribute(id).name.len(),
        // The longest float has 24 characters. Parentheses may stand around each term.
        Term::Integer(_) | Term::Float(_) | Term::Operator(_) => 32,
    }
}

/// A part of an expression: the step at the same position and its operands, which directly precede it.
struct Part {
    /// Its value for the event.
    value: bool,
    /// The number of its steps.
    steps: usize,
}

/// Returns the parts of an expression, operands before their operator. The last one is the whole expression.
fn evaluated_parts(expression: &Expression, event: &Event) -> Result<Vec<Part>, Error> {
    let mut parts: Vec<Part> = Vec::new();
    parts.try_reserve_exact(expression.steps.len()).map_err(out_of_memory)?;
    for (place, &step) in expression.steps.iter().enumerate() {
        let operands = operands(place, step, &parts);
        let steps = 1 + operands.iter().flatten().map(|&operand| parts[operand].steps).sum::<usize>();
        let mut values = operands.iter().flatten().map(|&operand| parts[operand].value);
        let value = match step {
            Step::Constant(value) => value,
            Step::Predicate(index) => predicate::holds(&expression.predicates[index as usize], event),
            Step::Not => values.all(|value| !value),
            Step::And => values.all(|value| value),
            Step::Or => values.any(|value| value),
        };
        parts.push(Part { value, steps });
    }
    Ok(parts)
}

/// Returns the positions of the operands of the `step` at `place`, from left to right.
fn operands(place: usize, step: Step, parts: &[Part]) -> [Option<usize>; 2] {
    match step {
        Step::Constant(_) | Step::Predicate(_) => [None, None],
        Step::Not => [None, Some(place - 1)],
        Step::And | Step::Or => [Some(place - 1 - parts[place - 1].steps), Some(place - 1)],
    }
}

/// A unit of output that is not written yet.
enum Task {
    Part(usize),
    /// Omitted operands, with their number and their combined value.
    Omitted {
        value: bool,
        count: usize,
    },
    EndOfChildren,
}

struct Explainer<'a> {
    expression: &'a Expression,
    parts: &'a [Part],
    index: &'a Index,
    event: &'a Event,
    /// The number of nodes that may still be written.
    nodes: usize,
}

impl Explainer<'_> {
    fn write(mut self, writer: &mut Writer) -> Result<(), Error> {
        let mut tasks = Vec::new();
        // Each node pushes at most three tasks: itself, the end of its children, and an omission.
        tasks.try_reserve_exact(3 * (self.parts.len().min(MAX_NODES) + 1)).map_err(out_of_memory)?;
        tasks.push(Task::Part(self.parts.len() - 1));
        while let Some(task) = tasks.pop() {
            match task {
                Task::Part(place) if writer.written() > MAX_BYTES => write_omitted(self.parts[place].value, 1, writer),
                Task::Part(place) => self.write_part(place, &mut tasks, writer),
                Task::Omitted { value, count } => write_omitted(value, count, writer),
                Task::EndOfChildren => writer.end_list(),
            }
        }
        Ok(())
    }

    fn write_part(&mut self, place: usize, tasks: &mut Vec<Task>, writer: &mut Writer) {
        let step = self.expression.steps[place];
        writer.tuple(4);
        writer.boolean(self.parts[place].value);
        match step {
            Step::Predicate(predicate) => {
                writer.atom("predicate");
                write_detail(&self.expression.predicates[predicate as usize], self.index, self.event, writer);
            }
            Step::Constant(_) => write_operator("constant", writer),
            Step::Not => write_operator("not", writer),
            Step::And => write_operator("and", writer),
            Step::Or => write_operator("or", writer),
        }
        let children = self.children(place, step);
        let shown = children.len().min(self.nodes);
        self.nodes -= shown;
        let (children, omitted) = children.split_at(shown);
        tasks.push(Task::EndOfChildren);
        if omitted.is_empty() {
            writer.list(children.len());
        } else {
            writer.list(children.len() + 1);
            let mut values = omitted.iter().map(|&child| self.parts[child].value);
            let value = if step == Step::Or { values.any(|value| value) } else { values.all(|value| value) };
            tasks.push(Task::Omitted { value, count: omitted.len() });
        }
        tasks.extend(children.iter().rev().map(|&child| Task::Part(child)));
    }

    /// Returns the positions of a part's operands in the order of the text. A chain of one operator is flattened: its
    /// operands are siblings.
    fn children(&self, place: usize, step: Step) -> Vec<usize> {
        let mut children = Vec::new();
        let mut open: Vec<usize> = operands(place, step, self.parts).into_iter().flatten().collect();
        while let Some(last) = open.pop() {
            match self.expression.steps[last] {
                joined @ (Step::And | Step::Or) if joined == step => {
                    open.extend(operands(last, joined, self.parts).into_iter().flatten());
                }
                _ => children.push(last),
            }
        }
        // The rightmost operand was popped first.
        children.reverse();
        children
    }
}

fn write_omitted(value: bool, count: usize, writer: &mut Writer) {
    writer.tuple(4);
    writer.boolean(value);
    writer.atom("omitted");
    writer.unsigned(count as u64);
    writer.list(0);
    writer.end_list();
}

fn write_operator(kind: &str, writer: &mut Writer) {
    writer.atom(kind);
    writer.atom("nil");
}

fn write_detail(predicate: &Predicate<StringId>, index: &Index, event: &Event, writer: &mut Writer) {
    writer.tuple(3);
    writer.binary(index.schema().attribute(predicate.attribute).name.as_bytes());
    writer.binary(shortened(diagnostics::text(predicate, index)).as_bytes());
    let value = event.values[predicate.attribute.index()];
    if length(value, event) > MAX_DETAIL_BYTES {
        writer.tuple(2);
        writer.atom("omitted");
        writer.unsigned(count(value) as u64);
        return;
    }
    match value {
        Value::Objects(span) => write_objects(span, index.schema().objects(predicate.attribute), event, writer),
        value => write_value(value, event, writer),
    }
}

/// Truncates a long text.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_DETAIL_BYTES {
        let end = (0..=MAX_DETAIL_BYTES).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        let omitted = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("... ({omitted} bytes are left out)"));
    }
    text
}

/// Returns an estimate of the bytes of a value. The strings of a list are not read if its length alone is too large.
fn length(value: Value, event: &Event) -> usize {
    let list = |span: Span, bytes: usize| span.len as usize * bytes;
    match value {
        Value::Undefined
        | Value::Patterns
        | Value::Unfit(_)
        | Value::Boolean(_)
        | Value::Integer(_)
        | Value::Float(_) => 0,
        Value::Address(_) => 48,
        Value::String(text) => text.bytes.len as usize,
        Value::Integers(span) => list(span, 8),
        Value::Segments(span) => list(span, 16),
        Value::Strings(span) if list(span, 8) > MAX_DETAIL_BYTES => list(span, 8),
        Value::Strings(span) => span.of(&event.strings).iter().map(|text| 8 + text.bytes.len as usize).sum(),
        Value::Caps(span) if list(span, 32) > MAX_DETAIL_BYTES => list(span, 32),
        Value::Objects(span) if list(span, 8) > MAX_DETAIL_BYTES => list(span, 8),
        Value::Objects(span) => {
            let values = span.of(&event.objects).iter().flat_map(|object| object.values(event));
            // An attribute's name counts as several elements.
            8 * span.len as usize + values.map(|(_, value)| 40 + length(value, event)).sum::<usize>()
        }
        Value::Caps(span) => span.of(&event.caps).iter().map(|cap| 32 + cap.namespace.bytes.len as usize).sum(),
    }
}

/// Returns the number of elements of a list, or of bytes of a string.
fn count(value: Value) -> usize {
    match value {
        Value::Integers(span)
        | Value::Strings(span)
        | Value::Segments(span)
        | Value::Caps(span)
        | Value::Objects(span) => span.len as usize,
        Value::String(text) => text.bytes.len as usize,
        _ => 0,
    }
}

fn write_value(value: Value, event: &Event, writer: &mut Writer) {
    match value {
        // No expression names the internal attribute, and no object contains a list of objects.
        Value::Undefined | Value::Patterns | Value::Unfit(_) | Value::Objects(_) => writer.atom("undefined"),
        Value::Boolean(value) => writer.boolean(value),
        Value::Integer(value) => writer.integer(value),
        Value::Float(value) => writer.float(value),
        Value::String(text) => writer.binary(event.text(text)),
        Value::Address(position) => writer.binary(event.addresses[position as usize].to_string().as_bytes()),
        Value::Integers(span) => {
            write_list(span.of(&event.integers), writer, |integer, writer| writer.integer(*integer));
        }
        Value::Strings(span) => {
            // Restores the order of the event: long lists of strings are sorted by id.
            let mut texts = span.of(&event.strings).to_vec();
            sort(&mut texts, |a, b| a.bytes.start < b.bytes.start);
            write_list(&texts, writer, |text, writer| writer.binary(event.text(*text)));
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

/// Writes objects as maps of the attributes that they define.
fn write_objects(objects: Span, schema: &Schema, event: &Event, writer: &mut Writer) {
    write_list(objects.of(&event.objects), writer, |object, writer| {
        writer.map(object.defined.count_ones() as usize);
        for (attribute, value) in object.values(event) {
            writer.binary(schema.attribute(attribute).name.as_bytes());
            write_value(value, event, writer);
        }
    });
}

fn write_list<T>(elements: &[T], writer: &mut Writer, mut write: impl FnMut(&T, &mut Writer)) {
    writer.list(elements.len());
    elements.iter().for_each(|element| write(element, writer));
    writer.end_list();
}
