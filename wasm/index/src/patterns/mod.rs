//! Patterns are predicates that are true of many values and that a value finds by look-ups: the starts, the ends and the parts
//! of strings, and circles around places.
//!
//! For each event a search finds the patterns that are true of it, without testing the others. Their numbers are the event's
//! value for an attribute of the index's own ([`Schema::patterns`](crate::model::schema::Schema::patterns)), a list. So a
//! pattern leads to its expressions as a constant leads to those that compare a list with it.

mod affixes;
mod chains;
mod circles;
mod parts;
#[cfg(test)]
mod tests;

use affixes::{Affixes, Side};
use circles::{Circle, Circles};
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
    /// The circles of a latitude, with the attribute of its longitude.
    circles: Circles,
    longitude: AttributeId,
}

/// What is known of a pattern that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    True,
    /// Its program must decide.
    Perhaps,
}

/// The data in which patterns are found.
pub(crate) trait Source<'a> {
    /// Returns the predicate with this number.
    fn predicate(&self, id: PredicateId) -> &'a Predicate<StringId>;
    /// Returns the value of an attribute, if it is a string.
    fn string(&self, attribute: AttributeId) -> Option<&[u8]>;
    /// Returns the value of an attribute, if it is a float.
    fn float(&self, attribute: AttributeId) -> Option<f64>;
}

/// A pattern: the text of a string and where it must stand, or a circle.
#[derive(Clone, Copy, Debug)]
enum Pattern<'a> {
    Start(&'a [u8]),
    End(&'a [u8]),
    Part(&'a [u8]),
    Around(Circle, AttributeId),
}

impl<'a> Pattern<'a> {
    fn of(test: &'a Test<StringId>) -> Option<Self> {
        match test {
            Test::StartsWith(text) => Some(Pattern::Start(text)),
            Test::EndsWith(text) => Some(Pattern::End(text)),
            Test::Contains(text) => Some(Pattern::Part(text)),
            Test::GeoWithinRadius { longitude_attribute, latitude, longitude, radius } => {
                let circle = Circle { latitude: latitude.get(), longitude: longitude.get(), radius: radius.get() };
                Some(Pattern::Around(circle, *longitude_attribute))
            }
            _ => None,
        }
    }
}

/// Returns whether a test is a pattern.
pub(crate) fn is_pattern<S>(test: &Test<S>) -> bool {
    matches!(test, Test::StartsWith(_) | Test::EndsWith(_) | Test::Contains(_) | Test::GeoWithinRadius { .. })
}

/// Returns whether a pattern is found only if it is true.
pub(crate) fn is_exact<S>(test: &Test<S>) -> bool {
    !matches!(test, Test::Contains(_))
}

/// Returns the text of the pattern `predicate`, which is one of strings.
fn text_of(predicate: &Predicate<StringId>) -> &[u8] {
    match Pattern::of(&predicate.test) {
        Some(Pattern::Start(text) | Pattern::End(text) | Pattern::Part(text)) => text,
        _ => unreachable!("only patterns of strings are numbered here"),
    }
}

/// Returns the circle of the pattern `predicate`, which is one of places.
fn circle_of(predicate: &Predicate<StringId>) -> Circle {
    match Pattern::of(&predicate.test) {
        Some(Pattern::Around(circle, _)) => circle,
        _ => unreachable!("only circles are numbered here"),
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
            Pattern::Around(circle, longitude) => {
                debug_assert!(
                    of_attribute.circles.len() == 0 || of_attribute.longitude == longitude,
                    "places have one form"
                );
                of_attribute.longitude = longitude;
                of_attribute.circles.insert(circle, id);
            }
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
            Pattern::Around(circle, _) => of_attribute.circles.remove(circle, id),
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

    /// Calls `found` with the patterns that are true of the values in `source`, perhaps more than once, and perhaps with some
    /// that are not [exact](is_exact) and may be true.
    pub fn each<'a>(&self, source: &impl Source<'a>, mut found: impl FnMut(PredicateId, Found)) {
        for of_attribute in &self.attributes {
            let OfAttribute { attribute, starts, ends, parts, circles, longitude, .. } = of_attribute;
            if let Some(bytes) = source.string(*attribute) {
                let text = |id| text_of(source.predicate(id));
                starts.each(Side::Start, bytes, text, &mut |id| found(id, Found::True));
                ends.each(Side::End, bytes, text, &mut |id| found(id, Found::True));
                parts.each(bytes, text, &mut found);
            }
            if circles.len() > 0 {
                if let (Some(lat), Some(lon)) = (source.float(*attribute), source.float(*longitude)) {
                    circles.each(lat, lon, |id| circle_of(source.predicate(id)), &mut |id| found(id, Found::True));
                }
            }
        }
    }

    /// Returns the bytes by which inserting `more` patterns, with numbers below `ids`, may grow the tables.
    pub fn growth(&self, more: usize, ids: usize) -> usize {
        if more == 0 {
            return 0;
        }
        // Each pattern may be the first of its attribute, and of any form.
        let lists = (self.attributes.len() + more).max(2 * self.attributes.capacity()) * size_of::<OfAttribute>();
        let known = self.attributes.iter().map(|of| of.growth(more, ids)).max().unwrap_or(0);
        lists + known + more * OfAttribute::default().growth(1, ids)
    }

    /// Checks that the patterns are those among the numbered `predicates`.
    pub fn validate(&self, predicates: &[(PredicateId, &Predicate<StringId>)]) -> Result<(), String> {
        let all = predicates.iter().filter(|(_, predicate)| is_pattern(&predicate.test));
        let mut len = 0;
        for &(id, predicate) in all {
            len += 1;
            let mut is_found = false;
            self.each(&OwnValue { predicate, predicates }, |found, _| is_found |= found == id);
            if !is_found
                && !matches!(Pattern::of(&predicate.test), Some(Pattern::Around(circle, _)) if circle.radius < 0.0)
            {
                return Err(format!("pattern {id} is not found by its own text or center"));
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

impl OfAttribute {
    /// Returns the bytes by which `more` patterns of one form may grow the tables, whichever it is.
    fn growth(&self, more: usize, ids: usize) -> usize {
        let affixes = self.starts.growth(more).max(self.ends.growth(more));
        affixes.max(self.parts.growth(more, ids)).max(self.circles.growth(more))
    }
}

/// The text or the center of a pattern, as the only values.
struct OwnValue<'a, 'b> {
    predicate: &'a Predicate<StringId>,
    predicates: &'b [(PredicateId, &'a Predicate<StringId>)],
}

impl<'a> Source<'a> for OwnValue<'a, '_> {
    fn predicate(&self, id: PredicateId) -> &'a Predicate<StringId> {
        self.predicates.iter().find(|(known, _)| *known == id).map_or(self.predicate, |(_, predicate)| predicate)
    }

    fn string(&self, attribute: AttributeId) -> Option<&[u8]> {
        let is_own =
            attribute == self.predicate.attribute && !matches!(self.predicate.test, Test::GeoWithinRadius { .. });
        is_own.then(|| text_of(self.predicate))
    }

    fn float(&self, attribute: AttributeId) -> Option<f64> {
        match Pattern::of(&self.predicate.test) {
            Some(Pattern::Around(circle, _)) if attribute == self.predicate.attribute => Some(circle.latitude),
            Some(Pattern::Around(circle, longitude)) if attribute == longitude => Some(circle.longitude),
            _ => None,
        }
    }
}
