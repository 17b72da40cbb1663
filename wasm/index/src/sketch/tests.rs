//! Sketches against exact counts and, natively, against the crate datasketches.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::codec::Input;
use super::members::Members;
use super::moments::{Moments, Number};
use super::quantiles::Quantiles;
use super::top::Top;
use super::uniques::{Uniques, MAX_EXACT};
use super::values::{Borrowed, Hashed, Value};
use super::*;
use crate::oracle::random::Random;

/// Checks that a sketch is read back from its bytes, and from no part of them. Returns the bytes.
fn round_trip<T>(
    encode: impl Fn(&T, &mut Vec<u8>),
    decode: fn(&mut Input) -> Result<T, crate::error::Error>,
    sketch: &T,
) -> Vec<u8> {
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    encode(sketch, &mut bytes);
    let mut input = Input::new(&bytes);
    let decoded = decode(&mut input).unwrap();
    input.finish().unwrap();
    encode(&decoded, &mut again);
    assert_eq!(again, bytes);
    for length in (0..bytes.len()).step_by(1 + bytes.len() / 50) {
        assert!(decode(&mut Input::new(&bytes[..length])).is_err(), "{length} of {} bytes", bytes.len());
    }
    bytes
}

fn uniques_of(hashes: impl IntoIterator<Item = u64>) -> Uniques {
    let mut uniques = Uniques::default();
    hashes.into_iter().for_each(|hash| uniques.insert(hash));
    uniques
}

fn encoded(uniques: &Uniques) -> Vec<u8> {
    round_trip(Uniques::encode, Uniques::decode, uniques)
}

/// Hashes as of real values, or crowded at both ends of the range.
fn hash() -> impl Strategy<Value = u64> {
    let ends = (any::<bool>(), 1..300_u64).prop_map(|(high, near)| if high { u64::MAX - near } else { near });
    prop_oneof![4 => any::<u64>().prop_map(|hash| hash.max(1)), 1 => ends]
}

