//! Preselects among the single-fact conditions of a type with few: many compare one field with different constants, and a fact can
//! meet only those with its own value.

use crate::compile::code::{Kind, Operand, Relation, Test, OWN};
use crate::compile::condition::Condition;
use crate::layout::DEFINED;
use crate::memory::{Address, Words};

/// Types with at most this many conditions have a bit for each, and need no index of conditions.
pub(crate) const MAX_CONDITION_BITS: usize = 32;

#[derive(Clone, Debug, Default)]
pub(crate) struct Switch {
    /// The offset of the field, and its bit among the defined fields if it is optional, otherwise 0.
    offset: u32,
    bit: u32,
    /// The constants, each with the bit set of conditions that require it.
    cases: Vec<(u64, u32)>,
    /// The bit set of the other conditions.
    others: u32,
}

impl Switch {
    /// Returns the switch over the field that most conditions equate with a constant.
    pub fn new(numbers: &[u32], conditions: &[Condition]) -> Switch {
        if numbers.len() > MAX_CONDITION_BITS {
            return Switch::default();
        }
        let asked: Vec<Vec<(u32, u32, u64)>> = numbers
            .iter()
            .map(|number| conditions[*number as usize].tests.iter().filter_map(equality).collect())
            .collect();
        let mut fields: Vec<(u32, u32)> = Vec::new();
        for (offset, bit, _) in asked.iter().flatten() {
            if !fields.contains(&(*offset, *bit)) {
                fields.push((*offset, *bit));
            }
        }
        let asks =
            |field: (u32, u32), of: &Vec<(u32, u32, u64)>| of.iter().any(|(offset, bit, _)| (*offset, *bit) == field);
        let most = fields.iter().rev().max_by_key(|field| asked.iter().filter(|of| asks(**field, of)).count());
        let (offset, bit) = most.copied().unwrap_or((DEFINED, 0));
        let mut switch = Switch { offset, bit, cases: Vec::new(), others: 0 };
        for (position, of) in asked.iter().enumerate() {
            match of.iter().find(|(offset, bit, _)| (*offset, *bit) == (switch.offset, switch.bit)) {
                None => switch.others |= 1 << position,
                Some((_, _, constant)) => match switch.cases.iter_mut().find(|(known, _)| known == constant) {
                    Some((_, bits)) => *bits |= 1 << position,
                    None => switch.cases.push((*constant, 1 << position)),
                },
            }
        }
        switch
    }

    /// Returns the bit set of the conditions that a fact may meet.
    #[inline]
    pub fn candidates(&self, words: &Words, fact: Address) -> u32 {
        if self.cases.is_empty() || self.bit != 0 && words.get(fact + DEFINED) & self.bit == 0 {
            return self.others;
        }
        let value = words.get64(fact + self.offset);
        self.others | self.cases.iter().find(|(constant, _)| *constant == value).map_or(0, |(_, bits)| *bits)
    }
}

/// Returns the field, by offset and bit, and the constant that a test equates. Floats are left out: equal ones may differ in bits.
fn equality(test: &Test) -> Option<(u32, u32, u64)> {
    let Test::Compare(kind, Relation::Equal, left, right) = test else { return None };
    match (kind, *left, *right) {
        (Kind::Float, ..) => None,
        (_, Operand::Field { slot: OWN, offset, bit }, Operand::Constant(constant))
        | (_, Operand::Constant(constant), Operand::Field { slot: OWN, offset, bit }) => Some((offset, bit, constant)),
        _ => None,
    }
}
