//! Patterns are predicates that an event's value finds by look-up: prefixes, suffixes and substrings, regular expressions,
//! strings in lower case, networks of addresses, and circles around places.
//!
//! For each event a search finds the patterns that are true of it, without testing the others. The list of their ids is the
//! event's value of an internal attribute ([`Schema::patterns`](crate::model::schema::Schema::patterns)). So a pattern leads
//! to its expressions as a constant of a list does.

mod affixes;
mod beginnings;
mod cells;
mod chains;
mod circles;
mod lengths;
mod members;
mod networks;
mod parts;
#[cfg(test)]
mod tests;

use affixes::Affixes;
use beginnings::Beginnings;
use chains::Links;
use circles::{Circle, Circles, Places};
use lengths::Side;
use members::{Members, Seat};
use networks::Networks;
use parts::{Note, Part, Parts};

use crate::handles::PredicateId;
use crate::model::address::{Address, Network};
use crate::model::predicate::{Lowered, Predicate, Test};
use crate::model::regex::Lead;
use crate::model::schema::AttributeId;
use crate::model::strings::StringId;
use crate::model::wildcard;
use crate::support::footprint::{of_block, of_table};
use crate::support::hash::hash_bytes;
use crate::support::headroom::{growth, AROUND};

/// The patterns of all attributes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns {
    /// The patterns of each attribute that has some, in order. They are boxed because a new attribute moves the later ones.
    #[allow(clippy::vec_box)]
    attributes: Vec<Box<OfAttribute>>,
    /// Tables by predicate id, which all attributes share.
    links: Links<Note>,
    places: Places,
    len: usize,
}

/// The patterns of one attribute, or of the lower case of its strings.
#[derive(Clone, Debug, Default)]
struct OfAttribute {
    attribute: AttributeId,
    is_lowered: bool,
    len: usize,
    /// Whole strings in lower case.
    wholes: Members,
    networks: Networks,
    starts: Affixes,
    ends: Affixes,
    parts: Parts,
    beginnings: Beginnings,
    /// The circles of a latitude, with the attribute of its longitude.
    circles: Circles,
    longitude: AttributeId,
}

/// The certainty of a pattern that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    True,
    /// Its program must decide.
    Perhaps,
}

/// The values in which patterns are searched.
pub(crate) trait Source<'a> {
    /// Returns the predicate of an id.
    fn predicate(&self, id: PredicateId) -> &'a Predicate<StringId>;
    /// Returns the value of an attribute, if it is a string.
    fn string(&self, attribute: AttributeId) -> Option<&[u8]>;
    /// Returns the lower case of the value of an attribute, if it is a string.
    fn lowered(&self, attribute: AttributeId) -> Option<&[u8]>;
    /// Returns the value of an attribute, if it is an address.
    fn address(&self, attribute: AttributeId) -> Option<Address>;
    /// Returns the value of an attribute, if it is a float.
    fn float(&self, attribute: AttributeId) -> Option<f64>;
}

