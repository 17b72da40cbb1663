//! Loads the words that the next insertions need, for a group of facts at once (software prefetch).
//!
//! With half a million facts an insertion spends most of its time on cache misses: the place in a table, the head of the list, the
//! neighbors of dropped facts. Each load depends on the previous one, so inserting one fact at a time waits for each miss. The
//! caller therefore announces a group of facts before it inserts them. Loads for different facts are independent, so their misses
//! overlap: group prefetching (Chen, Ailamaki, Gibbons and Mowry, "Improving Hash Join Performance through Prefetching", 2004).
//! WebAssembly has no prefetch instruction, so these are plain loads.
//!
//! The loaded values have no effect.

use crate::compile::code::{Kind, Operand};
use crate::compile::fact_type::{bits, KEY};
use crate::compile::program::{FactType, Program};
use crate::layout::{field_at, MET, NUMBER, TIME};
use crate::memory::{mix, Address, Table, Words};
use crate::value::Value;

/// The most facts that are announced at a time.
pub const GROUP: usize = 16;
/// The most prefetched look-ups of a group.
const MAX_LOOK_UPS: usize = 4 * GROUP;

/// A look-up by fields of a new fact: in an index of its type, or for its first partner.
#[derive(Clone, Debug, PartialEq)]
struct LookUp {
    table: Table,
    /// The offset of the links in the facts of the index.
    links: u32,
    /// The fields of the key, with their kinds. Keys with strings are left out: a string's address is not known yet.
    key: Vec<(u8, Kind)>,
}

/// The announced facts.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    /// The look-ups by fact type.
    look_ups: Vec<Vec<LookUp>>,
    /// The addresses of list heads for the announced facts, and the offsets of their links.
    heads: [(Address, u32); MAX_LOOK_UPS],
    length: usize,
    /// Neighbors, in their lists, of the facts that the insertions will drop.
    neighbors: [Address; MAX_LOOK_UPS],
    /// The time of the latest announced fact.
    time: i64,
    /// A checksum of the loaded words, so that the compiler keeps the loads.
    sum: u32,
}

impl Announced {
    /// Returns no announced facts, and no look-ups.
    pub fn new() -> Announced {
        Announced {
            look_ups: vec![],
            heads: [(0, 0); MAX_LOOK_UPS],
            length: 0,
            neighbors: [0; MAX_LOOK_UPS],
            time: i64::MIN,
            sum: 0,
        }
    }

    /// Finds the look-ups of a program whose tables have their addresses.
    pub fn set_up(&mut self, program: &Program) {
        self.look_ups = program.types.iter().map(|ty| look_ups(program, ty)).collect();
    }

    /// Forgets the announced facts. Facts of an interrupted call may be gone.
    pub fn clear(&mut self) {
        self.length = 0;
        self.time = i64::MIN;
    }

    /// Adds a fact, given its values by field.
    pub fn add<'v>(&mut self, words: &Words, ty: usize, time: Option<i64>, value: impl Fn(usize) -> Option<Value<'v>>) {
        self.time = self.time.max(time.unwrap_or(i64::MIN));
        for look_up in &self.look_ups[ty] {
            let mut hash = Some(KEY);
            for (field, kind) in &look_up.key {
                let cell = match (value(usize::from(*field)), kind) {
                    (Some(Value::Integer(integer)), Kind::Float) => Some((integer as f64).to_bits()),
                    (Some(Value::Integer(integer)), _) => Some(integer as u64),
                    (Some(Value::Float(float)), _) => Some(float.to_bits()),
                    (Some(Value::Boolean(boolean)), _) => Some(boolean.into()),
                    _ => None,
                };
                hash = hash.zip(cell).map(|(hash, cell)| mix(hash, cell));
            }
            if let (Some(hash), Some(place)) = (hash, self.heads.get_mut(self.length)) {
                *place = (look_up.table.value_at(words, hash as u32), look_up.links);
                self.length += 1;
            }
        }
    }

    /// Loads the words for the added facts. No fact may have come or gone since [`Announced::add`]. `now` is the engine's time.
    ///
    /// The loops are short because out-of-order execution overlaps only the misses within a few hundred instructions.
    pub fn load(&mut self, program: &Program, words: &Words, now: i64) {
        let heads = &mut self.heads[..self.length];
        for (head, _) in &mut *heads {
            *head = words.get(*head);
        }
        let mut sum = 0;
        for (head, links) in heads {
            sum ^= words.get(*head + NUMBER) ^ words.get(*head + *links + 1);
        }
        let mut length = 0;
        for (number, life) in &program.lives {
            let time = self.time.max(now).saturating_sub(*life);
            length = list_neighbors(&program.types[*number], program, words, time, &mut self.neighbors, length);
        }
        for address in &self.neighbors[..length] {
            sum ^= words.get(*address);
        }
        self.sum ^= sum;
    }
}

