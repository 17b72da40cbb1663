//! Values as integers: an order-preserving key, and a 32-bit digest that is monotonic in the key.

use crate::event::Value;
use crate::handles::PredicateId;
use crate::model::schema::Type;
use crate::model::strings::StringId;

/// Returns an integer that sorts like the float.
pub(crate) fn of_float(value: f64) -> i64 {
    let bits = (value + 0.0).to_bits() as i64;
    // The bits of negative floats have the reverse order, so all bits except the sign are flipped.
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// Returns the float with this key.
pub(crate) fn to_float(key: i64) -> f64 {
    f64::from_bits((key ^ ((key >> 63) as u64 >> 1) as i64) as u64)
}

/// Returns the key of a string.
pub(crate) fn of_string(id: StringId) -> i64 {
    i64::from(id.word())
}

/// Returns the string with this key.
pub(crate) fn to_string(key: i64) -> StringId {
    StringId::from_word(key as u32)
}

/// Returns the key of a pattern.
pub(crate) fn of_predicate(id: PredicateId) -> i64 {
    i64::from(id.word())
}

/// Returns the pattern with this key.
pub(crate) fn to_predicate(key: i64) -> PredicateId {
    PredicateId::from_word(key as u32)
}

/// Returns the key of a scalar value. Lists and undefined values have none.
pub(crate) fn of_value(value: Value) -> Option<i64> {
    match value {
        Value::Boolean(value) => Some(i64::from(value)),
        Value::Integer(value) => Some(value),
        Value::Float(value) => Some(of_float(value)),
        Value::String(text) => Some(of_string(text.id)),
        _ => None,
    }
}

/// The mapping from keys of an attribute to digests: clamping, or the upper half if keys are spread widely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Clamp,
    UpperHalf,
}

impl Scale {
    /// Returns the scale of an attribute of type `ty`.
    pub fn of(ty: Type) -> Self {
        match ty {
            // Microseconds of a time do not fit 32 bits. The unit of the upper half is 71 minutes.
            Type::Float | Type::DateTime => Scale::UpperHalf,
            _ => Scale::Clamp,
        }
    }

    /// Returns whether comparing digests with that of `key` is exact: no other key shares its digest.
    pub fn is_exact_at(self, key: i64) -> bool {
        self == Scale::Clamp && i64::from(i32::MIN) + 1 < key && key < i64::from(i32::MAX)
    }

    /// Returns the digest of `key`. It is monotonic in the key, and never the least `i32`, which stands for undefined.
    pub fn digest(self, key: i64) -> i32 {
        let digest = match self {
            Scale::Clamp => key.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
            Scale::UpperHalf => (key >> 32) as i32,
        };
        digest.max(i32::MIN + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_order() {
        let ordered = [f64::MIN, -1e10, -1.5, -f64::MIN_POSITIVE, -0.0, f64::MIN_POSITIVE, 1.0, 1e300, f64::MAX];
        for pair in ordered.windows(2) {
            assert!(of_float(pair[0]) < of_float(pair[1]), "{pair:?}");
        }
        assert_eq!(of_float(-0.0), of_float(0.0));
        assert!(ordered.iter().all(|&value| to_float(of_float(value)) == value));
    }

    #[test]
    fn probes_keep_the_order_of_keys_and_avoid_the_undefined_one() {
        let keys = [i64::MIN, -1 << 40, i64::from(i32::MIN), -1, 0, 1, i64::from(i32::MAX), 1 << 40, i64::MAX];
        for scale in [Scale::Clamp, Scale::UpperHalf] {
            for pair in keys.windows(2) {
                assert!(scale.digest(pair[0]) <= scale.digest(pair[1]), "{scale:?} {pair:?}");
                assert_ne!(scale.digest(pair[0]), i32::MIN);
            }
        }
    }
}