proptest! {
    #[test]
    fn distinct_hashes_are_counted_exactly_up_to_the_bound(hashes in prop::collection::vec(hash(), 0..700)) {
        let distinct: BTreeSet<u64> = hashes.iter().copied().collect();
        let uniques = uniques_of(hashes.iter().copied().chain(hashes.iter().copied()));
        prop_assert_eq!(uniques.is_exact(), distinct.len() <= MAX_EXACT);
        if uniques.is_exact() {
            prop_assert_eq!(uniques.estimate(), distinct.len() as u64);
            let mut expected = Vec::new();
            codec::put(&mut expected, distinct.len() as u64);
            distinct.iter().for_each(|hash| expected.extend(hash.to_le_bytes()));
            prop_assert_eq!(encoded(&uniques), expected);
        } else {
            encoded(&uniques);
        }
    }

    #[test]
    fn merges_of_uniques_in_any_order_are_the_sketch_of_all_values(
        parts in prop::collection::vec(prop::collection::vec(hash(), 0..400), 1..5),
    ) {
        let all = encoded(&uniques_of(parts.iter().flatten().copied()));
        let sketches: Vec<Uniques> = parts.into_iter().map(uniques_of).collect();
        let mut forwards = Uniques::default();
        sketches.iter().for_each(|sketch| forwards.merge(sketch));
        let mut backwards = Uniques::default();
        for sketch in sketches.iter().rev() {
            let mut sketch = sketch.clone();
            sketch.merge(&backwards);
            backwards = sketch;
        }
        prop_assert_eq!(encoded(&forwards), all.clone());
        prop_assert_eq!(encoded(&backwards), all);
    }

    #[test]
    fn moments_are_those_of_all_numbers(
        numbers in prop::collection::vec(prop_oneof![any::<i64>(), -9..9_i64], 1..50),
        split in any::<prop::sample::Index>(),
    ) {
        let of = |numbers: &[i64]| {
            let mut numbers = numbers.iter().map(|&number| Number::Integer(number));
            let mut moments = Moments::of(numbers.next()?);
            numbers.for_each(|number| moments.insert(number));
            Some(moments)
        };
        let sum = numbers.iter().map(|&number| i128::from(number)).sum();
        let (min, max) = (*numbers.iter().min().unwrap(), *numbers.iter().max().unwrap());
        let expected = Moments::Integers { count: numbers.len() as u64, sum, min, max };
        let (before, after) = numbers.split_at(split.index(numbers.len()));
        let mut merged = of(after).unwrap();
        of(before).iter().for_each(|before| merged.merge(before));
        prop_assert_eq!(&merged, &expected);
        round_trip(Moments::encode, Moments::decode, &merged);
    }

    #[test]
    fn merges_of_quantiles_in_any_order_are_the_sketch_of_all_numbers(
        parts in prop::collection::vec(prop::collection::vec(number(), 0..60), 1..5),
    ) {
        let of = |numbers: &[f64]| {
            let mut quantiles = Quantiles::default();
            numbers.iter().for_each(|&number| quantiles.insert(number));
            quantiles
        };
        let all = round_trip(Quantiles::encode, Quantiles::decode, &of(&parts.concat()));
        let sketches: Vec<Quantiles> = parts.iter().map(|part| of(part)).collect();
        let mut forwards = Quantiles::default();
        sketches.iter().for_each(|sketch| forwards.merge(sketch));
        let mut backwards = Quantiles::default();
        sketches.iter().rev().for_each(|sketch| backwards.merge(sketch));
        for merged in [forwards, backwards] {
            prop_assert_eq!(round_trip(Quantiles::encode, Quantiles::decode, &merged), all.clone());
        }
    }

    #[test]
    fn a_quantile_is_within_one_percent(mut numbers in prop::collection::vec(plain_number(), 1..200), quantile in 0.0..=1.0_f64) {
        let mut quantiles = Quantiles::default();
        numbers.iter().for_each(|&number| quantiles.insert(number));
        numbers.sort_by(f64::total_cmp);
        let expected = numbers[(quantile * (numbers.len() - 1) as f64) as usize];
        let found = quantiles.quantile(quantile).unwrap();
        prop_assert!((found - expected).abs() <= expected.abs() * 0.01, "{} for {}", found, expected);
        prop_assert_eq!(quantiles.count(), numbers.len() as u64);
        prop_assert_eq!(quantiles.range(), Some((numbers[0], numbers[numbers.len() - 1])));
    }

    #[test]
    fn a_set_has_all_values_or_tells_that_there_are_more(
        parts in prop::collection::vec(prop::collection::vec(0..40_i64, 0..30), 1..4),
        bound in 1..45_u16,
    ) {
        let sketches: Vec<Members> = parts.iter().map(|part| {
            let mut members = Members::new(bound);
            part.iter().for_each(|&integer| members.insert(Hashed::new(Borrowed::Integer(integer))));
            members
        }).collect();
        let mut forwards = Members::new(bound);
        sketches.iter().for_each(|sketch| forwards.merge(sketch));
        let distinct: BTreeSet<i64> = parts.concat().into_iter().collect();
        prop_assert_eq!(forwards.has_more(), distinct.len() > bound.into());
        let kept = forwards.sorted().unwrap().into_iter().map(|value| match value {
            Value::Integer(integer) => *integer,
            Value::Bytes(_) => panic!("a string among integers"),
        });
        let kept: BTreeSet<i64> = kept.collect();
        prop_assert_eq!(kept.len(), distinct.len().min(bound.into()));
        prop_assert!(kept.is_subset(&distinct));
        round_trip(Members::encode, Members::decode, &forwards);
    }

    #[test]
    fn counts_of_frequent_values_have_the_stated_error(
        parts in prop::collection::vec(prop::collection::vec(0..200_u32, 0..400), 1..4),
        k in 1..20_u16,
        strings in any::<bool>(),
    ) {
        // Squares prefer small values.
        let name = |value: u32| (value * value / 200).to_string().into_bytes();
        let mut counts: BTreeMap<Value, u64> = BTreeMap::new();
        let mut merged = Top::new(k);
        for part in &parts {
            let mut top = Top::new(k);
            for &value in part {
                let bytes = name(value);
                let value = if strings { Borrowed::Bytes(&bytes) } else { Borrowed::Integer((value * value / 200).into()) };
                top.insert(Hashed::new(value));
                let kept = match value {
                    Borrowed::Bytes(bytes) => Value::Bytes(bytes.into()),
                    Borrowed::Integer(integer) => Value::Integer(integer),
                };
                *counts.entry(kept).or_default() += 1;
            }
            round_trip(Top::encode, Top::decode, &top);
            merged.merge(&top);
        }
        let total: u64 = counts.values().sum();
        prop_assert_eq!(merged.total(), total);
        let found = merged.frequent().unwrap();
        for (value, count, error) in &found {
            let true_count = counts[*value];
            prop_assert!((count - error..=*count).contains(&true_count), "{} to {} for {}", count - error, count, true_count);
        }
        // A value that is not among those found is at most as frequent as the last of them.
        let last = found.last().map_or(0, |(_, count, _)| *count);
        for (value, &count) in &counts {
            let is_found = found.iter().any(|(found, ..)| *found == value);
            prop_assert!(is_found || found.len() == k.into() && count <= last, "{:?} with {}", value, count);
        }
        round_trip(Top::encode, Top::decode, &merged);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0..4_u8], 0..200)) {
        let input = Input::new(&bytes);
        let _ = (Uniques::decode(&mut input.clone()), Moments::decode(&mut input.clone()), Top::decode(&mut input.clone()));
        let _ = (Members::decode(&mut input.clone()), Quantiles::decode(&mut input.clone()));
    }
}