/// Returns the look-ups made by the insertion of a fact of this type.
fn look_ups(program: &Program, ty: &FactType) -> Vec<LookUp> {
    let mut found: Vec<LookUp> = Vec::new();
    let mut add = |look_up: LookUp| {
        // No group could prefetch more.
        if found.len() < MAX_LOOK_UPS
            && !look_up.key.is_empty()
            && look_up.key.iter().all(|(_, kind)| *kind != Kind::String)
            && !found.contains(&look_up)
        {
            found.push(look_up);
        }
    };
    let kind_of = |field: u8| (field, ty.fields[usize::from(field)].kind);
    let conditions = ty.conditions.iter().map(|condition| &program.conditions[*condition as usize]);
    let indices = conditions.clone().fold(0, |indices, condition| indices | condition.indices);
    for index in bits(indices & !1) {
        let key = ty.indices[index].iter().map(|field| kind_of(*field)).collect();
        add(LookUp { table: ty.table(index), links: ty.links(index), key });
    }
    for (rule, slot) in conditions.flat_map(|condition| condition.seeds.iter().filter_map(|seeds| seeds.first())) {
        let Some(join) = program.rules[*rule as usize].plans[usize::from(*slot)].joins.first() else { continue };
        let field_of = |operand: &Operand| match operand {
            Operand::Field { slot: of, offset, .. } if of == slot => Some(kind_of(field_at(*offset) as u8)),
            _ => None,
        };
        let (probe, other) = (&join.probe, &program.types[join.probe.ty]);
        if let Some(key) = probe.key.iter().map(field_of).collect::<Option<Vec<_>>>().filter(|_| probe.index > 0) {
            add(LookUp { table: other.table(probe.index), links: other.links(probe.index), key });
        }
    }
    found
}

/// Appends the words that change when facts of a type older than `time` are dropped. Returns the new length of the list.
fn list_neighbors(
    ty: &FactType,
    program: &Program,
    words: &Words,
    time: i64,
    list: &mut [Address; MAX_LOOK_UPS],
    mut length: usize,
) -> usize {
    if !ty.has_few_conditions() {
        return length;
    }
    let mut fact = ty.oldest(words);
    for _ in 0..GROUP {
        if fact == 0 || words.get64(fact + TIME) as i64 > time {
            break;
        }
        let conditions = ty.of_bits(words.get(fact + MET));
        let indices = conditions.fold(0, |indices, condition| indices | program.conditions[condition as usize].indices);
        for index in bits(indices & !1) {
            let address = match words.get(fact + ty.links(index) + 1) {
                0 => ty.hash(words, fact, index).map_or(0, |hash| ty.table(index).value_at(words, hash)),
                previous => previous + ty.links(index),
            };
            let Some(place) = list.get_mut(length) else { return length };
            *place = address;
            length += 1;
        }
        fact = words.get(fact + ty.drop_links());
    }
    length
}
