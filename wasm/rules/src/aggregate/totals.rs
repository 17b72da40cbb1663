//! The values of aggregates: counts, exact sums, and extremes.
//!
//! A sum is exact, and rounded once at the end. So it depends neither on the order of additions nor on removed facts. A sum of
//! floats is `mantissa * 2^exponent`. If values as far apart as 1e30 and 1e-30 need more than 128 bits, [`Wide`] adds all of them
//! again over the whole range of floats.

use crate::compile::code::Kind;
use crate::compile::program::Aggregate;

/// The value of an aggregate over some facts. Totals of disjoint sets merge into the total of their union.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Total {
    Count(u64),
    /// `None` if the exact sum does not fit.
    Sum(Option<Sum>),
    /// The minimum or maximum, or `None` without a value.
    Extreme(Option<u64>),
}

impl Total {
    /// Returns the total of an empty set.
    pub fn of_nothing(aggregate: &Aggregate) -> Total {
        match aggregate {
            Aggregate::None | Aggregate::Count => Total::Count(0),
            Aggregate::Sum(..) => Total::Sum(Some(Sum::ZERO)),
            Aggregate::Min(..) | Aggregate::Max(..) => Total::Extreme(None),
        }
    }

    /// Returns the total of one fact, with the value of the aggregate's field.
    pub fn of_one(aggregate: &Aggregate, value: Option<u64>) -> Total {
        match aggregate {
            Aggregate::None | Aggregate::Count => Total::Count(1),
            Aggregate::Sum(kind, _) => Total::Sum(Some(value.map_or(Sum::ZERO, |value| Sum::of(*kind, value)))),
            Aggregate::Min(..) | Aggregate::Max(..) => Total::Extreme(value),
        }
    }

    /// Returns the total of the union of two disjoint sets.
    pub fn merged(self, other: Total, aggregate: &Aggregate) -> Total {
        match (self, other) {
            (Total::Count(first), Total::Count(second)) => Total::Count(first + second),
            (Total::Sum(first), Total::Sum(second)) => {
                Total::Sum(first.zip(second).and_then(|(first, second)| first.plus(second)))
            }
            (Total::Extreme(Some(first)), Total::Extreme(Some(second))) => {
                Total::Extreme(Some(extreme(aggregate, first, second)))
            }
            (Total::Extreme(first), Total::Extreme(second)) => Total::Extreme(first.or(second)),
            (first, _) => first,
        }
    }

    /// Returns the value. An empty sum is 0, in either type; a sum beyond 64 bits is undefined.
    pub fn value(self, aggregate: &Aggregate) -> Option<u64> {
        match (self, aggregate) {
            (Total::Count(_), Aggregate::None) => None,
            (Total::Count(count), _) => Some(count),
            (Total::Sum(sum), Aggregate::Sum(kind, _)) => sum.and_then(|sum| sum.value(*kind)),
            (Total::Sum(_), _) => None,
            (Total::Extreme(value), _) => value,
        }
    }
}

/// Returns the minimum or maximum of two values. The order of floats is total: -0.0 is less than 0.0.
fn extreme(aggregate: &Aggregate, first: u64, second: u64) -> u64 {
    let (kind, is_min) = match aggregate {
        Aggregate::Min(kind, _) => (*kind, true),
        Aggregate::Max(kind, _) => (*kind, false),
        _ => return first,
    };
    let is_first_less = match kind {
        Kind::Float => f64::from_bits(first).total_cmp(&f64::from_bits(second)).is_lt(),
        _ => (first as i64) < second as i64,
    };
    if is_first_less == is_min {
        first
    } else {
        second
    }
}

/// The exponent of the smallest positive float.
const MIN_EXPONENT: i32 = -1074;

/// An exact sum, `mantissa * 2^exponent`. The exponent of integers is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sum {
    pub mantissa: i128,
    pub exponent: i32,
}

