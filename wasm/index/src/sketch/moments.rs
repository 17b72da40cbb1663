//! The count, the sum, the minimum and the maximum of numbers.
//!
//! The sum of integers is exact: 128 bits hold 2^64 of them. The sum of floats is compensated (Neumaier), and the order of merges may
//! change its last bits. A sum beyond the range of floats stays at the greatest finite float.

use crate::error::Error;
use crate::sketch::codec::{put, put_signed, Input, MAX_INTEGER_BYTES};

/// The moments of integers or floats.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Moments {
    Integers { count: u64, sum: i128, min: i64, max: i64 },
    Floats { count: u64, sum: f64, compensation: f64, min: f64, max: f64 },
}

/// A number of either type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    /// Returns the number as the nearest float.
    pub fn float(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Float(float) => float,
        }
    }
}

impl Moments {
    /// Returns the moments of one number.
    pub fn of(number: Number) -> Self {
        match number {
            Number::Integer(integer) => Moments::Integers { count: 1, sum: integer.into(), min: integer, max: integer },
            Number::Float(float) => Moments::Floats { count: 1, sum: float, compensation: 0.0, min: float, max: float },
        }
    }

    /// Adds a number, which is of the same type.
    #[inline]
    pub fn insert(&mut self, number: Number) {
        self.merge(&Moments::of(number));
    }

    /// Adds the numbers of other moments, which are of the same type.
    #[inline]
    pub fn merge(&mut self, other: &Moments) {
        match (self, other) {
            (
                Moments::Integers { count, sum, min, max },
                Moments::Integers { count: more, sum: other, min: least, max: greatest },
            ) => {
                *count = count.saturating_add(*more);
                *sum = sum.saturating_add(*other);
                *min = (*min).min(*least);
                *max = (*max).max(*greatest);
            }
            (
                Moments::Floats { count, sum, compensation, min, max },
                Moments::Floats { count: more, sum: other, compensation: rest, min: least, max: greatest },
            ) => {
                *count = count.saturating_add(*more);
                let total = (*sum + other).clamp(f64::MIN, f64::MAX);
                let lost = if sum.abs() >= other.abs() { *sum - total + other } else { other - total + *sum };
                *compensation = (*compensation + rest + lost).clamp(f64::MIN, f64::MAX);
                *sum = total;
                *min = (*min).min(*least);
                *max = (*max).max(*greatest);
            }
            _ => unreachable!("both are of the type of their attribute"),
        }
    }

    pub const MAX_ENCODED_BYTES: usize = 1 + MAX_INTEGER_BYTES * 3 + 32;

    /// Appends the type, the count, the sum, the minimum and the maximum.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Moments::Integers { count, sum, min, max } => {
                out.push(0);
                put(out, *count);
                put_signed(out, *min);
                put_signed(out, *max);
                out.extend(sum.to_le_bytes());
            }
            Moments::Floats { count, sum, compensation, min, max } => {
                out.push(1);
                put(out, *count);
                [sum, compensation, min, max].iter().for_each(|float| out.extend(float.to_le_bytes()));
            }
        }
    }

    /// Reads encoded moments. Errors: malformed bytes.
    pub fn decode(input: &mut Input) -> Result<Self, Error> {
        let ty = input.byte()?;
        let count = input.integer()?;
        let (moments, fits) = match ty {
            0 => {
                let (min, max) = (input.signed()?, input.signed()?);
                let sum = i128::from_le_bytes(input.array()?);
                let bounds = [min, max].map(|bound| i128::from(bound) * i128::from(count));
                let fits = min <= max && (bounds[0]..=bounds[1]).contains(&sum);
                (Moments::Integers { count, sum, min, max }, fits)
            }
            1 => {
                let [sum, compensation, min, max] = [input.float()?, input.float()?, input.float()?, input.float()?];
                (Moments::Floats { count, sum, compensation, min, max }, min <= max)
            }
            _ => return Err(input.malformed("moments are neither of integers nor of floats")),
        };
        if count == 0 || !fits {
            return Err(input.malformed("moments contradict one another"));
        }
        Ok(moments)
    }
}
