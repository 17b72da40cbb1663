//! The most frequent values, by the space-saving algorithm (Metwally, Agrawal and El Abbadi, 2005).
//!
//! There are four counters for each of the `k` values that are asked for. While all distinct values have a counter, every count is
//! exact. Then a new value takes over the smallest counter, and its count may be too great by that counter's count: the error. So a
//! value's true number lies between the count without the error and the count. No value without a counter is more frequent than
//! `floor`, which is at most the number of all values divided by the number of counters.
//!
//! A merge adds the counts of both sketches. A value without a counter in one of them counts there with its floor, which is added to
//! the error. Then the greatest counts are kept (Agarwal et al., "Mergeable summaries", 2012).

use crate::error::Error;
use crate::sketch::codec::{put, Input, MAX_INTEGER_BYTES};
use crate::sketch::values::{Hashed, Value, Values};
use crate::sketch::{ensure, growth, request};

/// The maximum number of values that are asked for.
pub(crate) const MAX_K: u16 = 100;
/// The counters for each value that is asked for.
const COUNTERS: usize = 4;

/// Counters of frequent values.
#[derive(Clone, Debug)]
pub(crate) struct Top {
    k: u16,
    /// The number of all values.
    total: u64,
    /// An upper bound of the number of each value without a counter.
    floor: u64,
    values: Values,
    counts: Vec<u64>,
    errors: Vec<u64>,
    /// The position at which the next search for the smallest counter begins.
    cursor: usize,
}

impl Top {
    pub fn new(k: u16) -> Self {
        Top { k, total: 0, floor: 0, values: Values::default(), counts: Vec::new(), errors: Vec::new(), cursor: 0 }
    }

    fn counters(&self) -> usize {
        COUNTERS * usize::from(self.k)
    }

