//! Fact types, and the layout of their words.
//!
//! The words of a fact type: its free list, its number of facts, the oldest and the newest fact that can expire, and a table for
//! each index. The first index has no key: only the first word of its table is used, for the newest fact.

use crate::compile::code::Kind;
use crate::compile::condition::Condition;
use crate::compile::switch::{Switch, MAX_CONDITION_BITS};
use crate::layout::{field_offset, lay_out, DEFINED, FIELDS};
use crate::memory::order::REST;
use crate::memory::{mix, Address, Table, Words};

lay_out! { 0;
    /// The free list of fact blocks.
    FREE_FACTS: 1,
    COUNT: 1,
    /// The first and the last fact in the list of facts that can expire.
    OLDEST: 1,
    NEWEST: 1,
    /// The type's block in the order of types by their first expiry.
    EXPIRY: REST,
    /// The tables of the indices.
    INDICES: 0,
}

/// The fact types by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeNames {
    /// The type numbers sorted by name, if there are many.
    sorted: Vec<u32>,
}

impl TypeNames {
    /// Up to this many names, a linear scan is as fast as binary search.
    const MAX_SCANNED: usize = 8;

    pub fn new(types: &[FactType]) -> Self {
        let mut sorted = Vec::new();
        if types.len() > TypeNames::MAX_SCANNED {
            sorted.extend(0..types.len() as u32);
            sorted.sort_by(|left, right| types[*left as usize].name.cmp(&types[*right as usize].name));
        }
        TypeNames { sorted }
    }

    /// Returns the number of the type with a name. `types` are those passed to [`TypeNames::new`].
    pub fn find(&self, types: &[FactType], name: &str) -> Option<usize> {
        if self.sorted.is_empty() {
            return types.iter().position(|ty| ty.name == name);
        }
        let found = self.sorted.binary_search_by(|number| types[*number as usize].name.as_str().cmp(name));
        found.ok().map(|place| self.sorted[place] as usize)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FactType {
    /// Whether facts with an unknown field are refused.
    pub strict: bool,
    pub name: String,
    pub fields: Vec<Field>,
    /// The fields of each index, in ascending order. The first index has none, so it holds all facts of the type.
    pub indices: Vec<Vec<u8>>,
    /// The single-fact conditions on this type, ascending.
    pub conditions: Vec<u32>,
    /// By field: the indices whose keys contain it, one bit each.
    pub keyed_by: Vec<u32>,
    /// By field: the conditions that test it, one bit each, if they are few.
    pub tested_by: Vec<u32>,
    /// The switch that preselects among few conditions.
    pub switch: Switch,
    /// Whether there is a series of facts of this type.
    pub has_series: bool,
    /// The milliseconds after its time at which a fact of this type is dropped, or `None` if it is kept.
    pub life: Option<i64>,
    /// The address of the type's words.
    pub at: Address,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub kind: Kind,
    pub optional: bool,
    /// Whether a value outside the domain counts as undefined.
    pub forgiving: bool,
    pub domain: Domain,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Domain {
    Any,
    Integers(i64, i64),
    Floats(f64, f64),
    /// The values in ascending order, without repetitions.
    Among(Vec<u64>),
}

impl Domain {
    /// Returns whether a value is in the domain.
    pub fn contains(&self, value: u64) -> bool {
        match self {
            Domain::Any => true,
            Domain::Integers(least, most) => (*least..=*most).contains(&(value as i64)),
            Domain::Floats(least, most) => (*least..=*most).contains(&f64::from_bits(value)),
            Domain::Among(values) => values.binary_search(&value).is_ok(),
        }
    }
}

impl FactType {
    /// Returns the number of the type's words.
    pub fn engine_words(&self) -> u32 {
        INDICES + Table::SIZE * self.indices.len() as u32
    }

    /// Returns the offset of the links of an index in a fact.
    #[inline(always)]
    pub fn links(&self, index: usize) -> u32 {
        FIELDS + 2 * (self.fields.len() + index) as u32
    }

    /// Returns the offset of a fact's links in the list of facts that can expire.
    pub fn drop_links(&self) -> u32 {
        self.links(self.indices.len())
    }

    /// Returns the number of words of a fact.
    pub fn size(&self) -> u32 {
        self.drop_links() + if self.life.is_some() { 2 } else { 0 }
    }

    #[inline(always)]
    pub fn table(&self, index: usize) -> Table {
        Table(self.at + INDICES + Table::SIZE * index as u32)
    }

    /// Returns the number of facts of this type.
    pub fn count(&self, words: &Words) -> u32 {
        words.get(self.at + COUNT)
    }

    /// Returns the newest fact of this type, or 0.
    pub fn newest(&self, words: &Words) -> Address {
        words.get(self.table(0).0)
    }

    /// Returns the next fact to be dropped, or 0.
    pub fn oldest(&self, words: &Words) -> Address {
        words.get(self.at + OLDEST)
    }

    /// Returns the conditions of a bit set, for a type with few conditions.
    pub fn of_bits(&self, met: u32) -> impl Iterator<Item = u32> + '_ {
        bits(met).map(|position| self.conditions[position])
    }

    /// Returns the value of a field.
    pub fn cell(&self, words: &Words, fact: Address, field: usize) -> Option<u64> {
        (words.get(fact + DEFINED) & 1 << field != 0).then(|| words.get64(fact + field_offset(field)))
    }

    /// Returns the hash of a fact's key in an index, or `None` if a field of the key is undefined.
    #[inline]
    pub fn hash(&self, words: &Words, fact: Address, index: usize) -> Option<u32> {
        let defined = words.get(fact + DEFINED);
        let mut hash = KEY;
        for field in &self.indices[index] {
            if defined & 1 << field == 0 {
                return None;
            }
            hash = mix(hash, words.get64(fact + field_offset((*field).into())));
        }
        Some(hash as u32)
    }
}

/// Returns the positions of the bits that are set, ascending.
pub(crate) fn bits(mut word: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let position = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(position)
    })
}

/// The seed of the hash of a key.
pub(crate) const KEY: u64 = 1;

impl FactType {
    /// Returns whether the conditions of this type are few enough to have bits.
    #[inline]
    pub fn has_few_conditions(&self) -> bool {
        self.conditions.len() <= MAX_CONDITION_BITS
    }

    /// Assigns bits to the type's conditions, and finds the conditions that test each field.
    pub fn set_bits(&mut self, conditions: &mut [Condition]) {
        let fields = 0..self.fields.len() as u32;
        let keys = |field: u32| {
            let indices = self.indices.iter().enumerate();
            let keyed = indices.filter(|(_, fields)| fields.iter().any(|key| u32::from(*key) == field));
            keyed.fold(0, |bits, (index, _)| bits | 1 << index)
        };
        self.keyed_by = fields.clone().map(keys).collect();
        self.tested_by = vec![0; self.fields.len()];
        if !self.has_few_conditions() {
            return;
        }
        for (position, number) in self.conditions.iter().enumerate() {
            let condition = &mut conditions[*number as usize];
            condition.bit = 1 << position;
            for field in fields.clone() {
                if condition.tests.iter().any(|test| test.reads(FIELDS + 2 * field)) {
                    self.tested_by[field as usize] |= condition.bit;
                }
            }
        }
    }
}