impl Sum {
    pub const ZERO: Sum = Sum { mantissa: 0, exponent: 0 };

    fn of(kind: Kind, value: u64) -> Sum {
        if kind != Kind::Float {
            return Sum { mantissa: i128::from(value as i64), exponent: 0 };
        }
        let (mantissa, exponent) = parts(f64::from_bits(value));
        if mantissa == 0 {
            return Sum::ZERO;
        }
        // Dropping trailing zeros leaves more bits to the sum.
        let zeros = mantissa.trailing_zeros();
        Sum { mantissa: i128::from(mantissa >> zeros), exponent: exponent + zeros as i32 }
    }

    /// Returns the sum of both, or `None` if it does not fit.
    fn plus(self, other: Sum) -> Option<Sum> {
        if self.mantissa == 0 {
            return Some(other);
        }
        if other.mantissa == 0 {
            return Some(self);
        }
        let (low, high) = if self.exponent <= other.exponent { (self, other) } else { (other, self) };
        let shift = high.exponent.abs_diff(low.exponent);
        if shift >= high.mantissa.unsigned_abs().leading_zeros() {
            return None;
        }
        let mantissa = (high.mantissa << shift).checked_add(low.mantissa)?;
        Some(Sum { mantissa, exponent: low.exponent })
    }

    fn value(self, kind: Kind) -> Option<u64> {
        if kind != Kind::Float {
            return i64::try_from(self.mantissa).ok().map(|sum| sum as u64);
        }
        finite(self.mantissa as f64 * power_of_two(self.exponent))
    }
}

/// Returns the signed mantissa and the exponent of a finite float.
fn parts(float: f64) -> (i64, i32) {
    let bits = float.to_bits();
    let fraction = (bits & ((1 << 52) - 1)) as i64;
    let (mantissa, exponent) = match (bits >> 52 & 0x7ff) as i32 {
        0 => (fraction, MIN_EXPONENT),
        exponent => (fraction | 1 << 52, exponent - 1 + MIN_EXPONENT),
    };
    (if float.is_sign_negative() { -mantissa } else { mantissa }, exponent)
}

/// Returns 2 to a power not below [`MIN_EXPONENT`].
fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        ..=-1023 => f64::from_bits(1 << (exponent - MIN_EXPONENT)),
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << 52),
        _ => f64::INFINITY,
    }
}

fn finite(float: f64) -> Option<u64> {
    float.is_finite().then_some(float.to_bits())
}

/// The number of limbs of a [`Wide`]: the bits of every float, and headroom for the carries of 2^32 additions.
const LIMBS: usize = 69;

/// An exact sum of any floats: 32-bit limbs with their carries, starting at the exponent of the smallest positive float.
pub(crate) struct Wide([i64; LIMBS]);

impl Wide {
    pub fn new() -> Self {
        Wide([0; LIMBS])
    }

    /// Adds a finite float, by its bits.
    pub fn add(&mut self, value: u64) {
        let (mantissa, exponent) = parts(f64::from_bits(value));
        let position = exponent.abs_diff(MIN_EXPONENT);
        let mut rest = u128::from(mantissa.unsigned_abs()) << (position % 32);
        for limb in self.0.iter_mut().skip(position as usize / 32).take(3) {
            let part = (rest & 0xffff_ffff) as i64;
            *limb += if mantissa < 0 { -part } else { part };
            rest >>= 32;
        }
    }