/// A pattern: texts and where they occur in a string, networks, or a circle.
#[derive(Clone, Copy, Debug)]
enum Pattern<'a> {
    Start(&'a [u8]),
    End(&'a [u8]),
    Part(Part<'a>),
    /// A regular expression whose matches begin with one of these.
    Begins(&'a [Box<[u8]>]),
    /// The whole string is one of these.
    Whole(&'a [Box<[u8]>]),
    Networks(&'a [Network]),
    Around(Circle, AttributeId),
}

impl<'a> Pattern<'a> {
    fn of<S>(test: &'a Test<S>) -> Option<Self> {
        match test {
            Test::StartsWith(text) | Test::Lowered(Lowered::StartsWith(text)) => Some(Pattern::Start(text)),
            Test::EndsWith(text) | Test::Lowered(Lowered::EndsWith(text)) => Some(Pattern::End(text)),
            Test::Contains(text) | Test::Lowered(Lowered::Contains(text)) => {
                Some(Pattern::Part(Part { text, is_wild: false }))
            }
            Test::Like(text) | Test::Lowered(Lowered::Like(text)) => Some(Pattern::Part(Part { text, is_wild: true })),
            Test::Matches(regex) => match regex.lead() {
                Lead::Beginnings(texts) => Some(Pattern::Begins(texts)),
                Lead::Required(text) => Some(Pattern::Part(Part { text, is_wild: true })),
                Lead::Nothing => None,
            },
            Test::Lowered(Lowered::OneOf(texts)) => Some(Pattern::Whole(texts)),
            Test::InNetworks(networks) => Some(Pattern::Networks(networks)),
            Test::GeoWithinRadius { longitude_attribute, latitude, longitude, radius } => {
                let circle = Circle { latitude: latitude.get(), longitude: longitude.get(), radius: radius.get() };
                Some(Pattern::Around(circle, *longitude_attribute))
            }
            _ => None,
        }
    }
}

/// The form of a pattern. Each form has its own table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Start,
    End,
    Part,
    Begins,
    Whole,
    Networks,
    Around,
}

impl Pattern<'_> {
    fn form(&self) -> Form {
        match self {
            Pattern::Start(_) => Form::Start,
            Pattern::End(_) => Form::End,
            Pattern::Part(_) => Form::Part,
            Pattern::Begins(_) => Form::Begins,
            Pattern::Whole(_) => Form::Whole,
            Pattern::Networks(_) => Form::Networks,
            Pattern::Around(..) => Form::Around,
        }
    }

    /// Returns the number of places that the pattern takes in its table: one for each member of a list.
    fn places(&self) -> usize {
        match self {
            Pattern::Whole(texts) | Pattern::Begins(texts) => texts.len(),
            Pattern::Networks(networks) => networks.len(),
            _ => 1,
        }
    }
}

/// Returns whether a test is a pattern.
pub(crate) fn is_pattern<S>(test: &Test<S>) -> bool {
    Pattern::of(test).is_some()
}

/// Returns whether a pattern is found only if it is true.
pub(crate) fn is_exact<S>(test: &Test<S>) -> bool {
    !matches!(Pattern::of(test), Some(Pattern::Part(_) | Pattern::Begins(_)))
}

/// Returns whether a test reads the lower case of a string.
pub(crate) fn is_lowered<S>(test: &Test<S>) -> bool {
    matches!(test, Test::Lowered(_))
}

/// Returns the text of the pattern `predicate`, which must be a prefix or a suffix.
fn text_of(predicate: &Predicate<StringId>) -> &[u8] {
    match Pattern::of(&predicate.test) {
        Some(Pattern::Start(text) | Pattern::End(text)) => text,
        _ => unreachable!("only starts and ends are numbered here"),
    }
}

/// Returns the part of the pattern `predicate`, which must be one.
fn part_of(predicate: &Predicate<StringId>) -> Part<'_> {
    match Pattern::of(&predicate.test) {
        Some(Pattern::Part(part)) => part,
        _ => unreachable!("only parts are numbered here"),
    }
}

/// Returns the prefixes of the pattern `predicate`, which must be a regular expression.
fn beginnings_of(predicate: &Predicate<StringId>) -> &[Box<[u8]>] {
    match Pattern::of(&predicate.test) {
        Some(Pattern::Begins(texts)) => texts,
        _ => unreachable!("only regular expressions with beginnings are numbered here"),
    }
}

/// Returns the texts of the pattern `predicate`, which must be a list of whole strings.
fn wholes_of(predicate: &Predicate<StringId>) -> &[Box<[u8]>] {
    match Pattern::of(&predicate.test) {
        Some(Pattern::Whole(texts)) => texts,
        _ => unreachable!("only lists of strings are numbered here"),
    }
}

/// Returns the networks of the pattern `predicate`, which must test an address.
fn networks_of(predicate: &Predicate<StringId>) -> &[Network] {
    match Pattern::of(&predicate.test) {
        Some(Pattern::Networks(networks)) => networks,
        _ => unreachable!("only networks are numbered here"),
    }
}

/// Returns the circle of the pattern `predicate`, which must test a place.
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

    /// Adds `predicate`, which is new and has the id `id`, if it is a pattern. `get` returns the predicates of other ids.
    pub fn insert<'a>(
        &mut self,
        id: PredicateId,
        predicate: &Predicate<StringId>,
        get: impl Fn(PredicateId) -> &'a Predicate<StringId>,
    ) {
        let Some(pattern) = Pattern::of(&predicate.test) else { return };
        let is_lowered = is_lowered(&predicate.test);
        let found = self.position(predicate.attribute, is_lowered);
        let Patterns { attributes, links, places, .. } = self;
        let of_attribute = match found {
            Ok(position) => &mut attributes[position],
            Err(position) => {
                let new = OfAttribute { attribute: predicate.attribute, is_lowered, ..OfAttribute::default() };
                attributes.insert(position, Box::new(new));
                &mut attributes[position]
            }
        };
        match pattern {
            Pattern::Start(text) => of_attribute.starts.insert(Side::Start, text, id),
            Pattern::End(text) => of_attribute.ends.insert(Side::End, text, id),
            Pattern::Part(part) => of_attribute.parts.insert(links, part, id, |id| part_of(get(id))),
            Pattern::Begins(texts) => of_attribute.beginnings.insert(texts, id, |id| beginnings_of(get(id))),
            Pattern::Whole(texts) => {
                for (position, text) in texts.iter().enumerate() {
                    let is = |seat: Seat| wholes_of(get(seat.list))[seat.position as usize] == *text;
                    of_attribute.wholes.insert(id, position as u32, hash_bytes(text), is);
                }
            }
            Pattern::Networks(networks) => of_attribute.networks.insert(networks, id, |id| networks_of(get(id))),
            Pattern::Around(circle, longitude) => {
                debug_assert!(
                    of_attribute.circles.len() == 0 || of_attribute.longitude == longitude,
                    "places have one form"
                );
                of_attribute.longitude = longitude;
                of_attribute.circles.insert(places, circle, id);
            }
        }
        of_attribute.len += 1;
        self.len += 1;
    }

    /// Removes `predicate`, whose id is `id`, if it is a pattern. `get` returns the predicates of other ids. Allocates
    /// nothing.
    pub fn remove<'a>(
        &mut self,
        id: PredicateId,
        predicate: &Predicate<StringId>,
        get: impl Fn(PredicateId) -> &'a Predicate<StringId>,
    ) {
        let Some(pattern) = Pattern::of(&predicate.test) else { return };
        let Ok(position) = self.position(predicate.attribute, is_lowered(&predicate.test)) else {
            unreachable!("the pattern {id} was inserted")
        };
        let Patterns { attributes, links, places, .. } = self;
        let of_attribute = &mut attributes[position];
        match pattern {
            Pattern::Start(text) => of_attribute.starts.remove(Side::Start, text, id),
            Pattern::End(text) => of_attribute.ends.remove(Side::End, text, id),
            Pattern::Part(part) => of_attribute.parts.remove(links, part, id, |id| part_of(get(id))),
            Pattern::Begins(texts) => of_attribute.beginnings.remove(texts, id),
            Pattern::Whole(texts) => {
                for (position, text) in texts.iter().enumerate() {
                    of_attribute.wholes.remove(id, position as u32, hash_bytes(text));
                }
            }
            Pattern::Networks(networks) => of_attribute.networks.remove(networks, id),
            Pattern::Around(..) => of_attribute.circles.remove(places, id),
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

    /// Calls `found` with every pattern that is true of the values in `source`, perhaps more than once. A pattern that is
    /// not [exact](is_exact) may be reported without being true.
    pub fn each<'a>(&self, source: &impl Source<'a>, mut found: impl FnMut(PredicateId, Found)) {
        for of_attribute in &self.attributes {
            let OfAttribute {
                attribute, starts, ends, parts, beginnings, circles, longitude, wholes, networks, ..
            } = &**of_attribute;
            let string = match of_attribute.is_lowered {
                false => source.string(*attribute),
                true => source.lowered(*attribute),
            };
            if let Some(bytes) = string {
                let text = |id| text_of(source.predicate(id));
                starts.each(Side::Start, bytes, text, &mut |id| found(id, Found::True));
                ends.each(Side::End, bytes, text, &mut |id| found(id, Found::True));
                parts.each(&self.links, bytes, |id| part_of(source.predicate(id)), &mut found);
                let texts = |id| beginnings_of(source.predicate(id));
                beginnings.each(bytes, texts, &mut |id| found(id, Found::Perhaps));
                if !wholes.is_empty() {
                    let text = |seat: Seat| &wholes_of(source.predicate(seat.list))[seat.position as usize];
                    let is = |seat: Seat| **text(seat) == *bytes;
                    wholes.each(hash_bytes(bytes), is, &mut |id| found(id, Found::True));
                }
            }
            if !networks.is_empty() {
                if let Some(address) = source.address(*attribute) {
                    let of = |id| networks_of(source.predicate(id));
                    networks.each(address, of, &mut |id| found(id, Found::True));
                }
            }
            if circles.len() > 0 {
                if let (Some(lat), Some(lon)) = (source.float(*attribute), source.float(*longitude)) {
                    circles.each(lat, lon, |id| circle_of(source.predicate(id)), &mut |id| found(id, Found::True));
                }
            }
        }
    }

    /// Returns the attributes whose strings have patterns in lower case, in order.
    pub fn lowered(&self) -> impl Iterator<Item = AttributeId> + '_ {
        self.attributes.iter().filter(|of| of.is_lowered).map(|of| of.attribute)
    }

    /// Returns the bytes that the tables take of the heap.
    pub fn heap_bytes(&self) -> usize {
        let Patterns { attributes, links, places, .. } = self;
        let of_attributes = attributes.iter().map(|of| of_block(size_of::<OfAttribute>()) + of.heap_bytes());
        of_table(attributes) + of_attributes.sum::<usize>() + links.heap_bytes() + places.heap_bytes()
    }

    /// Returns the bytes by which the patterns among `predicates`, with ids below `ids`, may grow the tables.
    pub fn growth<'a, S: 'a>(&self, predicates: impl Iterator<Item = &'a Predicate<S>>, ids: usize) -> usize {
        let added = |predicate: &'a Predicate<S>| {
            let pattern = Pattern::of(&predicate.test)?;
            Some((predicate.attribute, is_lowered(&predicate.test), pattern.form(), pattern.places()))
        };
        let mut added: Vec<_> = predicates.filter_map(added).collect();
        added.sort_unstable();
        let mut new = 0;
        let mut bytes = 0;
        for of in added.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let unknown;
            let known = match self.position(of[0].0, of[0].1) {
                Ok(position) => &*self.attributes[position],
                Err(_) => {
                    new += 1;
                    unknown = OfAttribute::default();
                    &unknown
                }
            };
            for alike in of.chunk_by(|a, b| a.2 == b.2) {
                bytes += known.growth(alike[0].2, alike.iter().map(|added| added.3).sum());
            }
        }
        let has = |form: Form| added.iter().any(|added| added.2 == form);
        let links = if has(Form::Part) { self.links.growth(ids) } else { 0 };
        let places = if has(Form::Around) { self.places.growth(ids) } else { 0 };
        let boxes = new * (size_of::<OfAttribute>() + AROUND);
        bytes + links + places + boxes + growth(&self.attributes, new)
    }

    /// Checks that the patterns are exactly those among `predicates`.
    pub fn validate(&self, predicates: &[(PredicateId, &Predicate<StringId>)]) -> Result<(), String> {
        let all = predicates.iter().filter(|(_, predicate)| is_pattern(&predicate.test));
        let mut len = 0;
        for &(id, predicate) in all {
            len += 1;
            for sample in samples(&predicate.test) {
                let mut is_found = false;
                self.each(&OwnValue { sample, predicate, predicates }, |found, _| is_found |= found == id);
                if !is_found {
                    return Err(format!("pattern {id} is not found by its own text, network or center"));
                }
            }
        }
        let counted: usize = self.attributes.iter().map(|of| of.len).sum();
        if (len, len) != (self.len, counted) {
            return Err(format!("patterns: {len} held, {} and {counted} counted", self.len));
        }
        Ok(())
    }

    fn position(&self, attribute: AttributeId, is_lowered: bool) -> Result<usize, usize> {
        self.attributes.binary_search_by_key(&(attribute, is_lowered), |of| (of.attribute, of.is_lowered))
    }
}

