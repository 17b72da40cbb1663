//! Quantiles of numbers, with a relative error of at most 1 % of the number at that quantile.
//!
//! The sketch counts numbers in buckets, as DDSketch does (Masson, Rim and Lee, 2019). Its buckets are 50 equal parts of each power
//! of two. So the bucket of a number follows from the bits of the float, without a logarithm, and is the same on every machine. A
//! bucket's estimate is at most 1/101 from each number in it.
//!
//! Positive and negative numbers have buckets of their own, and zero has a counter, which also counts numbers below 2^-1022. Each
//! sign has at most 2,048 buckets in a row, 40 powers of two or 12 decades. Numbers of smaller magnitude count in the least of these
//! buckets. Which buckets are kept depends only on the greatest number, so the sketch of a merge is that of all numbers.
//!
//! A row of counters has 16 bits each while it counts fewer than 65,536 numbers, and then 64 bits.

use crate::error::Error;
use crate::sketch::codec::{put, Input, MAX_INTEGER_BYTES};
use crate::sketch::{ensure, request};

/// The buckets of a power of two.
const PARTS: u64 = 50;
/// The bits of a float's fraction.
const FRACTION_BITS: u32 = 52;
/// The exponents of floats.
const EXPONENTS: u64 = 2047;
/// The maximum number of buckets of a row.
const MAX_BUCKETS: usize = 2048;
/// A row begins and ends at a multiple of this number, so that it seldom grows.
const BLOCK: usize = 16;

/// A sketch of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantiles {
    zeros: u64,
    positive: Row,
    negative: Row,
    /// The least and the greatest number, if there is one.
    range: Option<(f64, f64)>,
}

/// Returns the bucket of a magnitude, or `None` if it counts as zero.
#[inline]
fn bucket(magnitude: f64) -> Option<usize> {
    let bits = magnitude.to_bits();
    let exponent = bits >> FRACTION_BITS;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    (exponent > 0).then(|| (exponent * PARTS + ((fraction * PARTS) >> FRACTION_BITS)) as usize)
}

/// Returns a number whose relative distance from each number of a bucket is at most 1/101: twice the product of the bounds, divided
/// by their sum.
fn estimate(bucket: usize) -> f64 {
    let (exponent, part) = (bucket as u64 / PARTS, (bucket as u64 % PARTS) as f64);
    let power = f64::from_bits(exponent << FRACTION_BITS);
    let parts = PARTS as f64;
    power * (2.0 * (parts + part) * (parts + part + 1.0) / (parts * (2.0 * (parts + part) + 1.0)))
}

impl Quantiles {
    /// Returns the number of all numbers.
    pub fn count(&self) -> u64 {
        self.zeros.saturating_add(self.positive.total).saturating_add(self.negative.total)
    }

