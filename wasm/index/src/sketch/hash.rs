//! The hash of values in sketches. It never changes, because encoded sketches contain hashes and merge with later ones.
//!
//! Integers are mixed by the finalizer of SplitMix64, which is a bijection: distinct integers have distinct hashes. Strings are
//! folded word by word and then mixed in the same way. The hash has no secret, so a sender who chooses values for their hashes can
//! falsify the estimates of the statistics that count these values.

use crate::support::bytes::words;

/// A multiplier without a pattern: the digits of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the hash of an integer. It is not 0, which marks an empty slot.
#[inline]
pub(crate) fn of_integer(integer: i64) -> u64 {
    mixed((integer as u64).wrapping_add(MULTIPLIER))
}

/// Returns the hash of a float by its bits. The zeros are equal.
#[inline]
pub(crate) fn of_float(float: f64) -> u64 {
    of_integer((float + 0.0).to_bits() as i64)
}

/// Returns the hash of a string. It is not 0.
#[inline]
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let folded = words(bytes).fold(bytes.len() as u64, |hash, word| {
        let product = (hash ^ word).wrapping_mul(MULTIPLIER);
        product ^ product >> 32
    });
    mixed(folded.wrapping_add(MULTIPLIER))
}

#[inline]
fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ word >> 31).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes of integers are the first outputs of SplitMix64 with the integer as the seed. Those of strings were computed
    /// independently of this program.
    #[test]
    fn hashes_never_change() {
        assert_eq!(of_integer(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(of_integer(1), 0x910a_2dec_8902_5cc1);
        assert_eq!(of_float(-0.0), of_float(0.0));
        assert_eq!(of_float(0.0), of_integer(0));
        assert_eq!(of_bytes(b""), of_integer(0));
        assert_eq!(of_bytes(b"country"), 0x1976_bc9f_0015_9c10);
        assert_eq!(of_bytes(b"a string of three words."), 0x8152_27a1_0f9a_a567);
    }
}
