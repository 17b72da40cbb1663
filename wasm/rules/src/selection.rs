//! Finds the single-fact conditions that a fact meets, for a type with many: each is a subscription of the index.
//!
//! Comparisons with constants, lists, `is null`, and their combinations form the subscription's expression. The other tests of a
//! condition run for the candidates that the index returns. So the cost of a fact depends on the conditions that it meets.

use std::collections::TryReserveError;

use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;
use be_tree_index::term::Writer;

use crate::compile::code::{Code, Kind, Operand, Relation, Test};
use crate::compile::program::{FactType, Program};
use crate::error::Error;
use crate::layout::field_at;
use crate::memory::{Address, Full, StringTable, Words};

/// An index of the conditions of a fact type.
#[derive(Debug)]
pub(crate) struct Selection {
    index: Index,
    search: Search,
    /// The conditions without any test that the index supports.
    pub rest: Vec<u32>,
}

impl Clone for Selection {
    fn clone(&self) -> Self {
        let (index, mut search) = (self.index.clone(), Search::default());
        let reserved = search.reserve(&index).and_then(|()| search.reserve_event(&index));
        reserved.expect("a copy of an index has memory for a search");
        Selection { index, search, rest: self.rest.clone() }
    }
}

impl Selection {
    /// Returns the index of a type's conditions, or `None` if there are at most `max_bits`.
    ///
    /// Errors: `out_of_memory`.
    pub fn new(program: &Program, ty: &FactType, words: &Words, max_bits: usize) -> Result<Option<Selection>, Error> {
        if ty.conditions.len() <= max_bits {
            return Ok(None);
        }
        let attribute = |(number, field): (usize, &crate::compile::program::Field)| Attribute {
            name: format!("f{number}"),
            ty: match field.kind {
                Kind::Integer => Type::Integer,
                Kind::Float => Type::Float,
                Kind::String => Type::String,
                Kind::Boolean => Type::Boolean,
            },
            optional: true,
            bounds: Bounds::Unbounded,
        };
        let schema = Schema::new(ty.fields.iter().enumerate().map(attribute).collect()).map_err(Error::from)?;
        let mut index = Index::new(schema);
        let mut rest = Vec::new();
        for condition in &ty.conditions {
            let tests = &program.conditions[*condition as usize].tests;
            let parts: Vec<String> = tests.iter().filter_map(|test| test_text(test, words)).collect();
            if parts.is_empty() {
                rest.push(*condition);
                continue;
            }
            let text = parts.join(" and ");
            let insertion = Insertion { id: (*condition).into(), text: text.as_bytes(), constants: Vec::new() };
            index.insert(&insertion).map_err(Error::from)?;
        }
        let mut search = Search::default();
        search.reserve(&index).map_err(Error::from)?;
        search.reserve_event(&index).map_err(Error::from)?;
        Ok(Some(Selection { index, search, rest }))
    }

    /// Returns the conditions whose expressions match the fact, in ascending order.
    pub fn select(&mut self, ty: &FactType, words: &Words, fact: Address) -> Result<&[u64], Full> {
        let event = event(ty, words, fact).map_err(|_| Full::Search)?;
        let opened = self.search.open(&self.index, Format::Record, &event, None::<std::iter::Empty<u64>>);
        opened.map_err(|_| Full::Search)?;
        Ok(self.search.run(&self.index).ids())
    }

    /// Forgets the memory of the last search, see [`Search::abandon`].
    pub fn abandon(&mut self) {
        self.search.abandon();
    }
}

/// Encodes a fact as an event. It does not outlive the search, which may be interrupted.
fn event(ty: &FactType, words: &Words, fact: Address) -> Result<Vec<u8>, TryReserveError> {
    let strings = ty.fields.iter().enumerate().filter(|(_, field)| field.kind == Kind::String);
    let strings = strings.filter_map(|(number, _)| ty.cell(words, fact, number));
    let bytes: usize = strings.map(|string| StringTable::length(words, string as Address)).sum();
    let (mut event, mut text) = (Vec::new(), Vec::new());
    // Upper bounds of the list's header and of the values other than strings.
    event.try_reserve_exact(64 + 16 * ty.fields.len() + bytes)?;
    text.try_reserve_exact(bytes + 4)?;
    let mut writer = Writer::new(&mut event);
    writer.list(ty.fields.len());
    for (number, field) in ty.fields.iter().enumerate() {
        match (ty.cell(words, fact, number), field.kind) {
            (None, _) => writer.atom("undefined"),
            (Some(cell), Kind::Integer) => writer.integer(cell as i64),
            (Some(cell), Kind::Float) => writer.float(f64::from_bits(cell)),
            (Some(cell), Kind::Boolean) => writer.boolean(cell == 1),
            (Some(cell), Kind::String) => {
                text.clear();
                StringTable::append(words, cell as Address, &mut text);
                writer.binary(&text);
            }
        }
    }
    writer.end_list();
    Ok(event)
}