/// Any number that an event may have.
fn number() -> impl Strategy<Value = f64> {
    let any_bits =
        any::<u64>().prop_map(f64::from_bits).prop_filter("events have finite floats", |float| float.is_finite());
    prop_oneof![any_bits, plain_number()]
}

/// Numbers within the twelve decades of a sketch, of both signs, and zero.
fn plain_number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), -1e6..1e6_f64, (-999_999..999_999_i64).prop_map(|integer| integer as f64), 1e-3..1e-2_f64]
}

#[test]
fn the_greatest_of_widely_spread_numbers_stay_exact_enough() {
    let mut quantiles = Quantiles::default();
    let numbers: Vec<f64> = (-300..300).map(|exponent| 10_f64.powi(exponent)).collect();
    numbers.iter().for_each(|&number| quantiles.insert(number));
    for (rank, &number) in numbers.iter().enumerate().skip(numbers.len() - 12) {
        let found = quantiles.quantile((rank as f64 + 0.5) / (numbers.len() - 1) as f64).unwrap();
        assert!((found - number).abs() <= 0.01 * number, "{found} for {number}");
    }
    assert!(quantiles.bytes() <= 2 * 2048);
}

#[test]
fn counters_widen_before_they_overflow() {
    let mut quantiles = Quantiles::default();
    (0..70_000).for_each(|_| quantiles.insert(5.0));
    let mut twice = quantiles.clone();
    twice.merge(&quantiles);
    assert_eq!(twice.count(), 140_000);
    assert!((twice.quantile(0.3).unwrap() - 5.0).abs() <= 0.05);
    round_trip(Quantiles::encode, Quantiles::decode, &twice);
}

#[test]
fn sums_of_floats_keep_small_numbers_beside_large_ones() {
    let mut moments = Moments::of(Number::Float(1e16));
    (0..1000).for_each(|_| moments.insert(Number::Float(1.0)));
    moments.insert(Number::Float(-1e16));
    let Moments::Floats { count, sum, compensation, min, max } = moments else { panic!("{moments:?}") };
    assert_eq!((count, sum + compensation, min, max), (1002, 1000.0, -1e16, 1e16));
    round_trip(Moments::encode, Moments::decode, &moments);
}

/// The sizes, and the numbers of runs for each.
const RUNS: [(usize, usize); 4] = [(1_000, 300), (10_000, 300), (100_000, 60), (1_000_000, 6)];

