//! The distinct constants of attributes whose number of values is bounded.

use std::hash::Hash;
use std::slice;

use hashbrown::hash_map::Entry;
use hashbrown::HashMap;

use crate::error::{quoted, Error, Kind};
use crate::model::predicate::{Constants, Predicate, Test};
use crate::model::schema::{AttributeId, Bounds, Schema};
use crate::model::strings::StringId;
use crate::support::chunks::Chunks;
use crate::support::footprint::{of_hash_map, of_table};
use crate::support::hash::State;

/// The constants of an attribute, with the number of predicates that contain each.
#[derive(Clone, Debug, Default)]
struct Known {
    integers: HashMap<i64, u32, State>,
    /// Strings that another attribute contained first.
    shared: HashMap<StringId, u32, State>,
    /// The number of strings that this attribute contained first. [`Vocabulary::firsts`] counts their predicates.
    first: usize,
}

/// The first attribute that contains a string, and the number of that attribute's predicates with the string. Most strings
/// belong to one attribute.
#[derive(Clone, Copy, Debug, Default)]
struct First {
    attribute: AttributeId,
    count: u32,
}

impl Known {
    fn len(&self) -> usize {
        self.integers.len() + self.shared.len() + self.first
    }
}

fn release<T: Eq + Hash>(counts: &mut HashMap<T, u32, State>, constant: T) {
    debug_assert!(counts.contains_key(&constant), "a constant was counted");
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
    /// By attribute. An attribute without a bound has no constants here, and the table is empty if no attribute has one.
    attributes: Vec<Known>,
    /// By the number of a string. The count is 0 if no bounded attribute contains the string.
    firsts: Chunks<First>,
}

impl Vocabulary {
    pub fn new(schema: &Schema) -> Self {
        let is_bounded = schema.all_ids().any(|attribute| limit(attribute, schema).is_some());
        let attributes = if is_bounded { schema.all_attributes().len() } else { 0 };
        Vocabulary { attributes: vec![Known::default(); attributes], firsts: Chunks::default() }
    }

    /// Counts the constants of `predicate`, even if they exceed the bound. Returns whether any is new, so that
    /// [`Vocabulary::check`] must test the bound.
    pub fn retain(&mut self, predicate: &Predicate<StringId>, schema: &Schema) -> bool {
        let mut any_new = false;
        each_test(predicate, schema, |attribute, test| {
            if limit(attribute, schema).is_some() {
                any_new |= self.retain_constants(attribute, test);
            }
        });
        any_new
    }

    /// Undoes [`Vocabulary::retain`].
    pub fn release(&mut self, predicate: &Predicate<StringId>, schema: &Schema) {
        each_test(predicate, schema, |attribute, test| {
            if limit(attribute, schema).is_some() {
                self.release_constants(attribute, test);
            }
        });
    }

    /// Frees all memory except the list of attributes.
    pub fn clear(&mut self) {
        self.attributes.fill(Known::default());
        self.firsts.clear();
    }

    /// Counts the constants of `test`. Returns whether `attribute` has more distinct ones now.
    fn retain_constants(&mut self, attribute: AttributeId, test: &Test<StringId>) -> bool {
        let (integers, strings) = constants(test);
        let Vocabulary { attributes, firsts } = self;
        let known = &mut attributes[attribute.index()];
        let before = known.len();
        integers.iter().for_each(|&integer| *known.integers.entry(integer).or_insert(0) += 1);
        for &id in strings {
            while firsts.len() <= id.index() {
                firsts.push(First::default());
            }
            let first = &mut firsts[id.index()];
            if first.count > 0 && first.attribute == attribute {
                first.count += 1;
            } else if first.count == 0 && !known.shared.contains_key(&id) {
                *first = First { attribute, count: 1 };
                known.first += 1;
            } else {
                *known.shared.entry(id).or_insert(0) += 1;
            }
        }
        known.len() > before
    }

    fn release_constants(&mut self, attribute: AttributeId, test: &Test<StringId>) {
        let (integers, strings) = constants(test);
        let known = &mut self.attributes[attribute.index()];
        integers.iter().for_each(|&integer| release(&mut known.integers, integer));
        strings.iter().for_each(|&id| self.release_string(attribute, id));
    }

    fn release_string(&mut self, attribute: AttributeId, id: StringId) {
        let known = &mut self.attributes[attribute.index()];
        let is_first = |first: &First| first.count > 0 && first.attribute == attribute;
        if !self.firsts.get(id.index()).is_some_and(is_first) {
            return release(&mut known.shared, id);
        }
        let first = &mut self.firsts[id.index()];
        first.count -= 1;
        if first.count == 0 {
            known.first -= 1;
            self.free_the_end();
        }
    }

    /// Frees the elements after the last string that a bounded attribute contains.
    fn free_the_end(&mut self) {
        let mut len = self.firsts.len();
        while len > 0 && self.firsts[len - 1].count == 0 {
            len -= 1;
        }
        if len < self.firsts.len() {
            self.firsts.shorten(len);
        }
    }