/// Returns a test as an expression of the index, if the index supports it.
fn test_text(test: &Test, words: &Words) -> Option<String> {
    match test {
        Test::Compare(kind, relation, Operand::Field { offset, .. }, Operand::Constant(constant)) => {
            comparison(*kind, *relation, *offset, *constant, words)
        }
        Test::Compare(kind, relation, Operand::Constant(constant), Operand::Field { offset, .. }) => {
            let mirrored = match relation {
                Relation::Less => Relation::Greater,
                Relation::AtMost => Relation::AtLeast,
                Relation::Greater => Relation::Less,
                Relation::AtLeast => Relation::AtMost,
                same => *same,
            };
            comparison(*kind, mirrored, *offset, *constant, words)
        }
        Test::Compare(..) => None,
        Test::Code(code) => code_text(code, words),
    }
}

fn code_text(code: &Code, words: &Words) -> Option<String> {
    Some(match code {
        Code::Field { offset, .. } => name(*offset),
        Code::Not(operand) => format!("not ({})", code_text(operand, words)?),
        Code::And(left, right) => format!("({} and {})", code_text(left, words)?, code_text(right, words)?),
        Code::Or(left, right) => format!("({} or {})", code_text(left, words)?, code_text(right, words)?),
        Code::Compare(..) => return test_text(&simple(code)?, words),
        Code::IsNull(operand) => match **operand {
            Code::Field { offset, .. } => format!("{} is null", name(offset)),
            _ => return None,
        },
        Code::In(kind @ (Kind::Integer | Kind::String), operand, constants) => match **operand {
            Code::Field { offset, .. } => {
                let constants: Option<Vec<String>> =
                    constants.iter().map(|constant| constant_text(*kind, *constant, words)).collect();
                format!("{} in ({})", name(offset), constants?.join(", "))
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns the comparison of a field with a constant as a test.
fn simple(code: &Code) -> Option<Test> {
    match Test::of(code) {
        Test::Code(_) => None,
        test => Some(test),
    }
}

fn comparison(kind: Kind, relation: Relation, offset: u32, constant: u64, words: &Words) -> Option<String> {
    // The index has no comparison of booleans.
    if kind == Kind::Boolean {
        return match (relation, constant) {
            (Relation::Equal, 1) => Some(name(offset)),
            (Relation::Equal, 0) => Some(format!("not {}", name(offset))),
            _ => None,
        };
    }
    let relation = match relation {
        Relation::Equal => "=",
        Relation::Unequal => "<>",
        Relation::Less => "<",
        Relation::AtMost => "<=",
        Relation::Greater => ">",
        Relation::AtLeast => ">=",
    };
    Some(format!("{} {relation} {}", name(offset), constant_text(kind, constant, words)?))
}

fn name(offset: u32) -> String {
    format!("f{}", field_at(offset))
}

fn constant_text(kind: Kind, constant: u64, words: &Words) -> Option<String> {
    Some(match kind {
        Kind::Integer => (constant as i64).to_string(),
        Kind::Float => format!("{:?}", f64::from_bits(constant)),
        Kind::Boolean => return None,
        Kind::String => {
            let bytes = StringTable::bytes(words, constant as Address);
            let text = String::from_utf8(bytes).ok()?;
            let mut quoted = String::from("'");
            for character in text.chars() {
                match character {
                    '\n' => quoted += "\\n",
                    '\r' => quoted += "\\r",
                    '\t' => quoted += "\\t",
                    '\\' | '\'' => quoted.extend(['\\', character]),
                    other => quoted.push(other),
                }
            }
            quoted + "'"
        }
    })
}
