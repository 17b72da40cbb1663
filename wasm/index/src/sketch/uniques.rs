//! The number of distinct values: exact up to 500, then estimated by HyperLogLog.
//!
//! **Exact.** A sorted table with gaps has the 64-bit hashes. A hash belongs to the slot that its upper bits choose in proportion,
//! so slots ascend with hashes. It is in that slot, or in the run of full slots around it. An insertion moves the end of a run to
//! the next empty slot. So a look-up compares a few neighboring words, the table has no other parts, and reading it in order needs
//! no sorting.
//!
//! **Dense.** HyperLogLog with 4,096 registers of 6 bits: 3,072 bytes. A group of 64 registers is six words. Each of them has one
//! bit of every register. So merging two sketches takes the maximum of 64 registers at once. The estimator is that of Ertl ("New
//! cardinality estimation algorithms for HyperLogLog sketches", 2017), which needs no correction tables and has no bias at any
//! size. Its standard error is 1.62 %, after merges too.

use crate::error::Error;
use crate::sketch::codec::{put, Input, MAX_INTEGER_BYTES};
use crate::sketch::{ensure, request};

/// The maximum number of values that are counted exactly.
pub(crate) const MAX_EXACT: usize = 500;
/// The bits of a hash that choose a register.
const REGISTER_BITS: u32 = 12;
const REGISTERS: usize = 1 << REGISTER_BITS;
/// The bits of a register.
const PLANES: usize = 6;
/// The registers of a group, one for each bit of a word.
const GROUP: usize = 64;
/// The words of all registers.
const DENSE_WORDS: usize = REGISTERS / GROUP * PLANES;
/// The greatest value of a register.
const MAX_RANK: usize = 64 - REGISTER_BITS as usize + 1;
/// The least number of slots of a table.
const MIN_SLOTS: usize = 4;

/// A set of hashes: a sorted table with gaps, or registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uniques {
    /// The slots of the table, 0 if empty. Or the groups of registers.
    words: Vec<u64>,
    /// The number of hashes in the table, or [`Uniques::DENSE`].
    len: u16,
}

impl Uniques {
    const DENSE: u16 = u16::MAX;

    fn is_dense(&self) -> bool {
        self.len == Self::DENSE
    }

    /// Returns whether the count is exact.
    pub fn is_exact(&self) -> bool {
        !self.is_dense()
    }

    /// Returns an upper bound of the bytes that `more` insertions request.
    #[inline]
    pub fn growth(&self, more: usize) -> usize {
        if self.is_dense() {
            return 0;
        }
        let len = usize::from(self.len) + more;
        let mut bytes = 0;
        if len.min(MAX_EXACT) > max_len(self.words.len()) {
            bytes += request::<u64>(slots_for(len.min(MAX_EXACT)));
        }
        if len > MAX_EXACT {
            bytes += request::<u64>(DENSE_WORDS);
        }
        bytes
    }

    /// Requests memory for `more` hashes at once. One insertion needs no reserve.
    pub fn reserve(&mut self, more: usize) {
        if !self.is_dense() {
            let len = (usize::from(self.len) + more).min(MAX_EXACT);
            if len > max_len(self.words.len()) {
                self.resize(slots_for(len));
            }
        }
    }

    /// Adds a hash. It is not 0.
    #[inline]
    pub fn insert(&mut self, hash: u64) {
        if self.is_dense() {
            return self.raise(hash);
        }
        if !self.words.is_empty() {
            match find(&self.words, hash) {
                Ok(_) => return,
                Err(at) if usize::from(self.len) < max_len(self.words.len()) => {
                    self.len += 1;
                    return place(&mut self.words, at, hash);
                }
                Err(_) => {}
            }
        }
        self.insert_into_full(hash);
    }

    #[cold]
    fn insert_into_full(&mut self, hash: u64) {
        let len = usize::from(self.len) + 1;
        if len > MAX_EXACT {
            self.make_dense();
        } else {
            self.resize(slots_for(len));
        }
        self.insert(hash);
    }

