//! The index against the oracle, with wide domains and skewed values, long lists, intervals, and waves of deletions that empty parts of
//! the tree. `oracle.rs` has narrow domains, so that predicates often hold; they seldom fill buckets and masks.

use crate::support::naive::{self, NaiveEvent, NaiveValue};
use crate::support::random::Random;
use crate::support::twin::Twin;
use be_tree_index::model::predicate::Postfix;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};

const TYPES: [Type; 7] =
    [Type::Boolean, Type::Integer, Type::IntegerEnum, Type::Float, Type::String, Type::IntegerList, Type::StringList];

/// The number of random schemas. They are fewer in the sandbox, where each takes longer.
const SEEDS: u64 = if cfg!(target_arch = "wasm32") { 50 } else { 150 };

/// The least values of attributes. Some ranges cross the ends of 32 bits.
const FIRSTS: [i64; 6] = [0, 0, -20, i32::MAX as i64 - 30, i32::MIN as i64 - 30, 1 << 40];

/// The values of an attribute: `width` values from `first` on.
struct Range {
    first: i64,
    width: usize,
}

impl Range {
    fn new(random: &mut Random) -> Self {
        Range { first: random.pick(&FIRSTS), width: random.pick(&[2, 10, 40, 64, 65, 300, 5_000]) }
    }

    /// Returns a value, mostly a low one.
    fn integer(&self, random: &mut Random) -> i64 {
        let skewed = random.below(self.width).min(random.below(self.width)).min(random.below(self.width));
        self.first + skewed as i64
    }

    fn last(&self) -> i64 {
        self.first + self.width as i64 - 1
    }
}

/// The schema and the domains of expressions and events.
struct World {
    schema: Schema,
    /// The values of the last attributes. No expression reads the attributes before them.
    ranges: Vec<Range>,
    /// The percentage of events that define each attribute.
    defined: Vec<usize>,
}

impl World {
    fn new(random: &mut Random, others: usize) -> Self {
        let count = random.pick(&[1, 2, 3, 8, 25]);
        let ranges: Vec<_> = (0..count).map(|_| Range::new(random)).collect();
        let attribute = |(number, range): (usize, &Range)| {
            let ty = random.pick(&TYPES);
            let bounds = match ty {
                Type::Integer | Type::IntegerList if random.chance(60) => {
                    Bounds::Integer { min: range.first, max: range.last() }
                }
                _ => Bounds::Unbounded,
            };
            Attribute { name: format!("a{number}"), ty, optional: random.chance(75), bounds }
        };
        let asked: Vec<_> = ranges.iter().enumerate().map(attribute).collect();
        let often = |attribute: &Attribute| if attribute.optional { random.pick(&[10, 50, 90]) } else { 100 };
        let defined = asked.iter().map(often).collect();
        let other = |number| Attribute {
            name: format!("other_{number}"),
            ty: Type::Boolean,
            optional: true,
            bounds: Bounds::Unbounded,
        };
        let attributes = (0..others).map(other).chain(asked).collect();
        World { schema: Schema::new(attributes).unwrap(), ranges, defined }
    }

    /// Returns the number of attributes that no expression reads.
    fn others(&self) -> usize {
        self.schema.len() - self.ranges.len()
    }

    /// Returns the type, name and values of an attribute that expressions read.
    fn asked(&self, number: usize) -> (Type, &str, &Range) {
        let Attribute { name, ty, .. } = &self.schema.attributes()[self.others() + number];
        (*ty, name, &self.ranges[number])
    }

    /// Returns a conjunction of a few operands; some are negated or disjunctions.
    fn expression(&self, random: &mut Random) -> String {
        let operands: Vec<_> = (0..1 + random.below(5).min(random.below(5))).map(|_| self.operand(random)).collect();
        operands.join(" and ")
    }

    fn operand(&self, random: &mut Random) -> String {
        match random.below(10) {
            0 => format!("not ({})", self.predicate(random)),
            1 => format!("({} or {})", self.predicate(random), self.predicate(random)),
            2 => format!("({} or not ({}))", self.predicate(random), self.predicate(random)),
            3 => format!("({} or {} and {})", self.predicate(random), self.predicate(random), self.predicate(random)),
            _ => self.predicate(random),
        }
    }

