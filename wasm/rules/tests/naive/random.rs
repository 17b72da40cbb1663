//! Random numbers for generated cases.

// Each test binary uses a part of this module.
#![allow(dead_code)]

/// The source of a case: the state of a xorshift generator, or bytes followed by zeros.
pub enum Random<'a> {
    Seed(u64),
    Bytes(&'a [u8]),
}

impl Random<'_> {
    pub fn of_seed(seed: u64) -> Self {
        Random::Seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        match self {
            Random::Seed(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                (*state >> 11) % bound
            }
            Random::Bytes(bytes) => {
                let Some((first, rest)) = bytes.split_first() else { return 0 };
                *bytes = rest;
                u64::from(*first) % bound
            }
        }
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}