    /// Returns the least and the greatest number, if there is one.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.range
    }

    /// Returns the number at a quantile from 0 to 1, if there is one.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let (min, max) = self.range?;
        let rank = (quantile * (self.count() - 1) as f64) as u64;
        let found = if rank < self.negative.total {
            -estimate(self.negative.at_rank(self.negative.total - 1 - rank))
        } else if rank - self.negative.total < self.zeros {
            0.0
        } else {
            let rank = rank - self.negative.total - self.zeros;
            estimate(self.positive.at_rank(rank.min(self.positive.total.saturating_sub(1))))
        };
        Some(found.clamp(min, max))
    }

    /// Returns an upper bound of the bytes that inserting `numbers` requests.
    pub fn growth(&self, numbers: impl Iterator<Item = f64>) -> usize {
        let [positive, negative] = spans(numbers);
        self.positive.growth(positive) + self.negative.growth(negative)
    }

    /// Requests memory for `numbers` at once. One insertion needs no reserve.
    pub fn reserve(&mut self, numbers: impl Iterator<Item = f64>) {
        let [positive, negative] = spans(numbers);
        self.positive.reserve(positive);
        self.negative.reserve(negative);
    }

    /// Counts a number.
    pub fn insert(&mut self, number: f64) {
        let (min, max) = self.range.unwrap_or((number, number));
        self.range = Some((min.min(number), max.max(number)));
        match bucket(number.abs()) {
            None => self.zeros = self.zeros.saturating_add(1),
            Some(bucket) if number > 0.0 => self.positive.add(bucket, 1),
            Some(bucket) => self.negative.add(bucket, 1),
        }
    }

    /// Returns an upper bound of the bytes that [`Quantiles::merge`] requests.
    pub fn merge_growth(&self, other: &Quantiles) -> usize {
        self.positive.growth(other.positive.span()) + self.negative.growth(other.negative.span())
    }

    /// Counts the numbers of another sketch.
    pub fn merge(&mut self, other: &Quantiles) {
        self.zeros = self.zeros.saturating_add(other.zeros);
        self.positive.merge(&other.positive);
        self.negative.merge(&other.negative);
        self.range = match (self.range, other.range) {
            (Some((min, max)), Some((least, greatest))) => Some((min.min(least), max.max(greatest))),
            (mine, theirs) => mine.or(theirs),
        };
    }

    /// Returns an upper bound of the encoded bytes.
    pub fn max_encoded_bytes(&self) -> usize {
        MAX_INTEGER_BYTES + 17 + self.positive.max_encoded_bytes() + self.negative.max_encoded_bytes()
    }

    /// Appends the number of zeros, both rows, and the least and the greatest number if there is one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.zeros);
        self.positive.encode(out);
        self.negative.encode(out);
        if let Some((min, max)) = self.range {
            [min, max].iter().for_each(|bound| out.extend(bound.to_le_bytes()));
        }
    }

    /// Reads an encoded sketch. Errors: malformed bytes; no memory.
    pub fn decode(input: &mut Input) -> Result<Self, Error> {
        let zeros = input.integer()?;
        let (positive, negative) = (Row::decode(input)?, Row::decode(input)?);
        let mut quantiles = Quantiles { zeros, positive, negative, range: None };
        if quantiles.count() > 0 {
            let (min, max) = (input.float()?, input.float()?);
            if min > max {
                return Err(input.malformed("the least number exceeds the greatest"));
            }
            quantiles.range = Some((min, max));
        }
        Ok(quantiles)
    }

    /// Returns the bytes of both rows.
    pub fn bytes(&self) -> usize {
        self.positive.counts.bytes() + self.negative.counts.bytes()
    }
}

/// The buckets that numbers need, from the first one to before the end, and the number of numbers. The end of no buckets is 0.
#[derive(Clone, Copy, Debug, Default)]
struct BucketSpan {
    first: usize,
    end: usize,
    count: u64,
}

/// Returns the buckets of the positive and of the negative numbers.
fn spans(numbers: impl Iterator<Item = f64>) -> [BucketSpan; 2] {
    let mut spans = [BucketSpan::default(); 2];
    for number in numbers {
        if let Some(bucket) = bucket(number.abs()) {
            let span = &mut spans[usize::from(number < 0.0)];
            *span = span.with(BucketSpan { first: bucket, end: bucket + 1, count: 1 });
        }
    }
    spans
}

impl BucketSpan {
    fn with(self, other: BucketSpan) -> BucketSpan {
        let first = match (self.end, other.end) {
            (_, 0) => self.first,
            (0, _) => other.first,
            _ => self.first.min(other.first),
        };
        BucketSpan { first, end: self.end.max(other.end), count: self.count.saturating_add(other.count) }
    }

    /// Returns the first bucket of the row for this span, and the number of its buckets.
    fn row(self) -> (usize, usize) {
        let end = self.end.next_multiple_of(BLOCK);
        let first = (self.first / BLOCK * BLOCK).max(end.saturating_sub(MAX_BUCKETS));
        (first, end - first)
    }
}

/// A row of counters for buckets of one sign.
#[derive(Clone, Debug, Default)]
struct Row {
    /// The bucket of the first counter.
    first: usize,
    counts: Counts,
    /// The sum of all counters.
    total: u64,
}

impl Row {
    fn span(&self) -> BucketSpan {
        let end = if self.counts.len() == 0 { 0 } else { self.first + self.counts.len() };
        BucketSpan { first: self.first, end, count: self.total }
    }

    /// Returns whether the row has these buckets, and its counters have room for as many numbers.
    #[inline]
    fn has_room(&self, more: BucketSpan) -> bool {
        let end = self.first + self.counts.len();
        more.end == 0
            || more.first >= self.first
                && more.end <= end
                && !self.counts.must_widen(self.total.saturating_add(more.count))
    }

    #[inline]
    fn growth(&self, more: BucketSpan) -> usize {
        if self.has_room(more) {
            return 0;
        }
        let all = self.span().with(more);
        let (first, len) = all.row();
        if (first, len) == (self.first, self.counts.len()) && !self.counts.must_widen(all.count) {
            return 0;
        }
        Counts::growth(len, all.count)
    }

    #[inline]
    fn reserve(&mut self, more: BucketSpan) {
        if !self.has_room(more) {
            self.resize(more);
        }
    }

