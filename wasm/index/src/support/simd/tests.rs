//! Compares each operation of each kind of vector with a plain loop, on random and extreme bytes.

use std::array::from_fn;

use super::{Vector, BYTES};
use crate::oracle::random::Random;

type Bytes = [u8; BYTES];

const EDGES: [u8; 10] = [0, 1, 7, 15, 16, 127, 128, 129, 254, 255];

/// Calls `check` with pairs of vectors' bytes, of which a quarter are equal.
fn each_pair(mut check: impl FnMut(Bytes, Bytes)) {
    let mut random = Random::new(1);
    for _ in 0..2000 {
        let mut byte = || match random.chance(50) {
            true => EDGES[random.below(EDGES.len())],
            false => random.below(256) as u8,
        };
        let a: Bytes = from_fn(|_| byte());
        let b: Bytes = from_fn(|place| match byte() % 4 {
            0 => a[place],
            _ => byte(),
        });
        check(a, b);
        // Whole lanes are equal here.
        check(a, from_fn(|place| if place < 8 { a[place] } else { b[place] }));
    }
    check([0; BYTES], [0; BYTES]);
    check([u8::MAX; BYTES], [0; BYTES]);
}

fn bytes(vector: impl Vector) -> Bytes {
    let [low, high] = vector.to_u64();
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}

fn u16s(bytes: Bytes) -> [u16; 8] {
    from_fn(|lane| u16::from(bytes[2 * lane]) | u16::from(bytes[2 * lane + 1]) << 8)
}

fn u32s(bytes: Bytes) -> [u32; 4] {
    from_fn(|lane| (0..4).fold(0, |word, byte| word | u32::from(bytes[4 * lane + byte]) << (8 * byte)))
}

fn u64s(bytes: Bytes) -> [u64; 2] {
    from_fn(|lane| (0..8).fold(0, |word, byte| word | u64::from(bytes[8 * lane + byte]) << (8 * byte)))
}

/// Checks each lane of a vector of four lanes.
fn assert_u32<V: Vector>(vector: V, expected: impl Fn(usize) -> u32) {
    assert_eq!(u32s(bytes(vector)), from_fn(expected));
}

/// Checks each byte of a vector.
fn assert_u8<V: Vector>(vector: V, expected: impl Fn(usize) -> u8) {
    assert_eq!(bytes(vector), from_fn(expected));
}

fn lanes_are_those_that_were_stored<V: Vector>() {
    each_pair(|a, b| {
        let vector = V::of_u8(&a);
        assert_eq!((vector.to_u32(), vector.to_u64()), (u32s(a), u64s(a)));
        assert_eq!([V::of_u16(&u16s(a)), V::of_u32(&u32s(a)), V::of_u64(&u64s(a))].map(bytes), [a; 3]);
        assert_u8(V::splat_u8(b[0]), |_| b[0]);
        assert_u32(V::splat_u32(u32s(b)[0]), |_| u32s(b)[0]);
        assert_eq!(vector.is_zero(), a == [0; BYTES]);
    });
    assert_eq!(bytes(V::default()), [0; BYTES]);
    // A single bit makes a vector nonzero.
    for bit in 0..128 {
        assert!(!V::of_u8(&(1_u128 << bit).to_le_bytes()).is_zero());
    }
}

fn bits_are_combined<V: Vector>() {
    each_pair(|a, b| {
        let (one, other) = (V::of_u8(&a), V::of_u8(&b));
        assert_u8(one & other, |place| a[place] & b[place]);
        assert_u8(one | other, |place| a[place] | b[place]);
        assert_u8(one ^ other, |place| a[place] ^ b[place]);
        assert_u8(!one, |place| !a[place]);
    });
}

fn lanes_are_computed<V: Vector>() {
    each_pair(|a, b| {
        let (one, other) = (V::of_u8(&a), V::of_u8(&b));
        assert_eq!(u16s(bytes(one.add_u16(other))), from_fn(|lane| u16s(a)[lane].wrapping_add(u16s(b)[lane])));
        assert_u8(one.sub_u8(other), |place| a[place].wrapping_sub(b[place]));
        assert_u32(one.sub_u32(other), |lane| u32s(a)[lane].wrapping_sub(u32s(b)[lane]));
        assert_u8(one.eq_u8(other), |place| if a[place] == b[place] { u8::MAX } else { 0 });
        assert_u32(one.eq_u32(other), |lane| if u32s(a)[lane] == u32s(b)[lane] { u32::MAX } else { 0 });
        assert_u32(one.le_u32(other), |lane| if u32s(a)[lane] <= u32s(b)[lane] { u32::MAX } else { 0 });
    });
}