    /// Returns the heap bytes of the vocabulary.
    pub fn heap_bytes(&self) -> usize {
        let Vocabulary { attributes, firsts } = self;
        let known = attributes.iter().map(|known| of_hash_map(&known.integers) + of_hash_map(&known.shared));
        of_table(attributes) + known.sum::<usize>() + firsts.heap_bytes()
    }

    /// Returns the bytes by which counting the constants of `predicates` may grow the table of strings, to `strings`
    /// elements.
    pub fn growth<'a, S: 'a>(
        &self,
        mut predicates: impl Iterator<Item = &'a Predicate<S>>,
        schema: &Schema,
        strings: usize,
    ) -> usize {
        let is_bounded = |predicate: &Predicate<S>| {
            let mut is_bounded = false;
            each_test(predicate, schema, |attribute, _| is_bounded |= limit(attribute, schema).is_some());
            is_bounded
        };
        if predicates.any(is_bounded) {
            self.firsts.growth(strings.saturating_sub(self.firsts.len()))
        } else {
            0
        }
    }

    /// Checks that the attributes that `predicate` reads have no more distinct constants than their declared counts.
    pub fn check(&self, predicate: &Predicate<StringId>, schema: &Schema) -> Result<(), Error> {
        let mut checked = Ok(());
        each_test(predicate, schema, |attribute, _| {
            if checked.is_ok() {
                checked = self.check_attribute(attribute, schema);
            }
        });
        checked
    }

    fn check_attribute(&self, attribute: AttributeId, schema: &Schema) -> Result<(), Error> {
        let Some(limit) = limit(attribute, schema) else {
            return Ok(());
        };
        let known = &self.attributes[attribute.index()];
        if known.len() <= limit as usize {
            return Ok(());
        }
        let name = &schema.attribute(attribute).name;
        let message = format!(
            "{} may be compared with {limit} distinct values and this would make {}; raise its count",
            quoted(name),
            known.len()
        );
        Err(Error::new(Kind::OutOfBounds, message).about(name))
    }
}

/// Calls `each` with the tests of `predicate` and their attributes. A test in a condition over objects has a column instead.
fn each_test<S>(predicate: &Predicate<S>, schema: &Schema, mut each: impl FnMut(AttributeId, &Test<S>)) {
    match &predicate.test {
        Test::Objects(quantified) => {
            let column = |inner: &Predicate<S>| schema.column(predicate.attribute, inner.attribute);
            quantified.predicates().for_each(|inner| each(column(inner), &inner.test));
        }
        test => each(predicate.attribute, test),
    }
}

fn limit(attribute: AttributeId, schema: &Schema) -> Option<u32> {
    match schema.attribute(attribute).bounds {
        Bounds::Count(count) => Some(count),
        _ => None,
    }
}

/// Returns the integers and the strings of a test that count as values of its attribute.
fn constants(test: &Test<StringId>) -> (&[i64], &[StringId]) {
    match test {
        Test::Integer(_, constant) => (slice::from_ref(constant), &[]),
        Test::StringEqual(id) | Test::StringNotEqual(id) => (&[], slice::from_ref(id)),
        Test::OneOf(constants) | Test::NoneOf(constants) | Test::AllOf(constants) => match constants {
            Constants::Integers(integers) => (integers, &[]),
            Constants::Strings(ids) => (&[], ids),
        },
        _ => (&[], &[]),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::model::schema::{Attribute, Type};

    proptest! {
        #[test]
        fn constants_are_counted_as_in_a_plain_list(changes in prop::collection::vec((any::<bool>(), 0..3_u32, 0..4_u32), 0..300)) {
            let bounded = |name: &str| Attribute { name: name.into(), ty: Type::String, optional: true, bounds: Bounds::Count(9) };
            let schema = Schema::new(["a", "b", "c"].map(bounded).to_vec()).unwrap();
            let mut vocabulary = Vocabulary::new(&schema);
            let mut plain: BTreeMap<(AttributeId, u32), u32> = BTreeMap::new();
            for (is_retained, attribute, string) in changes {
                let attribute = AttributeId::from_word(attribute);
                let predicate = Predicate { attribute, test: Test::StringEqual(StringId::from_word(string)) };
                let count = plain.entry((attribute, string)).or_default();
                if is_retained {
                    *count += 1;
                    vocabulary.retain(&predicate, &schema);
                } else if *count > 0 {
                    *count -= 1;
                    vocabulary.release(&predicate, &schema);
                }
                plain.retain(|_, count| *count > 0);
                for attribute in schema.ids() {
                    let expected = plain.keys().filter(|(of, _)| *of == attribute).count();
                    prop_assert_eq!(vocabulary.attributes[attribute.index()].len(), expected);
                }
            }
        }
    }
}
