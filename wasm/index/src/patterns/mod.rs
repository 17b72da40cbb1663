//! Patterns are predicates that are true of many values and that a value finds by look-ups: the starts, the ends and the parts
//! of strings.
//!
//! For each event a search finds the patterns that are true of it, without testing the others. Their numbers are the event's
//! value for an attribute of the index's own ([`Schema::patterns`](crate::model::schema::Schema::patterns)), a list. So a
//! pattern leads to its expressions as a constant leads to those that compare a list with it.

mod affixes;
mod parts;
#[cfg(test)]
mod tests;

use affixes::{Affixes, Side};
use parts::Parts;

use crate::handles::PredicateId;
use crate::model::predicate::{Predicate, Test};
use crate::model::schema::AttributeId;
use crate::model::strings::StringId;

/// The patterns of all attributes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns {
    /// The patterns of each attribute that has some, by attribute.
    attributes: Vec<OfAttribute>,
    len: usize,
}

/// The patterns of one attribute.
#[derive(Clone, Debug, Default)]
struct OfAttribute {
    attribute: AttributeId,
    len: usize,
    starts: Affixes,
    ends: Affixes,
    parts: Parts,
}

/// The text of a pattern, and where it must stand.
#[derive(Clone, Copy, Debug)]
enum Pattern<'a> {
    Start(&'a [u8]),
    End(&'a [u8]),
    Part(&'a [u8]),
}

impl<'a> Pattern<'a> {
    fn of(test: &'a Test<StringId>) -> Option<Self> {
        match test {
            Test::StartsWith(text) => Some(Pattern::Start(text)),
            Test::EndsWith(text) => Some(Pattern::End(text)),
            Test::Contains(text) => Some(Pattern::Part(text)),
            _ => None,
        }
    }

    fn text(self) -> &'a [u8] {
        match self {
            Pattern::Start(text) | Pattern::End(text) | Pattern::Part(text) => text,
        }
    }
}

/// Returns whether a test is a pattern.
pub(crate) fn is_pattern<S>(test: &Test<S>) -> bool {
    matches!(test, Test::StartsWith(_) | Test::EndsWith(_) | Test::Contains(_))
}

/// Returns the text of the pattern `predicate`.
fn text_of(predicate: &Predicate<StringId>) -> &[u8] {
    match Pattern::of(&predicate.test) {
        Some(pattern) => pattern.text(),
        None => unreachable!("only patterns are numbered here"),
    }
}

impl Patterns {
    /// Returns the number of patterns.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds `predicate`, which is new and has the number `id`, if it is a pattern. `get` returns the predicates with the other
    /// numbers.
    pub fn insert<'a>(
        &mut self,
        id: PredicateId,
        predicate: &Predicate<StringId>,
        get: impl Fn(PredicateId) -> &'a Predicate<StringId>,
    ) {
        let Some(pattern) = Pattern::of(&predicate.test) else { return };
        let of_attribute = match self.position(predicate.attribute) {
            Ok(position) => &mut self.attributes[position],
            Err(position) => {
                let new = OfAttribute { attribute: predicate.attribute, ..OfAttribute::default() };
                self.attributes.insert(position, new);
                &mut self.attributes[position]
            }
        };
        match pattern {
            Pattern::Start(text) => of_attribute.starts.insert(Side::Start, text, id),
            Pattern::End(text) => of_attribute.ends.insert(Side::End, text, id),
            Pattern::Part(text) => of_attribute.parts.insert(text, id, |id| text_of(get(id))),
        }
        of_attribute.len += 1;
        self.len += 1;
    }

    /// Removes `predicate`, whose number is `id`, if it is a pattern. `get` returns the predicates with the other numbers. Takes
    /// no memory.
    pub fn remove<'a>(
        &mut self,
        id: PredicateId,
        predicate: &Predicate<StringId>,
        get: impl Fn(PredicateId) -> &'a Predicate<StringId>,
    ) {
        let Some(pattern) = Pattern::of(&predicate.test) else { return };
        let Ok(position) = self.position(predicate.attribute) else { unreachable!("the pattern {id} was inserted") };
        let of_attribute = &mut self.attributes[position];
        match pattern {
            Pattern::Start(text) => of_attribute.starts.remove(Side::Start, text, id),
            Pattern::End(text) => of_attribute.ends.remove(Side::End, text, id),
            Pattern::Part(text) => of_attribute.parts.remove(text, id, |id| text_of(get(id))),
        }
        of_attribute.len -= 1;
        self.len -= 1;
        if of_attribute.len == 0 {
            self.attributes.remove(position);
        }
        if self.attributes.is_empty() {
            self.attributes = Vec::new();
        }
    }

    /// Calls `found` with the patterns that are true of an event. A pattern may be found more than once. `get` returns the
    /// predicates by number, and `value` the string of an attribute, if the event defines it.
    pub fn each<'a, 'b>(
        &self,
        get: impl Fn(PredicateId) -> &'a Predicate<StringId>,
        value: impl Fn(AttributeId) -> Option<&'b [u8]>,
        mut found: impl FnMut(PredicateId),
    ) {
        for OfAttribute { attribute, starts, ends, parts, .. } in &self.attributes {
            let Some(bytes) = value(*attribute) else { continue };
            let text = |id| text_of(get(id));
            starts.each(Side::Start, bytes, text, &mut found);
            ends.each(Side::End, bytes, text, &mut found);
            parts.each(bytes, text, &mut found);
        }
    }

    /// Returns the bytes by which inserting `more` patterns, with numbers below `ids`, may grow the tables.
    pub fn growth(&self, more: usize, ids: usize) -> usize {
        if more == 0 {
            return 0;
        }
        // Each pattern may be the first of its attribute.
        let lists = (self.attributes.len() + more).max(2 * self.attributes.capacity()) * size_of::<OfAttribute>();
        let known = self.attributes.iter();
        let tables = |of: &OfAttribute| of.starts.growth(more) + of.ends.growth(more) + of.parts.growth(more, ids);
        let new = OfAttribute::default();
        lists + known.map(tables).max().unwrap_or(0) + more * tables_of_one(&new, ids)
    }

    /// Checks that the patterns are those among `predicates`.
    pub fn validate<'a>(
        &self,
        predicates: &[(PredicateId, &'a Predicate<StringId>)],
        get: impl Fn(PredicateId) -> &'a Predicate<StringId>,
    ) -> Result<(), String> {
        let mut len = 0;
        for &(id, predicate) in predicates.iter().filter(|(_, predicate)| is_pattern(&predicate.test)) {
            len += 1;
            let text = text_of(predicate);
            let mut is_found = false;
            let value = |attribute| (attribute == predicate.attribute).then_some(text);
            self.each(&get, value, |found| is_found |= found == id);
            if !is_found {
                return Err(format!("pattern {id} is not found by its own text"));
            }
        }
        let counted: usize = self.attributes.iter().map(|of| of.len).sum();
        if (len, len) != (self.len, counted) {
            return Err(format!("patterns: {len} held, {} and {counted} counted", self.len));
        }
        Ok(())
    }

    fn position(&self, attribute: AttributeId) -> Result<usize, usize> {
        self.attributes.binary_search_by_key(&attribute, |of| of.attribute)
    }
}

/// Returns the bytes that the tables of an attribute take with one pattern, whichever it is.
fn tables_of_one(new: &OfAttribute, ids: usize) -> usize {
    new.starts.growth(1).max(new.ends.growth(1)).max(new.parts.growth(1, ids))
}
