//! Prints predicates and expressions in canonical form. Parsing the text again returns the same expression.

use std::fmt::Write;

use crate::model::arithmetic::Term;
use crate::model::predicate::{Constants, Lowered, Predicate, Relation, Step, Test};
use crate::model::schema::{Schema, Type};
use crate::model::time::{self, Unit};
use crate::model::wildcard;
use crate::support::heap_sort::sort;

/// Returns the text of `predicate`, such as `age >= 21`. `bytes` returns the bytes of a string.
pub fn predicate_text<'a, S>(
    predicate: &'a Predicate<S>,
    schema: &'a Schema,
    bytes: impl Fn(&'a S) -> &'a [u8],
) -> String {
    let mut printer = Printer { out: String::new(), schema, bytes };
    printer.predicate(predicate);
    printer.out
}

/// Returns the text of the expression `steps`, with parentheses only where they are needed. `bytes` returns the bytes of a
/// string.
///
/// # Panics
///
/// If `steps` is not an expression in postfix order.
pub fn expression_text<'a, S>(steps: &'a [Step<S>], schema: &'a Schema, bytes: impl Fn(&'a S) -> &'a [u8]) -> String {
    let mut printer = Printer { out: String::new(), schema, bytes };
    printer.expression(steps);
    printer.out
}

struct Printer<'a, F> {
    out: String,
    schema: &'a Schema,
    bytes: F,
}

/// A task of the printer.
enum Task {
    /// The operand that ends with this step, in parentheses if it binds less tightly.
    Operand(usize, Tightness),
    Text(&'static str),
}

/// The precedence that a step requires of its operands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tightness {
    Or,
    And,
    Not,
    Atom,
}

fn tightness<S>(step: &Step<S>) -> Tightness {
    match step {
        Step::Or => Tightness::Or,
        Step::And => Tightness::And,
        Step::Not => Tightness::Not,
        Step::Constant(_) | Step::Predicate(_) => Tightness::Atom,
    }
}

/// Returns, for each step, the start of the operand that ends with it.
fn starts<S>(steps: &[Step<S>]) -> Vec<usize> {
    let mut starts: Vec<usize> = Vec::with_capacity(steps.len());
    for (i, step) in steps.iter().enumerate() {
        starts.push(match step {
            Step::Constant(_) | Step::Predicate(_) => i,
            Step::Not => starts[i - 1],
            Step::And | Step::Or => starts[starts[i - 1] - 1],
        });
    }
    starts
}