    /// Moves the hashes to a table of `slots` slots, in their order: each to its own slot, to the next one after the last hash, or so
    /// far left that the hashes behind it fit.
    fn resize(&mut self, slots: usize) {
        let before = std::mem::replace(&mut self.words, vec![0; slots]);
        let (mut next, mut left) = (0, usize::from(self.len));
        for hash in before.into_iter().filter(|&hash| hash != 0) {
            let at = home(hash, slots).max(next).min(slots - left);
            self.words[at] = hash;
            next = at + 1;
            left -= 1;
        }
    }

    fn make_dense(&mut self) {
        let before = std::mem::replace(&mut self.words, vec![0; DENSE_WORDS]);
        self.len = Self::DENSE;
        before.into_iter().filter(|&hash| hash != 0).for_each(|hash| self.raise(hash));
    }

    /// Raises the register of a hash to the position of the first 1 after the register's bits.
    #[inline]
    fn raise(&mut self, hash: u64) {
        let register = (hash >> (64 - REGISTER_BITS)) as usize;
        let rank = ((hash << REGISTER_BITS).leading_zeros() as usize + 1).min(MAX_RANK) as u64;
        let group = &mut self.words[register / GROUP * PLANES..][..PLANES];
        let bit = register % GROUP;
        let present = (0..PLANES).fold(0, |value, plane| value | (group[plane] >> bit & 1) << plane);
        if rank > present {
            for (plane, word) in group.iter_mut().enumerate() {
                *word = *word & !(1 << bit) | (rank >> plane & 1) << bit;
            }
        }
    }

    /// Returns the hashes in ascending order. A dense sketch has none.
    fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        let words = if self.is_dense() { &[][..] } else { &self.words };
        words.iter().copied().filter(|&hash| hash != 0)
    }

    /// Returns an upper bound of the bytes that [`Uniques::merge`] requests.
    pub fn merge_growth(&self, other: &Uniques) -> usize {
        match other.is_dense() {
            true if self.is_dense() => 0,
            true => request::<u64>(DENSE_WORDS),
            false => self.growth(other.len.into()),
        }
    }

    /// Adds all hashes of another set.
    pub fn merge(&mut self, other: &Uniques) {
        if !other.is_dense() {
            self.reserve(other.len.into());
            return other.hashes().for_each(|hash| self.insert(hash));
        }
        if !self.is_dense() {
            self.make_dense();
        }
        for (mine, theirs) in self.words.chunks_exact_mut(PLANES).zip(other.words.chunks_exact(PLANES)) {
            // The bits of those registers that are greater here, found from the highest plane down.
            let (mut greater, mut equal) = (0, u64::MAX);
            for plane in (0..PLANES).rev() {
                greater |= equal & mine[plane] & !theirs[plane];
                equal &= !(mine[plane] ^ theirs[plane]);
            }
            for plane in 0..PLANES {
                mine[plane] = mine[plane] & greater | theirs[plane] & !greater;
            }
        }
    }

    /// Returns the number of distinct values, exact or estimated.
    pub fn estimate(&self) -> u64 {
        if !self.is_dense() {
            return self.len.into();
        }
        let counts = self.histogram();
        let registers = REGISTERS as f64;
        let mut sum = registers * tau(1.0 - f64::from(counts[MAX_RANK]) / registers);
        for rank in (1..MAX_RANK).rev() {
            sum = 0.5 * (sum + f64::from(counts[rank]));
        }
        sum += registers * sigma(f64::from(counts[0]) / registers);
        (registers * registers / (2.0 * std::f64::consts::LN_2 * sum)).round() as u64
    }

    /// Returns the number of registers of each value.
    fn histogram(&self) -> [u32; MAX_RANK + 1] {
        let mut counts = [0; MAX_RANK + 1];
        for group in self.words.chunks_exact(PLANES) {
            count_registers(group, u64::MAX, 0, &mut counts);
        }
        counts
    }

    /// Returns an upper bound of the encoded bytes.
    pub fn max_encoded_bytes(&self) -> usize {
        MAX_INTEGER_BYTES + size_of::<u64>() * if self.is_dense() { DENSE_WORDS } else { self.len.into() }
    }

    /// Appends the number of hashes and the hashes in ascending order, or the mark of a dense sketch and its registers.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.len.into());
        if self.is_dense() {
            self.words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        } else {
            self.hashes().for_each(|hash| out.extend(hash.to_le_bytes()));
        }
    }

    /// Reads an encoded sketch. Errors: malformed bytes; no memory.
    pub fn decode(input: &mut Input) -> Result<Self, Error> {
        let len = input.integer()?;
        if len == Self::DENSE.into() {
            return Self::decode_dense(input);
        }
        let mut uniques = Uniques::default();
        let count = usize::try_from(len).ok().filter(|&count| count <= MAX_EXACT);
        let Some(count) = count else {
            return Err(input.malformed(&format!("{len} hashes, but at most {MAX_EXACT}")));
        };
        ensure(uniques.growth(count))?;
        uniques.reserve(count);
        let mut last = 0;
        for _ in 0..count {
            let hash = input.word()?;
            if hash <= last {
                return Err(input.malformed("hashes do not ascend"));
            }
            uniques.insert(hash);
            last = hash;
        }
        Ok(uniques)
    }

    fn decode_dense(input: &mut Input) -> Result<Self, Error> {
        ensure(request::<u64>(DENSE_WORDS))?;
        let mut uniques = Uniques { words: vec![0; DENSE_WORDS], len: Self::DENSE };
        for word in &mut uniques.words {
            *word = input.word()?;
        }
        for group in uniques.words.chunks_exact(PLANES) {
            // The values above 53 have the three highest bits, and one of the bits 1 and 0 ... 54 = 110110.
            let above = group[5] & group[4] & (group[3] | group[2] & group[1]);
            if above != 0 {
                return Err(input.malformed(&format!("a register exceeds {MAX_RANK}")));
            }
        }
        Ok(uniques)
    }

    /// Returns the bytes of the table.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