/// Returns the mean square of the relative error of estimates, each from `values` values of its own in `parts` merged sketches.
fn mean_square_error(values: usize, runs: usize, parts: usize) -> f64 {
    let mut random = Random::new(values as u64 + parts as u64);
    let run = |random: &mut Random| {
        let first = random.next() as i64;
        let mut sketches = vec![Uniques::default(); parts];
        for value in 0..values {
            // Half of the values are in two sketches.
            let hash = hash::of_integer(first.wrapping_add(value as i64));
            sketches[value % parts].insert(hash);
            sketches[value / 2 % parts].insert(hash);
        }
        let mut merged = Uniques::default();
        sketches.iter().for_each(|sketch| merged.merge(sketch));
        (merged.estimate() as f64 / values as f64 - 1.0).powi(2)
    };
    (0..runs).map(|_| run(&mut random)).sum::<f64>() / runs as f64
}

#[test]
fn estimates_of_distinct_values_have_the_stated_error() {
    for parts in [1, 7] {
        assert_eq!(mean_square_error(400, 10, parts), 0.0);
        for (values, runs) in RUNS {
            let error = mean_square_error(values, runs, parts).sqrt();
            // The error of the error: four times its standard deviation, for a few runs.
            let most = 0.0163 * (1.0 + 4.0 / (2.0 * runs as f64).sqrt());
            assert!(error < most, "{values} values in {parts} parts: {error}, at most {most}");
        }
    }
}

/// The oracle does not run in the sandbox.
#[cfg(not(target_arch = "wasm32"))]
mod datasketches {
    use ::datasketches::frequencies::FrequentItemsSketch;
    use ::datasketches::hll::{HllSketch, HllType, HllUnion};

    use super::*;

    #[test]
    fn unions_are_estimated_as_well_as_by_the_oracle() {
        let (mut ours, mut theirs, mut apart) = (0.0, 0.0_f64, 0.0_f64);
        let mut random = Random::new(1);
        const RUNS: usize = 100;
        for _ in 0..RUNS {
            let values = 2_000 + random.below(50_000);
            let first = random.next() as i64;
            let (mut merged, mut union) = (Uniques::default(), HllUnion::new(12).unwrap());
            for part in 0..3 {
                let (mut uniques, mut sketch) = (Uniques::default(), HllSketch::new(12, HllType::Hll6).unwrap());
                for value in (0..values).filter(|value| value % 3 != part) {
                    let value = first.wrapping_add(value as i64);
                    uniques.insert(hash::of_integer(value));
                    sketch.update(value);
                }
                merged.merge(&uniques);
                union.update(&sketch);
            }
            let errors = [merged.estimate() as f64, union.estimate()].map(|estimate| estimate / values as f64 - 1.0);
            ours += errors[0].powi(2);
            theirs += errors[1].powi(2);
            apart = apart.max((errors[0] - errors[1]).abs());
        }
        // The ratio of two errors from a hundred runs each has a standard deviation of a tenth.
        assert!(ours.sqrt() < 1.3 * theirs.sqrt(), "{ours} and {theirs}");
        assert!(apart < 0.12, "{apart}");
    }

    #[test]
    fn the_most_frequent_values_are_those_of_the_oracle() {
        let mut random = Random::new(2);
        let (mut top, mut sketch) = (Top::new(10), FrequentItemsSketch::<i64>::new(64).unwrap());
        for _ in 0..50_000 {
            // Value v has a share of about 1 / 2^(v + 1), and a third of the values is noise.
            let value = match random.chance(33) {
                true => 1000 + random.below(5000) as i64,
                false => random.next().trailing_zeros().into(),
            };
            top.insert(Hashed::new(Borrowed::Integer(value)));
            sketch.update(value);
        }
        let found = top.frequent().unwrap();
        for value in 0..5_i64 {
            let &(_, count, error) = found.iter().find(|(found, ..)| **found == Value::Integer(value)).unwrap();
            let (lower, upper) = (sketch.lower_bound(&value), sketch.upper_bound(&value));
            assert!(count >= lower && count - error <= upper, "{value}: {count} - {error}, {lower} to {upper}");
        }
    }
}
