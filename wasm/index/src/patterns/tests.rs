//! Look-ups of patterns, compared with tests of every pattern.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::model::address::disjoint;
use crate::model::predicate::Float;
use crate::oracle::random::Random;
use crate::support::sphere::haversine;

type Known = BTreeMap<PredicateId, Predicate<StringId>>;

/// Values of attributes 0 to 2 as strings, a place in attributes 3 and 4, and an address in attribute 5.
struct Values<'a> {
    known: &'a Known,
    strings: Vec<Option<Vec<u8>>>,
    lowered: Vec<Option<Vec<u8>>>,
    address: Address,
    place: (f64, f64),
}

impl<'a> Source<'a> for Values<'a> {
    fn predicate(&self, id: PredicateId) -> &'a Predicate<StringId> {
        &self.known[&id]
    }

    fn string(&self, attribute: AttributeId) -> Option<&[u8]> {
        self.strings.get(attribute.index())?.as_deref()
    }

    fn lowered(&self, attribute: AttributeId) -> Option<&[u8]> {
        self.lowered.get(attribute.index())?.as_deref()
    }

    fn address(&self, attribute: AttributeId) -> Option<Address> {
        (attribute.index() == 5).then_some(self.address)
    }

    fn float(&self, attribute: AttributeId) -> Option<f64> {
        match attribute.index() {
            3 => Some(self.place.0),
            4 => Some(self.place.1),
            _ => None,
        }
    }
}

const LONGITUDE: AttributeId = AttributeId::from_index(4);

fn circle(random: &mut Random) -> Predicate<StringId> {
    let (latitude, longitude) = place(random);
    let radius = random.pick(&[-1.0, 0.0, 0.001, 1.0, 15.0, 333.0, 5000.0, 12_000.0, 20_015.0, 20_037.0, 1e6]);
    let [latitude, longitude, radius] = [latitude, longitude, radius].map(Float::new);
    let test = Test::GeoWithinRadius { longitude_attribute: LONGITUDE, latitude, longitude, radius };
    Predicate { attribute: AttributeId::from_index(3), test }
}

/// Places near the poles, the date line, each other, and off the earth.
fn place(random: &mut Random) -> (f64, f64) {
    let near = |random: &mut Random| (random.below(2001) as f64 - 1000.0) / random.pick(&[1e2, 1e4, 1e6]);
    let (lat, lon) =
        random.pick(&[(90.0, 0.0), (-90.0, 50.0), (0.0, 180.0), (0.0, -180.0), (45.5, -73.6), (-45.5, 106.4)]);
    match random.below(20) {
        0 => (near(random) * 1e3, near(random) * 1e5),
        _ => (lat + near(random), lon + near(random)),
    }
}

fn pattern(random: &mut Random, letters: &[u8], longest: usize) -> Predicate<StringId> {
    if random.chance(20) {
        return circle(random);
    }
    if random.chance(20) {
        let mut networks = random.several(4, |random| {
            let address = address(random);
            address.network(random.below(usize::from(address.width()) + 1) as u8)
        });
        disjoint(&mut networks);
        return Predicate { attribute: AttributeId::from_index(5), test: Test::InNetworks(networks.into()) };
    }
    let text: Box<[u8]> = text(random, letters, longest).into();
    let like = |random: &mut Random| {
        let mut wild = text.to_vec();
        for _ in 0..=random.below(3) {
            wild.insert(random.below(wild.len() + 1), random.pick(&[wildcard::ANY, wildcard::ONE]));
        }
        wild.into_boxed_slice()
    };
    let test = match random.below(9) {
        0 => Test::StartsWith(text),
        1 => Test::EndsWith(text),
        2 | 3 => Test::Like(like(random)),
        4 => {
            let mut texts = random.several(4, |random| self::text(random, letters, longest).into_boxed_slice());
            texts.sort_unstable();
            texts.dedup();
            Test::Lowered(Lowered::OneOf(texts.into()))
        }
        5 => Test::Lowered(Lowered::StartsWith(text)),
        6 => Test::Lowered(Lowered::Contains(text)),
        7 => Test::Lowered(Lowered::Like(like(random))),
        _ => Test::Contains(text),
    };
    Predicate { attribute: AttributeId::from_index(random.below(3)), test }
}

fn text(random: &mut Random, letters: &[u8], longest: usize) -> Vec<u8> {
    (0..random.below(longest + 1)).map(|_| random.pick(letters)).collect()
}