/// Returns the number of hashes that a table of `slots` slots may hold: seven eighths.
fn max_len(slots: usize) -> usize {
    slots * 7 / 8
}

/// Returns the number of slots for `len` hashes and half as many more.
fn slots_for(len: usize) -> usize {
    let most = (MAX_EXACT * 8).div_ceil(7);
    (len * 12).div_ceil(7).clamp(MIN_SLOTS, most)
}

/// Returns the slot to which a hash belongs.
#[inline]
fn home(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

/// Returns the position of `hash` in a table that has an empty slot, or the position at which it must be inserted.
#[inline]
fn find(words: &[u64], hash: u64) -> Result<usize, usize> {
    let mut at = home(hash, words.len());
    let first = words[at];
    if first == hash {
        return Ok(at);
    }
    if first == 0 {
        return Err(at);
    }
    if first < hash {
        loop {
            at += 1;
            match words.get(at) {
                Some(&word) if word == hash => return Ok(at),
                Some(&word) if word != 0 && word < hash => {}
                _ => return Err(at),
            }
        }
    }
    while at > 0 && words[at - 1] >= hash {
        at -= 1;
        if words[at] == hash {
            return Ok(at);
        }
    }
    Err(at)
}

/// Inserts a hash before the slot `at` of a table that has an empty slot: the rest of the run moves right, or its beginning left if
/// the run ends with the table.
#[inline]
fn place(words: &mut [u64], at: usize, hash: u64) {
    let mut carried = hash;
    for word in &mut words[at..] {
        std::mem::swap(word, &mut carried);
        if carried == 0 {
            return;
        }
    }
    // The last hash has no slot. All words from here to the end move left.
    for word in words.iter_mut().rev() {
        std::mem::swap(word, &mut carried);
        if carried == 0 {
            return;
        }
    }
}

/// Counts the registers of a group that are in the set `registers`, and whose upper bits are `value`, by their lower bits.
fn count_registers(lower: &[u64], registers: u64, value: usize, counts: &mut [u32; MAX_RANK + 1]) {
    match lower.split_last() {
        _ if registers == 0 => {}
        None => counts[value] += registers.count_ones(),
        Some((plane, lower)) => {
            count_registers(lower, registers & !plane, 2 * value, counts);
            count_registers(lower, registers & plane, 2 * value + 1, counts);
        }
    }
}

/// Ertl's sigma: the contribution of registers that are 0.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// Ertl's tau: the contribution of registers that have the greatest value.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