impl OfAttribute {
    /// Returns the bytes that the tables take of the heap.
    fn heap_bytes(&self) -> usize {
        let OfAttribute { wholes, networks, starts, ends, parts, beginnings, circles, .. } = self;
        let members = wholes.heap_bytes() + networks.heap_bytes() + beginnings.heap_bytes();
        members + starts.heap_bytes() + ends.heap_bytes() + parts.heap_bytes() + circles.heap_bytes()
    }

    /// Returns the bytes by which patterns of one form, which take `more` places, may grow the tables of the attribute.
    fn growth(&self, form: Form, more: usize) -> usize {
        match form {
            Form::Start => self.starts.growth(more),
            Form::End => self.ends.growth(more),
            Form::Part => self.parts.growth(more),
            Form::Begins => self.beginnings.growth(more),
            Form::Whole => self.wholes.growth(more),
            Form::Networks => self.networks.growth(more),
            Form::Around => self.circles.growth(more),
        }
    }
}

/// A value for which a pattern is true.
#[derive(Clone, Debug)]
enum Sample {
    Text(Vec<u8>),
    Address(Address),
    Place(f64, f64),
}

/// Returns values for which a pattern is true, one for each of its places.
fn samples(test: &Test<StringId>) -> Vec<Sample> {
    match Pattern::of(test) {
        Some(Pattern::Start(text) | Pattern::End(text)) => vec![Sample::Text(text.into())],
        Some(Pattern::Part(Part { text, is_wild: false })) => vec![Sample::Text(text.into())],
        Some(Pattern::Part(Part { text, is_wild: true })) => {
            let one = |&byte: &u8| if byte == wildcard::ONE { b'x' } else { byte };
            vec![Sample::Text(text.iter().filter(|byte| **byte != wildcard::ANY).map(one).collect())]
        }
        Some(Pattern::Whole(texts) | Pattern::Begins(texts)) => {
            texts.iter().map(|text| Sample::Text(text.to_vec())).collect()
        }
        Some(Pattern::Networks(networks)) => networks.iter().map(|network| Sample::Address(network.first())).collect(),
        Some(Pattern::Around(circle, _)) if circle.radius >= 0.0 => {
            vec![Sample::Place(circle.latitude, circle.longitude)]
        }
        Some(Pattern::Around(..)) | None => Vec::new(),
    }
}

