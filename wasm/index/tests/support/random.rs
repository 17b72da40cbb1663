//! Random choices that a seed, or the bytes of a fuzzer, determine.

/// SplitMix64 (Steele, Lea and Flood, 2014), after the choices of a fuzzer.
pub struct Random {
    state: u64,
    /// The first choices, two bytes each, the last one first.
    bytes: Vec<u8>,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Random { state: seed, bytes: Vec::new() }
    }

    /// Returns choices that `bytes` determine, followed by those of seed 0.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Random { state: 0, bytes: bytes.iter().rev().copied().collect() }
    }

    /// Returns whether the bytes of the fuzzer are consumed.
    pub fn is_spent(&self) -> bool {
        self.bytes.len() < 2
    }

    pub fn next(&mut self) -> u64 {
        if let [.., second, first] = self.bytes[..] {
            self.bytes.truncate(self.bytes.len() - 2);
            return u16::from_le_bytes([first, second]).into();
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Up to `most` values.
    pub fn several<T>(&mut self, most: usize, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| value(self)).collect()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
