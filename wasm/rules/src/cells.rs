//! The field values of a fact before its insertion.

use crate::layout::MAX_FIELDS;

/// The values of a fact's fields, and a bit for each that is defined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cells {
    pub values: [u64; MAX_FIELDS],
    pub defined: u32,
}

impl Cells {
    /// Leaves all fields undefined.
    pub fn clear(&mut self) {
        self.defined = 0;
    }

    pub fn set(&mut self, field: usize, value: Option<u64>) {
        match value {
            Some(value) => {
                self.values[field] = value;
                self.defined |= 1 << field;
            }
            None => self.defined &= !(1 << field),
        }
    }

    pub fn get(&self, field: usize) -> Option<u64> {
        (self.defined & 1 << field != 0).then(|| self.values[field])
    }
}