fn floats_are_computed<V: Vector>() {
    let floats = |bytes: Bytes| u32s(bytes).map(f32::from_bits);
    let assert = |vector: V, expected: [f32; 4]| {
        for (computed, expected) in floats(bytes(vector)).into_iter().zip(expected) {
            let are_equal = computed.to_bits() == expected.to_bits();
            assert!(are_equal || computed.is_nan() && expected.is_nan(), "{computed} {expected}");
        }
    };
    each_pair(|a, b| {
        let (a, b) = (floats(a), floats(b));
        let (one, other) = (V::of_f32(&a), V::of_f32(&b));
        assert(V::splat_f32(a[0]), [a[0]; 4]);
        assert(one, a);
        assert(one.add_f32(other), from_fn(|lane| a[lane] + b[lane]));
        assert(one.sub_f32(other), from_fn(|lane| a[lane] - b[lane]));
        assert(one.mul_f32(other), from_fn(|lane| a[lane] * b[lane]));
    });
}

fn lanes_are_shifted<V: Vector>() {
    each_pair(|a, b| {
        let (bits, more) = (u32::from(b[0] % 8), u32::from(b[0] % 32));
        let vector = V::of_u8(&a);
        assert_u8(vector.shr_u8(bits), |place| a[place] >> bits);
        assert_u32(vector.shr_u32(more), |lane| u32s(a)[lane] >> more);
        assert_u32(vector.shl_u32(more), |lane| u32s(a)[lane] << more);
    });
}

fn signs_are_collected<V: Vector>() {
    let collect = |signs: &[bool]| signs.iter().rev().fold(0, |word: u16, &sign| 2 * word + u16::from(sign));
    each_pair(|a, b| {
        let (one, other) = (V::of_u8(&a), V::of_u8(&b));
        assert_eq!(one.signs_u8(), collect(&a.map(|lane| lane >= 1 << 7)));
        assert_eq!(u16::from(one.signs_u32()), collect(&u32s(a).map(|lane| lane >= 1 << 31)));
        assert_eq!(
            one.signs_u16(other),
            collect(&[u16s(a), u16s(b)].concat().iter().map(|&lane| lane >= 1 << 15).collect::<Vec<_>>())
        );
    });
}

fn lanes_are_moved<V: Vector>() {
    each_pair(|a, b| {
        let (one, other) = (V::of_u8(&a), V::of_u8(&b));
        assert_u8(one.swizzle(other), |place| a.get(usize::from(b[place])).copied().unwrap_or(0));
        let inside = b.map(|place| place % 16);
        assert_u8(one.swizzle(V::of_u8(&inside)), |place| a[usize::from(inside[place])]);
        let lanes = [u32s(a), u32s(b)].concat();
        assert_u32(one.shuffle_u32::<0, 4, 1, 5>(other), |lane| lanes[[0, 4, 1, 5][lane]]);
        assert_u32(one.shuffle_u32::<7, 7, 2, 3>(other), |lane| lanes[[7, 7, 2, 3][lane]]);
        assert_u32(one.shuffle_u32::<6, 3, 0, 1>(other), |lane| lanes[[6, 3, 0, 1][lane]]);
    });
}

/// Makes a test for each kind of vector of each function named.
macro_rules! tests {
    ($($operations:ident),*) => {
        mod portable {
            $(#[test]
            fn $operations() {
                super::$operations::<crate::support::simd::Portable>();
            })*
        }

        mod fastest {
            $(#[test]
            fn $operations() {
                super::$operations::<crate::support::simd::Fastest>();
            })*
        }
    };
}

tests!(
    lanes_are_those_that_were_stored,
    bits_are_combined,
    lanes_are_computed,
    floats_are_computed,
    lanes_are_shifted,
    signs_are_collected,
    lanes_are_moved
);