fn holds(predicate: &Predicate<StringId>, values: &Values) -> bool {
    if let Test::GeoWithinRadius { latitude, longitude, radius, .. } = &predicate.test {
        let (lat, lon) = values.place;
        return haversine(lat, lon, latitude.get(), longitude.get()) <= radius.get();
    }
    if let Test::InNetworks(networks) = &predicate.test {
        return networks.iter().any(|network| network.contains(values.address));
    }
    if let Test::Lowered(test) = &predicate.test {
        let Some(value) = &values.lowered[predicate.attribute.index()] else { return false };
        return match test {
            Lowered::OneOf(texts) => texts.iter().any(|text| **text == value[..]),
            Lowered::StartsWith(text) => value.starts_with(text),
            Lowered::EndsWith(text) => value.ends_with(text),
            Lowered::Contains(text) => text.is_empty() || value.windows(text.len()).any(|window| *window == **text),
            Lowered::Like(pattern) => wildcard::matches(pattern, value),
        };
    }
    let Some(value) = &values.strings[predicate.attribute.index()] else { return false };
    match &predicate.test {
        Test::StartsWith(text) => value.starts_with(text),
        Test::EndsWith(text) => value.ends_with(text),
        Test::Contains(text) => text.is_empty() || value.windows(text.len()).any(|window| *window == **text),
        Test::Like(pattern) => wildcard::matches(pattern, value),
        _ => unreachable!(),
    }
}

fn address(random: &mut Random) -> Address {
    let byte = |random: &mut Random| random.pick(&[0, 1, 128]);
    match random.chance(50) {
        true => Address::v4([10, byte(random), 0, byte(random)]),
        false => Address::v6([0x20, byte(random), 0, 0, 0, 0, 0, byte(random), 0, 0, 0, 0, 0, 0, 0, byte(random)]),
    }
}

#[test]
fn patterns_are_found_as_in_a_plain_list() {
    for (seed, letters, longest) in [(1, &b"ab"[..], 9), (2, b"abcdefgh", 6), (3, b"a", 12), (4, b"\0\xffxyz", 40)] {
        let mut random = Random::new(seed);
        let (mut patterns, mut known) = (Patterns::default(), Known::new());
        for step in 0..3000 {
            let grows = step % 1000 < 600;
            let id = PredicateId::from_index(random.below(300));
            match known.remove(&id) {
                Some(removed) if !grows => patterns.remove(id, &removed, |id| &known[&id]),
                Some(held) => drop(known.insert(id, held)),
                None => {
                    let new = pattern(&mut random, letters, longest);
                    // Each predicate has one number.
                    if grows && known.values().all(|held| *held != new) {
                        let growth = patterns.growth(std::iter::once(&new), 300);
                        assert!(growth > 0 || patterns.len() > 0);
                        patterns.insert(id, &new, |id| &known[&id]);
                        known.insert(id, new);
                    }
                }
            }
            if step % 7 == 0 {
                let mut string = |_| random.chance(80).then(|| text(&mut random, letters, 2 * longest));
                let strings = (0..3).map(&mut string).collect();
                let lowered = (0..3).map(string).collect();
                let (place, address) = (place(&mut random), address(&mut random));
                let values = Values { known: &known, strings, lowered, address, place };
                let mut found = BTreeSet::new();
                patterns.each(&values, |id, certainty| {
                    // A pattern of `like` is found by one of its literals.
                    assert!(certainty == Found::True || !is_exact(&known[&id].test));
                    if certainty == Found::True || holds(&known[&id], &values) {
                        found.insert(id);
                    }
                });
                let expected = known.iter().filter(|(_, held)| holds(held, &values)).map(|(&id, _)| id);
                assert_eq!(found, expected.collect(), "seed {seed}, step {step}, {:?}", values.strings);
            }
        }
        let all: Vec<_> = known.iter().map(|(&id, held)| (id, held)).collect();
        patterns.validate(&all).unwrap();
        while let Some((id, removed)) = known.pop_first() {
            patterns.remove(id, &removed, |id| &known[&id]);
        }
        assert_eq!((patterns.len(), patterns.attributes.capacity()), (0, 0));
    }
}

