//! The terms of small integers by themselves: the library can only be linked into the BEAM.

#[path = "../src/terms/small_integers.rs"]
mod small_integers;

use small_integers::{Integers, Word};

/// As a VM tags them that has `bits` for a small integer. Large ones lie at the same place, one after the other.
fn tagged(bits: u32) -> impl Fn(u64) -> Word {
    move |integer| if integer < 1 << bits { 16 * integer as Word + 15 } else { 0x7f00_0000_0002 }
}

#[test]
fn terms_are_known_as_far_as_integers_are_small() {
    let integers = Integers::of(tagged(59));
    for known in [0, 1, 2, 255, 256, 1_000_000, (1 << 58) - 1] {
        assert_eq!(integers.term(known), Some(tagged(59)(known)));
    }
    for unknown in [1 << 59, 1 << 60, u64::MAX - 1, u64::MAX] {
        assert_eq!(integers.term(unknown), None);
    }
    assert_eq!(Integers::of(tagged(27)).term(1 << 27), None);
}

#[test]
fn no_term_is_known_where_they_do_not_follow_one_another() {
    for stray in [0, 1, 2] {
        let integers = Integers::of(|integer| if integer == stray { 99 } else { tagged(59)(integer) });
        assert!((0..300).all(|integer| integers.term(integer).is_none()));
    }
}

#[test]
fn terms_are_known_below_the_power_near_which_one_strays() {
    let integers = Integers::of(|integer| if integer == 4_097 { 99 } else { tagged(59)(integer) });
    assert_eq!(integers.term(2_047), Some(tagged(59)(2_047)));
    assert_eq!(integers.term(2_048), None);
}