impl<'a, F> Printer<'a, F> {
    fn expression<S>(&mut self, steps: &'a [Step<S>])
    where
        F: Fn(&'a S) -> &'a [u8],
    {
        let starts = starts(steps);
        let mut tasks = vec![Task::Operand(steps.len() - 1, Tightness::Or)];
        while let Some(task) = tasks.pop() {
            let (end, around) = match task {
                Task::Operand(end, around) => (end, around),
                Task::Text(text) => {
                    self.out.push_str(text);
                    continue;
                }
            };
            let step = &steps[end];
            if tightness(step) < around {
                self.out.push('(');
                tasks.push(Task::Text(")"));
            }
            // Operators of one kind associate to the left, so a right operand of the same kind needs parentheses.
            let mut binary = |word, left, right| {
                tasks.push(Task::Operand(end - 1, right));
                tasks.push(Task::Text(word));
                tasks.push(Task::Operand(starts[end - 1] - 1, left));
            };
            match step {
                Step::Constant(value) => self.out.push_str(if *value { "true" } else { "false" }),
                Step::Predicate(predicate) => self.predicate(predicate),
                Step::Not => {
                    self.out.push_str("not ");
                    tasks.push(Task::Operand(end - 1, Tightness::Not));
                }
                Step::And => binary(" and ", Tightness::And, Tightness::Not),
                Step::Or => binary(" or ", Tightness::Or, Tightness::And),
            }
        }
    }

    fn predicate<S>(&mut self, predicate: &'a Predicate<S>)
    where
        F: Fn(&'a S) -> &'a [u8],
    {
        let attribute = self.schema.attribute(predicate.attribute);
        let name = attribute.name.as_str();
        let list = matches!(attribute.ty, Type::IntegerList | Type::StringList);
        match &predicate.test {
            Test::True => self.write(format_args!("{name}")),
            Test::Integer(relation, constant) if attribute.ty == Type::DateTime => {
                self.write(format_args!("{name} {} ", symbol(*relation)));
                self.time(*constant, self.schema.unit(predicate.attribute));
            }
            Test::Integer(relation, constant) => self.write(format_args!("{name} {} {constant}", symbol(*relation))),
            // The debug form of a float is the shortest that round-trips, always with a point or an exponent.
            Test::Float(relation, constant) => {
                self.write(format_args!("{name} {} {:?}", symbol(*relation), constant.get()))
            }
            Test::StringEqual(constant) => self.string_after(format_args!("{name} = "), constant),
            Test::StringNotEqual(constant) => self.string_after(format_args!("{name} <> "), constant),
            Test::OneOf(constants) => self.list(name, if list { "one of" } else { "in" }, constants),
            Test::NoneOf(constants) => self.list(name, if list { "none of" } else { "not in" }, constants),
            Test::AllOf(constants) => self.list(name, "all of", constants),
            Test::Null => self.write(format_args!("{name} is null")),
            Test::NotNull => self.write(format_args!("{name} is not null")),
            Test::Empty => self.write(format_args!("{name} is empty")),
            Test::Contains(part) => self.substring("contains", name, part),
            Test::StartsWith(part) => self.substring("starts_with", name, part),
            Test::EndsWith(part) => self.substring("ends_with", name, part),
            Test::Compared(comparison) => {
                self.sum(&comparison.left);
                self.write(format_args!(" {} ", symbol(comparison.relation)));
                self.sum(&comparison.right);
            }
            Test::SameString { other, is_equal } => {
                let other = &self.schema.attribute(*other).name;
                self.write(format_args!("{name} {} {other}", if *is_equal { "=" } else { "<>" }));
            }
            Test::Like(pattern) => self.like(name, pattern),
            Test::Matches(regex) => {
                self.write(format_args!("{name} matches "));
                self.string(regex.text());
            }
            Test::Lowered(test) => self.lowered(name, test),
            Test::Objects(quantified) => {
                self.write(format_args!("{} {name} (", quantified.quantifier.name()));
                let schema = self.schema.objects(predicate.attribute);
                let around = std::mem::replace(&mut self.schema, schema);
                self.expression(quantified.steps());
                self.schema = around;
                self.out.push(')');
            }
            Test::InNetworks(networks) => {
                self.write(format_args!("{name} in ("));
                for (i, network) in networks.iter().enumerate() {
                    self.write(format_args!("{}'{network}'", comma(i)));
                }
                self.out.push(')');
            }
            Test::GeoWithinRadius { latitude, longitude, radius, .. } => {
                let (latitude, longitude, radius) = (latitude.get(), longitude.get(), radius.get());
                self.write(format_args!("geo_within_radius({latitude:?}, {longitude:?}, {radius:?})"));
            }
            Test::SegmentWithin { id, seconds, .. } => {
                self.write(format_args!("segment_within({name}, {id}, {seconds})"))
            }
            Test::SegmentBefore { id, seconds, .. } => {
                self.write(format_args!("segment_before({name}, {id}, {seconds})"))
            }
            Test::WithinFrequencyCap { cap, namespace, value, seconds, .. } => {
                self.string_after(format_args!("within_frequency_cap('{}', ", cap.name()), namespace);
                self.write(format_args!(", {value}, {seconds})"));
            }
        }
    }

    fn substring(&mut self, function: &str, name: &str, part: &[u8]) {
        self.write(format_args!("{function}({name}, "));
        self.string(part);
        self.out.push(')');
    }

    /// Writes a computation, with parentheses only where they are needed.
    fn sum(&mut self, terms: &[Term]) {
        // Each operand's text, and whether it binds as tightly as `*`, and as a single number.
        let mut stack: Vec<(String, Binding)> = Vec::new();
        for &term in terms {
            let name = |id| &self.schema.attribute(id).name;
            let single = match term {
                Term::Integer(integer) => integer.to_string(),
                Term::Float(float) => format!("{:?}", float.get()),
                Term::Attribute(id) => name(id).clone(),
                Term::Size(id) => format!("size({})", name(id)),
                Term::Length(id) => format!("length({})", name(id)),
                Term::Operator(operator) => {
                    let (Some((right, right_binding)), Some((left, left_binding))) = (stack.pop(), stack.pop()) else {
                        unreachable!("an operator has two operands")
                    };
                    let own = if operator.is_tight() { Binding::Product } else { Binding::Sum };
                    let left = if left_binding < own { format!("({left})") } else { left };
                    // Operators of one kind associate to the left.
                    let right = if right_binding <= own { format!("({right})") } else { right };
                    stack.push((format!("{left} {} {right}", operator.symbol()), own));
                    continue;
                }
            };
            stack.push((single, Binding::Single));
        }
        stack.into_iter().for_each(|(text, _)| self.out.push_str(&text));
    }

    fn time(&mut self, micros: i64, unit: Unit) {
        let text = time::text(micros);
        match time::parse(text.as_bytes()) {
            Some(_) => self.write(format_args!("'{text}'")),
            // It was written as an integer of the unit.
            None => self.write(format_args!("{}", micros / unit.micros())),
        }
    }

    fn like(&mut self, subject: &str, pattern: &[u8]) {
        self.write(format_args!("{subject} like "));
        self.string(&wildcard::text(pattern));
    }

    fn lowered(&mut self, name: &str, test: &Lowered) {
        let subject = format!("lower({name})");
        match test {
            Lowered::OneOf(texts) => match &**texts {
                [text] => {
                    self.write(format_args!("{subject} = "));
                    self.string(text);
                }
                texts => {
                    self.write(format_args!("{subject} in ("));
                    for (i, text) in texts.iter().enumerate() {
                        self.out.push_str(comma(i));
                        self.string(text);
                    }
                    self.out.push(')');
                }
            },
            Lowered::Contains(part) => self.substring("contains", &subject, part),
            Lowered::StartsWith(part) => self.substring("starts_with", &subject, part),
            Lowered::EndsWith(part) => self.substring("ends_with", &subject, part),
            Lowered::Like(pattern) => self.like(&subject, pattern),
        }
    }

    fn list<S>(&mut self, name: &str, operator: &str, constants: &'a Constants<S>)
    where
        F: Fn(&'a S) -> &'a [u8],
    {
        self.write(format_args!("{name} {operator} ("));
        match constants {
            Constants::Integers(integers) => {
                for (i, integer) in integers.iter().enumerate() {
                    self.write(format_args!("{}{integer}", comma(i)));
                }
            }
            Constants::Strings(strings) => {
                // The strings may be sorted by id; the text sorts them by bytes.
                let mut strings: Vec<&[u8]> = strings.iter().map(|string| (self.bytes)(string)).collect();
                sort(&mut strings, |a, b| a < b);
                for (i, string) in strings.into_iter().enumerate() {
                    self.out.push_str(comma(i));
                    self.string(string);
                }
            }
        }
        self.out.push(')');
    }

    fn string_after<S>(&mut self, before: std::fmt::Arguments, string: &'a S)
    where
        F: Fn(&'a S) -> &'a [u8],
    {
        self.write(before);
        self.string((self.bytes)(string));
    }

    /// Writes a string of an expression's text, which is UTF-8.
    fn string(&mut self, bytes: &[u8]) {
        self.out.push('\'');
        for character in String::from_utf8_lossy(bytes).chars() {
            match character {
                '\\' => self.out.push_str("\\\\"),
                '\'' => self.out.push_str("\\'"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                other => self.out.push(other),
            }
        }
        self.out.push('\'');
    }

    fn write(&mut self, text: std::fmt::Arguments) {
        self.out.write_fmt(text).expect("a string takes all that is written to it");
    }
}

/// The precedence of a computation: that of its loosest operator, or a single number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Sum,
    Product,
    Single,
}

/// Returns the separator in front of the item at position `i` of a list.
fn comma(i: usize) -> &'static str {
    if i == 0 {
        ""
    } else {
        ", "
    }
}

/// Returns the symbol of `relation` in the language.
fn symbol(relation: Relation) -> &'static str {
    match relation {
        Relation::Less => "<",
        Relation::LessOrEqual => "<=",
        Relation::Greater => ">",
        Relation::GreaterOrEqual => ">=",
        Relation::Equal => "=",
        Relation::NotEqual => "<>",
    }
}
