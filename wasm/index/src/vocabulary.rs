//! The distinct constants that expressions compare with attributes whose number of values is bounded.

use std::hash::Hash;

use hashbrown::hash_map::Entry;
use hashbrown::HashMap;

use crate::error::{Error, Kind};
use crate::hash::State;
use crate::interner::StringId;
use crate::predicate::{Constants, Predicate, Test};
use crate::schema::{AttributeId, Bounds, Schema};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constant {
    Integer(i64),
    String(StringId),
}

/// The constants of an attribute, with a count of the predicates that mention each.
#[derive(Clone, Debug, Default)]
struct Known {
    integers: HashMap<i64, u32, State>,
    /// Apart, for a string's number takes half as much.
    strings: HashMap<StringId, u32, State>,
}

impl Known {
    fn len(&self) -> usize {
        self.integers.len() + self.strings.len()
    }

    fn retain(&mut self, constant: Constant) {
        *match constant {
            Constant::Integer(integer) => self.integers.entry(integer).or_insert(0),
            Constant::String(id) => self.strings.entry(id).or_insert(0),
        } += 1;
    }

    fn release(&mut self, constant: Constant) {
        match constant {
            Constant::Integer(integer) => release(&mut self.integers, integer),
            Constant::String(id) => release(&mut self.strings, id),
        }
    }
}

fn release<T: Eq + Hash>(counts: &mut HashMap<T, u32, State>, constant: T) {
    if let Entry::Occupied(mut entry) = counts.entry(constant) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

/// The constants of each bounded attribute.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vocabulary {
    /// Empty for those without a bound.
    attributes: Vec<Known>,
}

impl Vocabulary {
    pub fn new(schema: &Schema) -> Self {
        Vocabulary { attributes: vec![Known::default(); schema.len()] }
    }

    /// Takes in the constants of `predicate`, even past the bound, which [`Vocabulary::check`] finds.
    pub fn retain(&mut self, predicate: &Predicate<StringId>, schema: &Schema) {
        if limit(predicate.attribute, schema).is_some() {
            let known = &mut self.attributes[predicate.attribute as usize];
            each_constant(&predicate.test, |constant| known.retain(constant));
        }
    }

    /// Takes out what [`Vocabulary::retain`] took in.
    pub fn release(&mut self, predicate: &Predicate<StringId>, schema: &Schema) {
        if limit(predicate.attribute, schema).is_some() {
            let known = &mut self.attributes[predicate.attribute as usize];
            each_constant(&predicate.test, |constant| known.release(constant));
        }
    }

    /// Whether the constants of `attribute` are as many as its declaration allows.
    pub fn check(&self, attribute: AttributeId, schema: &Schema) -> Result<(), Error> {
        let Some(limit) = limit(attribute, schema) else {
            return Ok(());
        };
        let known = &self.attributes[attribute as usize];
        if known.len() <= limit as usize {
            return Ok(());
        }
        let name = &schema.attribute(attribute).name;
        let message = format!(
            "`{name}` may be compared with {limit} distinct values and this would make {}; raise its count",
            known.len()
        );
        Err(Error::new(Kind::OutOfBounds, message).about(name))
    }
}

fn limit(attribute: AttributeId, schema: &Schema) -> Option<u32> {
    match schema.attribute(attribute).bounds {
        Bounds::Count(count) => Some(count),
        _ => None,
    }
}

fn each_constant(test: &Test<StringId>, mut each: impl FnMut(Constant)) {
    match test {
        Test::Integer(_, constant) => each(Constant::Integer(*constant)),
        Test::StringEqual(id) | Test::StringNotEqual(id) => each(Constant::String(*id)),
        Test::OneOf(constants) | Test::NoneOf(constants) | Test::AllOf(constants) => match constants {
            Constants::Integers(integers) => integers.iter().for_each(|&integer| each(Constant::Integer(integer))),
            Constants::Strings(ids) => ids.iter().for_each(|&id| each(Constant::String(id))),
        },
        _ => {}
    }
}