#[test]
fn the_formula_decides_for_places_at_the_rim() {
    let mut random = Random::new(5);
    let mut within = 0;
    for _ in 0..3000 {
        let (latitude, longitude) = place(&mut random);
        let spread = random.pick(&[0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0, 90.0]);
        let mut near = |at: f64| at + (random.below(2001) as f64 / 1000.0 - 1.0) * spread;
        let (lat, lon) = (near(latitude), near(longitude));
        let distance = haversine(lat, lon, latitude, longitude);
        let scaled = [-1e-3, -1e-6, -1e-9, 1e-9, 1e-6, 1e-3].map(|more| distance * (1.0 + more));
        let radii = [distance, distance.next_down(), distance.next_up(), distance - 1e-9, distance + 1e-9];
        let circles: Vec<Circle> =
            radii.into_iter().chain(scaled).map(|radius| Circle { latitude, longitude, radius }).collect();
        let mut held = Circles::default();
        let numbered = || circles.iter().enumerate().map(|(number, &circle)| (PredicateId::from_index(number), circle));
        let mut lanes = Places::default();
        numbered().for_each(|(id, circle)| held.insert(&mut lanes, circle, id));
        let mut found = Vec::new();
        held.each(lat, lon, |id| circles[id.index()], &mut |id| found.push(id));
        found.sort_unstable();
        let expected: Vec<_> = numbered().filter(|(_, circle)| distance <= circle.radius).map(|(id, _)| id).collect();
        assert_eq!(found, expected, "{lat} {lon} {:?}", circles[0]);
        within += found.len();
        numbered().for_each(|(id, _)| held.remove(&mut lanes, id));
        held.each(lat, lon, |id| circles[id.index()], &mut |id| unreachable!("{id} was removed"));
        assert_eq!(held.len(), 0);
    }
    assert!(within > 3000 * 5, "{within}");
}

/// A thousand parts, with the number of comparisons that finding some of them took.
struct Compared {
    known: Known,
    parts: Parts,
    links: Links<Note>,
    comparisons: std::cell::Cell<usize>,
}

impl Compared {
    fn new(text: impl Fn(usize) -> Vec<u8>) -> Self {
        let known: Known = (0..1000)
            .map(|number| {
                let test = Test::Contains(text(number).into());
                (PredicateId::from_index(number), Predicate { attribute: AttributeId::default(), test })
            })
            .collect();
        let (mut parts, mut links) = (Parts::default(), Links::default());
        for (&id, predicate) in &known {
            parts.insert(&mut links, part_of(predicate), id, |id| part_of(&known[&id]));
        }
        Compared { known, parts, links, comparisons: std::cell::Cell::default() }
    }

    fn find(&self, string: &[u8]) -> Vec<PredicateId> {
        let compare = |id: PredicateId| {
            self.comparisons.set(self.comparisons.get() + 1);
            part_of(&self.known[&id])
        };
        let mut found = Vec::new();
        self.parts.each(&self.links, string, compare, &mut |id, _| found.push(id));
        found
    }
}

#[test]
fn a_common_beginning_does_not_make_a_long_list() {
    let parts = Compared::new(|number| format!("http://www.example.com/{number:04}").into_bytes());
    assert_eq!(parts.find(b"GET http://www.example.com/0042 200"), [PredicateId::from_index(42)]);
    let comparisons = parts.comparisons.get();
    assert!(comparisons < 200, "{comparisons} comparisons");
}

#[test]
fn a_long_beginning_that_repeats_itself_does_not_either() {
    let text = |number: usize| format!("{}{number:05}{}", "a".repeat(60), "a".repeat(number % 30)).into_bytes();
    let parts = Compared::new(text);
    assert_eq!(parts.find("a".repeat(400).as_bytes()), []);
    assert_eq!(parts.find(&text(42)), [PredicateId::from_index(42)]);
    let comparisons = parts.comparisons.get();
    assert!(comparisons < 2000, "{comparisons} comparisons");
}

#[test]
fn the_work_for_a_string_that_repeats_itself_is_bounded() {
    let known: Known = (0..200)
        .map(|number| {
            let test = Test::Contains(format!("{}b{}", "a".repeat(number), "a".repeat(500)).into_bytes().into());
            (PredicateId::from_index(number), Predicate { attribute: AttributeId::default(), test })
        })
        .collect();
    let (mut parts, mut links) = (Parts::default(), Links::default());
    for (&id, predicate) in &known {
        parts.insert(&mut links, part_of(predicate), id, |id| part_of(&known[&id]));
    }
    let compared = std::cell::Cell::new(0);
    let compare = |id: PredicateId| {
        compared.set(compared.get() + 1);
        part_of(&known[&id])
    };
    let value = "a".repeat(100_000);
    let mut found = BTreeSet::new();
    parts.each(&links, value.as_bytes(), compare, &mut |id, certainty| {
        assert_eq!(certainty, Found::Perhaps);
        found.insert(id);
    });
    assert_eq!(found, known.keys().copied().collect());
    assert!(compared.get() <= 70 * value.len(), "{} comparisons", compared.get());
}