/// A sample of a pattern, as the only value.
struct OwnValue<'a, 'b> {
    sample: Sample,
    predicate: &'a Predicate<StringId>,
    predicates: &'b [(PredicateId, &'a Predicate<StringId>)],
}

impl OwnValue<'_, '_> {
    fn text(&self, attribute: AttributeId, is_lower: bool) -> Option<&[u8]> {
        let Predicate { attribute: own, test } = self.predicate;
        match &self.sample {
            Sample::Text(text) if attribute == *own && is_lowered(test) == is_lower => Some(text),
            _ => None,
        }
    }
}

impl<'a> Source<'a> for OwnValue<'a, '_> {
    fn predicate(&self, id: PredicateId) -> &'a Predicate<StringId> {
        self.predicates.iter().find(|(known, _)| *known == id).map_or(self.predicate, |(_, predicate)| predicate)
    }

    fn string(&self, attribute: AttributeId) -> Option<&[u8]> {
        self.text(attribute, false)
    }

    fn lowered(&self, attribute: AttributeId) -> Option<&[u8]> {
        self.text(attribute, true)
    }

    fn address(&self, attribute: AttributeId) -> Option<Address> {
        match self.sample {
            Sample::Address(address) if attribute == self.predicate.attribute => Some(address),
            _ => None,
        }
    }

    fn float(&self, attribute: AttributeId) -> Option<f64> {
        match (&self.sample, Pattern::of(&self.predicate.test)) {
            (Sample::Place(latitude, _), _) if attribute == self.predicate.attribute => Some(*latitude),
            (Sample::Place(_, longitude), Some(Pattern::Around(_, of))) if attribute == of => Some(*longitude),
            _ => None,
        }
    }
}