    /// Returns the number of all values.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns each frequent value with its count and the error of the count, the most frequent first.
    pub fn frequent(&self) -> Result<Vec<(&Value, u64, u64)>, Error> {
        ensure(request::<(&Value, u64, u64)>(self.counts.len()))?;
        let mut found: Vec<_> = (0..self.counts.len())
            .map(|position| (self.values.get(position), self.counts[position], self.errors[position]))
            .collect();
        found.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.2.cmp(&b.2)).then(a.0.cmp(b.0)));
        found.truncate(self.k.into());
        Ok(found)
    }

    /// Returns an upper bound of the bytes that inserting `values` requests.
    pub fn growth<'a>(&self, values: impl Iterator<Item = Hashed<'a>>) -> usize {
        let (mut all, mut new, mut bytes, mut new_bytes) = (0, 0, 0, 0);
        for value in values {
            all += 1;
            bytes += value.value.growth();
            if self.lacks(value) {
                new += 1;
                new_bytes += value.value.growth();
            }
        }
        // One value of several may take over the counter of the next one.
        let bytes = if all > 1 { bytes } else { new_bytes };
        bytes + self.tables_growth(new.min(self.counters() - self.counts.len()))
    }

    fn tables_growth(&self, more: usize) -> usize {
        self.values.growth(more) + growth(&self.counts, more) + growth(&self.errors, more)
    }

    /// Returns whether a value has no counter.
    pub fn lacks(&self, value: Hashed) -> bool {
        self.values.find(value).is_none()
    }

    /// Requests memory for `more` values at once. One insertion needs no reserve.
    pub fn reserve(&mut self, more: usize) {
        self.reserve_counters(more.min(self.counters() - self.counts.len()));
    }

    fn reserve_counters(&mut self, more: usize) {
        self.values.reserve(more);
        self.counts.reserve(more);
        self.errors.reserve(more);
    }

    /// Counts a value.
    pub fn insert(&mut self, value: Hashed) {
        self.total = self.total.saturating_add(1);
        if let Some(position) = self.values.find(value) {
            self.counts[position] = self.counts[position].saturating_add(1);
        } else if self.counts.len() < self.counters() {
            self.push(value, self.floor.saturating_add(1), self.floor);
        } else {
            let smallest = self.smallest();
            let count = self.counts[smallest];
            self.floor = count;
            self.values.replace(smallest, value);
            self.errors[smallest] = count;
            self.counts[smallest] = count.saturating_add(1);
        }
    }

    fn push(&mut self, value: Hashed, count: u64, error: u64) {
        self.values.push(value);
        self.counts.push(count);
        self.errors.push(error);
    }

    /// Returns the position of a counter with the least count. No count is below the floor, and counts only grow. So one pass over
    /// the counters finds all those that are at the floor, before the floor must rise.
    fn smallest(&mut self) -> usize {
        let mut smallest = self.cursor % self.counts.len();
        for step in 0..self.counts.len() {
            let position = (self.cursor + step) % self.counts.len();
            if self.counts[position] < self.counts[smallest] {
                smallest = position;
            }
            if self.counts[smallest] <= self.floor {
                break;
            }
        }
        self.cursor = smallest + 1;
        smallest
    }

    /// Returns an upper bound of the bytes that [`Top::merge`] requests.
    pub fn merge_growth(&self, other: &Top) -> usize {
        let all = self.counts.len() + other.counts.len();
        self.tables_growth(other.counts.len())
            + other.values.copy_growth()
            + request::<u32>(all)
            + 4 * request::<Value>(all)
    }

    /// Adds the values of another sketch. The larger `k` counts.
    pub fn merge(&mut self, other: &Top) {
        let mine = self.counts.len();
        self.reserve_counters(other.counts.len());
        self.k = self.k.max(other.k);
        self.total = self.total.saturating_add(other.total);
        for position in 0..mine {
            let found = other.values.find(self.values.hashed(position));
            let (count, error) = found.map_or((other.floor, other.floor), |at| (other.counts[at], other.errors[at]));
            self.counts[position] = self.counts[position].saturating_add(count);
            self.errors[position] = self.errors[position].saturating_add(error);
        }
        for position in 0..other.counts.len() {
            let value = other.values.hashed(position);
            if self.values.find(value).is_none() {
                let count = other.counts[position].saturating_add(self.floor);
                self.push(value, count, other.errors[position].saturating_add(self.floor));
            }
        }
        self.floor = self.floor.saturating_add(other.floor);
        self.keep_greatest();
    }

    /// Drops the smallest counters if there are too many.
    fn keep_greatest(&mut self) {
        let counters = self.counters();
        if self.counts.len() <= counters {
            return;
        }
        let mut order: Vec<u32> = (0..self.counts.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| {
            let [a, b] = [a, b].map(|position| position as usize);
            let by_value = || self.values.get(a).cmp(self.values.get(b));
            self.counts[b].cmp(&self.counts[a]).then(self.errors[a].cmp(&self.errors[b])).then_with(by_value)
        });
        self.floor = self.floor.max(self.counts[order[counters] as usize]);
        order.truncate(counters);
        let pick = |table: &[u64]| order.iter().map(|&position| table[position as usize]).collect();
        (self.counts, self.errors) = (pick(&self.counts), pick(&self.errors));
        self.values.keep(&order);
        self.cursor = 0;
    }

    /// Returns an upper bound of the encoded bytes.
    pub fn max_encoded_bytes(&self) -> usize {
        MAX_INTEGER_BYTES * (4 + 2 * self.counts.len()) + self.values.max_encoded_bytes()
    }

    /// Appends `k`, the total, the floor, and each value with its count and error.
    pub fn encode(&self, out: &mut Vec<u8>) {
        [self.k.into(), self.total, self.floor, self.counts.len() as u64].into_iter().for_each(|field| put(out, field));
        for position in 0..self.counts.len() {
            self.values.encode(position, out);
            put(out, self.counts[position]);
            put(out, self.errors[position]);
        }
    }

    /// Reads an encoded sketch. Errors: malformed bytes; no memory.
    pub fn decode(input: &mut Input) -> Result<Self, Error> {
        let mut top = Top::new(input.at_most(MAX_K.into(), "the number of frequent values")? as u16);
        top.total = input.integer()?;
        top.floor = input.integer()?;
        let count = input.count(4)?;
        if count > top.counters() {
            return Err(input.malformed("there are too many counters"));
        }
        ensure(top.tables_growth(count))?;
        top.reserve_counters(count);
        for _ in 0..count {
            top.values.decode(input)?;
            let (count, error) = (input.integer()?, input.integer()?);
            if count == 0 || count < top.floor || error > count {
                return Err(input.malformed("a counter contradicts the others"));
            }
            top.counts.push(count);
            top.errors.push(error);
        }
        Ok(top)
    }

    /// Returns the bytes that a copy requests, apart from the sketch itself.
    pub fn copy_growth(&self) -> usize {
        self.values.copy_growth() + 2 * request::<u64>(self.counts.len())
    }

    /// Returns the bytes of the counters.
    pub fn bytes(&self) -> usize {
        self.values.bytes() + (self.counts.capacity() + self.errors.capacity()) * size_of::<u64>()
    }
}