    fn predicate(&self, random: &mut Random) -> String {
        let (ty, name, range) = self.asked(random.below(self.ranges.len()));
        let constant = |integer: i64| match ty {
            Type::Float => format!("{:?}", float(integer)),
            Type::String | Type::StringList => format!("'value {integer}'"),
            _ => integer.to_string(),
        };
        let list = |random: &mut Random| {
            // Mostly few values, sometimes more than a mask has bits.
            let most = random.pick(&[2, 4, 4, 9, 100]);
            let constants: Vec<_> = (0..1 + random.below(most)).map(|_| constant(range.integer(random))).collect();
            format!("({})", constants.join(", "))
        };
        let least = range.integer(random);
        let greatest = (least + random.pick(&[0, 1, 3, 20])).min(range.last());
        let (least, greatest) = (constant(least), constant(greatest));
        match (ty, random.below(6)) {
            (Type::Boolean, _) => name.into(),
            (Type::IntegerList | Type::StringList, _) => {
                format!("{name} {} of {}", random.pick(&["one", "one", "none", "all"]), list(random))
            }
            (Type::Integer | Type::Float, 0) => format!("({name} >= {least} and {name} <= {greatest})"),
            (Type::Integer | Type::Float, 1) => format!("({name} > {least} and {name} < {greatest})"),
            (Type::Integer | Type::Float, 2) => {
                format!("{name} {} {least}", random.pick(&["<", "<=", ">", ">="]))
            }
            (Type::Float, _) | (_, 3) => format!("{name} {} {least}", random.pick(&["=", "=", "<>"])),
            _ => format!("{name} {} {}", random.pick(&["in", "in", "not in"]), list(random)),
        }
    }

    fn event(&self, random: &mut Random) -> NaiveEvent {
        let defined = |number: usize| {
            let (ty, _, range) = self.asked(number);
            random.chance(self.defined[number]).then(|| {
                let integers = match ty {
                    Type::IntegerList | Type::StringList => random.several(12, |random| range.integer(random)),
                    _ => vec![range.integer(random)],
                };
                value(ty, &integers)
            })
        };
        vec![None; self.others()].into_iter().chain((0..self.ranges.len()).map(defined)).collect()
    }

    /// Returns events that differ in one attribute, with consecutive values.
    fn events_in_a_row(&self, random: &mut Random) -> Vec<NaiveEvent> {
        let event = self.event(random);
        let number = random.below(self.ranges.len());
        let (ty, _, range) = self.asked(number);
        let with = |integer| {
            let mut event = event.clone();
            event[self.others() + number] = Some(value(ty, &[integer]));
            event
        };
        (range.integer(random)..=range.last()).take(random.pick(&[1, 5, 20])).map(with).collect()
    }
}

/// Returns the value that `integers` stand for. Only lists have several elements, or none.
fn value(ty: Type, integers: &[i64]) -> NaiveValue {
    match ty {
        Type::Boolean => NaiveValue::Boolean(integers[0] % 2 == 0),
        Type::Float => NaiveValue::Float(float(integers[0])),
        Type::String => NaiveValue::String(string(integers[0])),
        Type::IntegerList => NaiveValue::Integers(integers.to_vec()),
        Type::StringList => NaiveValue::Strings(integers.iter().copied().map(string).collect()),
        _ => NaiveValue::Integer(integers[0]),
    }
}

fn float(integer: i64) -> f64 {
    integer as f64 / 8.0
}

fn string(integer: i64) -> Vec<u8> {
    format!("value {integer}").into_bytes()
}

fn check(twin: &mut Twin, world: &World, random: &mut Random) {
    twin.index.validate().unwrap();
    for _ in 0..10 {
        let event = world.event(random);
        twin.check(random, &event);
    }
}

/// Returns the ids that a wave of deletions deletes.
fn doomed(twin: &Twin, world: &World, texts: &[String], random: &mut Random) -> Vec<u64> {
    let asked = format!("a{} ", random.below(world.ranges.len()));
    let events = world.events_in_a_row(random);
    let [way, oldest] = [random.below(6), random.below(texts.len())];
    let is_doomed = |id: u64, postfix: &Postfix, random: &mut Random| match way {
        0 => random.chance(60),
        1 => random.chance(95),
        2 => id <= oldest as u64,
        3 => texts[id as usize].contains(&asked),
        4 => events.iter().any(|event| naive::matches(postfix, event)),
        _ => !events.iter().any(|event| naive::matches(postfix, event)),
    };
    twin.oracle.iter().filter(|(id, postfix)| is_doomed(**id, postfix, random)).map(|(id, _)| *id).collect()
}

/// Waves of insertions, and of deletions that empty whole parts of the tree.
fn rehearse(seed: u64, others: usize) {
    let mut random = Random::new(seed);
    let world = World::new(&mut random, others);
    let mut twin = Twin::new(world.schema.clone());
    let mut texts = Vec::new();
    for _ in 0..4 {
        for _ in 0..600 {
            let text = world.expression(&mut random);
            twin.insert(texts.len() as u64, &text);
            texts.push(text);
        }
        check(&mut twin, &world, &mut random);
        for _ in 0..2 {
            let doomed = doomed(&twin, &world, &texts, &mut random);
            doomed.into_iter().for_each(|id| twin.delete(id));
            check(&mut twin, &world, &mut random);
        }
    }
}

#[test]
fn skewed_values_find_what_the_oracle_finds() {
    (0..SEEDS).for_each(|seed| rehearse(seed, 0));
}

/// Filters have room for the first 16,383 attributes.
#[test]
fn attributes_without_filters_find_what_the_oracle_finds() {
    (0..SEEDS / 25).for_each(|seed| rehearse(seed, 16_379 + seed as usize));
}
