//! Distinct constants of attributes with a bound on their number.

use crate::error::{push, reserve, Error, Kind};
use crate::expression::{Constants, Predicate, Step, Test};
use crate::schema::{Bounds, Schema};

/// The constants by attribute, sorted, each once.
pub struct Vocabulary {
    known: Vec<(usize, Constant)>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Constant {
    Integer(i64),
    Text(Vec<u8>),
}

/// Returns whether `steps` have constants of a bounded attribute.
pub fn is_counted(steps: &[Step], schema: &Schema) -> bool {
    counted(steps, schema).next().is_some()
}

fn counted<'s>(steps: &'s [Step], schema: &'s Schema) -> impl Iterator<Item = (&'s Predicate, u64)> {
    steps.iter().filter_map(|step| match step {
        Step::Predicate(predicate) => match schema[predicate.attribute].bounds {
            Bounds::Count(count) => Some((predicate, count)),
            _ => None,
        },
        _ => None,
    })
}

impl Vocabulary {
    pub fn new() -> Self {
        Vocabulary { known: Vec::new() }
    }

    /// Adds the constants of `steps`. Refuses them if an attribute would exceed its bound.
    pub fn add<'a>(&mut self, steps: &[Step], schema: &'a Schema) -> Result<(), Error<'a>> {
        for (predicate, count) in counted(steps, schema) {
            let attribute = predicate.attribute;
            match &predicate.test {
                Test::Integer(_, constant) => self.insert(attribute, Constant::Integer(*constant))?,
                Test::Text(_, constant) => self.insert(attribute, text(constant)?)?,
                Test::Among(_, Constants::Integers(constants)) => {
                    constants.iter().try_for_each(|&constant| self.insert(attribute, Constant::Integer(constant)))?
                }
                Test::Among(_, Constants::Texts(constants)) => {
                    constants.iter().try_for_each(|constant| self.insert(attribute, text(constant)?))?
                }
                _ => {}
            }
            let first = self.known.partition_point(|(known, _)| *known < attribute);
            let end = self.known.partition_point(|(known, _)| *known <= attribute);
            if (end - first) as u64 > count {
                let message = "expressions would compare it with more distinct values than its count allows";
                return Err(Error::new(Kind::OutOfBounds, message).about(&schema[attribute].name));
            }
        }
        Ok(())
    }

    fn insert(&mut self, attribute: usize, constant: Constant) -> Result<(), Error<'static>> {
        let entry = (attribute, constant);
        if let Err(place) = self.known.binary_search(&entry) {
            reserve(&mut self.known, 1)?;
            self.known.insert(place, entry);
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Result<Constant, Error<'static>> {
    let mut copy = Vec::new();
    bytes.iter().try_for_each(|&byte| push(&mut copy, byte))?;
    Ok(Constant::Text(copy))
}