    /// Returns the sum, rounded, or `None` if it is beyond the range of floats.
    pub fn value(mut self) -> Option<u64> {
        self.carry();
        // The sign of the sum is the sign of the last limb.
        let is_negative = self.0[LIMBS - 1] < 0;
        if is_negative {
            self.0.iter_mut().for_each(|limb| *limb = -*limb);
            self.carry();
        }
        let Some(top) = self.0.iter().rposition(|limb| *limb != 0) else { return Some(0) };
        let low = top.saturating_sub(2);
        let mut mantissa = self.0[low..=top].iter().rev().fold(0_u128, |bits, limb| bits << 32 | *limb as u128);
        // A sticky bit: a nonzero remainder decides the rounding when the kept bits lie halfway between two floats.
        mantissa |= u128::from(self.0[..low].iter().any(|limb| *limb != 0));
        let sum = mantissa as f64 * power_of_two(32 * low as i32 + MIN_EXPONENT);
        finite(if is_negative { -sum } else { sum })
    }

    fn carry(&mut self) {
        let mut carry = 0;
        for limb in &mut self.0[..LIMBS - 1] {
            let whole = *limb + carry;
            *limb = whole & 0xffff_ffff;
            carry = whole >> 32;
        }
        self.0[LIMBS - 1] += carry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::code::Operand;

    fn sum(floats: &[f64]) -> (Option<f64>, Option<f64>) {
        let aggregate = Aggregate::Sum(Kind::Float, Operand::Constant(0));
        let mut total = Total::of_nothing(&aggregate);
        let mut wide = Wide::new();
        for float in floats {
            total = total.merged(Total::of_one(&aggregate, Some(float.to_bits())), &aggregate);
            wide.add(float.to_bits());
        }
        (total.value(&aggregate).map(f64::from_bits), wide.value().map(f64::from_bits))
    }

    #[test]
    fn sums_of_floats_are_rounded_once() {
        let tiny = f64::from_bits(1);
        let cases: [(&[f64], Option<f64>, bool); 13] = [
            (&[], Some(0.0), true),
            (&[-0.0], Some(0.0), true),
            (&[0.1; 10], Some(1.0), true),
            (&[1e16, 1.0, 1.0, -1e16], Some(2.0), true),
            (&[tiny, tiny, -3.0 * tiny], Some(-tiny), true),
            (&[f64::MAX, -f64::MAX], Some(0.0), true),
            (&[f64::MAX, f64::MAX, -f64::MAX], Some(f64::MAX), true),
            (&[f64::MAX, f64::MAX], None, true),
            (&[-f64::MAX, -f64::MAX], None, true),
            (&[1e30, 1e-30, -1e30], Some(1e-30), false),
            (&[-1e300, 1e-300, 1e300], Some(1e-300), false),
            // Exactly halfway between two floats, and slightly above.
            (&[9_007_199_254_740_992.0, 1.0], Some(9_007_199_254_740_992.0), true),
            (&[9_007_199_254_740_992.0, 1.0, tiny], Some(9_007_199_254_740_994.0), false),
        ];
        for (floats, expected, fits) in cases {
            let (narrow, wide) = sum(floats);
            assert_eq!(wide, expected, "{floats:?}");
            assert_eq!(narrow, if fits { expected } else { None }, "{floats:?}");
        }
    }

    #[test]
    fn sums_of_floats_are_the_same_in_any_order() {
        let mut random = 5_u64;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let mut narrow = 0;
        for case in 0..2_000 {
            let mut floats: Vec<f64> = Vec::new();
            for _ in 0..1 + next(40) {
                let sign = if next(2) == 0 { 1.0 } else { -1.0 };
                let scale = if case % 2 == 0 { next(12) as i32 - 6 } else { next(600) as i32 - 300 };
                floats.push(sign * (1 + next(1 << 30)) as f64 * 10_f64.powi(scale));
            }
            let (first, whole) = sum(&floats);
            for _ in 0..4 {
                let (from, to) = (next(floats.len() as u64) as usize, next(floats.len() as u64) as usize);
                floats.swap(from, to);
                let (again, other) = sum(&floats);
                assert_eq!(other, whole, "{floats:?}");
                assert!(again.is_none() || again == whole, "{floats:?}");
            }
            narrow += usize::from(first.is_some());
        }
        assert!((900..1_900).contains(&narrow), "{narrow}");
    }
}