    fn resize(&mut self, more: BucketSpan) {
        let all = self.span().with(more);
        let (first, len) = all.row();
        if (first, len) == (self.first, self.counts.len()) && !self.counts.must_widen(all.count) {
            return;
        }
        let before = std::mem::replace(&mut self.counts, Counts::new(len, all.count));
        for position in 0..before.len() {
            let bucket = (self.first + position).max(first);
            self.counts.add(bucket - first, before.get(position));
        }
        self.first = first;
    }

    #[inline]
    fn add(&mut self, bucket: usize, count: u64) {
        self.reserve(BucketSpan { first: bucket, end: bucket + 1, count });
        self.counts.add(bucket.max(self.first) - self.first, count);
        self.total = self.total.saturating_add(count);
    }

    fn merge(&mut self, other: &Row) {
        self.reserve(other.span());
        for position in 0..other.counts.len() {
            let bucket = (other.first + position).max(self.first);
            self.counts.add(bucket - self.first, other.counts.get(position));
        }
        self.total = self.total.saturating_add(other.total);
    }

    /// Returns the bucket of the number with this rank, counted from the least magnitude.
    fn at_rank(&self, rank: u64) -> usize {
        let mut before = 0_u64;
        for position in 0..self.counts.len() {
            before = before.saturating_add(self.counts.get(position));
            if before > rank {
                return self.first + position;
            }
        }
        self.first + self.counts.len().saturating_sub(1)
    }

    fn max_encoded_bytes(&self) -> usize {
        MAX_INTEGER_BYTES * (2 + 2 * self.counts.len())
    }

    /// Appends the number of full buckets, and each one's distance from the last and its count.
    fn encode(&self, out: &mut Vec<u8>) {
        let full = || (0..self.counts.len()).filter(|&position| self.counts.get(position) > 0);
        put(out, full().count() as u64);
        let mut last = 0;
        for position in full() {
            let bucket = self.first + position;
            put(out, (bucket - last) as u64);
            put(out, self.counts.get(position));
            last = bucket;
        }
    }

    fn decode(input: &mut Input) -> Result<Self, Error> {
        let count = input.count(2)?;
        let mut ahead = input.clone();
        let mut span = BucketSpan::default();
        let mut bucket = 0;
        for _ in 0..count {
            let distance = ahead.at_most(PARTS * EXPONENTS, "the distance of buckets")? as usize;
            bucket += distance;
            let count = ahead.integer()?;
            if distance == 0 || count == 0 || !(PARTS..PARTS * EXPONENTS).contains(&(bucket as u64)) {
                return Err(ahead.malformed("buckets do not ascend, or are empty"));
            }
            span = span.with(BucketSpan { first: bucket, end: bucket + 1, count });
        }
        let mut row = Row::default();
        ensure(row.growth(span))?;
        row.reserve(span);
        bucket = 0;
        for _ in 0..count {
            bucket += input.integer()? as usize;
            row.add(bucket, input.integer()?);
        }
        Ok(row)
    }
}

/// Counters of 16 bits while their sum fits, and then of 64 bits.
#[derive(Clone, Debug)]
enum Counts {
    Narrow(Vec<u16>),
    Wide(Vec<u64>),
}

impl Default for Counts {
    fn default() -> Self {
        Counts::Narrow(Vec::new())
    }
}

impl Counts {
    fn new(len: usize, total: u64) -> Self {
        match total > u16::MAX.into() {
            true => Counts::Wide(vec![0; len]),
            false => Counts::Narrow(vec![0; len]),
        }
    }

    fn growth(len: usize, total: u64) -> usize {
        match total > u16::MAX.into() {
            true => request::<u64>(len),
            false => request::<u16>(len),
        }
    }

    fn must_widen(&self, total: u64) -> bool {
        matches!(self, Counts::Narrow(_)) && total > u16::MAX.into()
    }

    fn len(&self) -> usize {
        match self {
            Counts::Narrow(counts) => counts.len(),
            Counts::Wide(counts) => counts.len(),
        }
    }

    fn get(&self, position: usize) -> u64 {
        match self {
            Counts::Narrow(counts) => counts[position].into(),
            Counts::Wide(counts) => counts[position],
        }
    }

    #[inline]
    fn add(&mut self, position: usize, count: u64) {
        match self {
            Counts::Narrow(counts) => counts[position] += count as u16,
            Counts::Wide(counts) => counts[position] = counts[position].saturating_add(count),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Counts::Narrow(counts) => counts.capacity() * size_of::<u16>(),
            Counts::Wide(counts) => counts.capacity() * size_of::<u64>(),
        }
    }
}
