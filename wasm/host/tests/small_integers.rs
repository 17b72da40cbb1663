//! Tests of the terms of small integers without the rest of the library, which links only into the BEAM.

#[path = "../src/terms/small_integers.rs"]
mod small_integers;

use small_integers::{SmallIntegers, Word};

/// As a VM tags them that has `bits` for a small integer. Large ones lie at the same place, one after the other.
fn tagged(bits: u32) -> impl Fn(u64) -> Word {
    move |integer| if integer < 1 << bits { 16 * integer as Word + 15 } else { 0x7f00_0000_0002 }
}

#[test]
fn term_is_some_for_all_small_integers() {
    let integers = SmallIntegers::of(tagged(59));
    for known in [0, 1, 2, 255, 256, 1_000_000, (1 << 58) - 1] {
        assert_eq!(integers.term(known), Some(tagged(59)(known)));
    }
    for unknown in [1 << 59, 1 << 60, u64::MAX - 1, u64::MAX] {
        assert_eq!(integers.term(unknown), None);
    }
    assert_eq!(SmallIntegers::of(tagged(27)).term(1 << 27), None);
}

#[test]
fn term_is_none_if_the_first_terms_are_not_equidistant() {
    for stray in [0, 1, 2] {
        let integers = SmallIntegers::of(|integer| if integer == stray { 99 } else { tagged(59)(integer) });
        assert!((0..300).all(|integer| integers.term(integer).is_none()));
    }
}

#[test]
fn term_is_none_from_the_power_of_two_beside_a_stray_term() {
    let integers = SmallIntegers::of(|integer| if integer == 4_097 { 99 } else { tagged(59)(integer) });
    assert_eq!(integers.term(2_047), Some(tagged(59)(2_047)));
    assert_eq!(integers.term(2_048), None);
}
