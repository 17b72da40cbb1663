//! Heap sort, for code size rather than speed: the standard library's sort adds kilobytes for each element type to the package
//! for JavaScript.

/// Sorts `items` by heap sort: in time n log n, without memory. Equal items may change places.
pub(crate) fn sort<T>(items: &mut [T], is_less: impl Fn(&T, &T) -> bool) {
    for start in (0..items.len() / 2).rev() {
        sift(items, start, &is_less);
    }
    for end in (1..items.len()).rev() {
        items.swap(0, end);
        sift(&mut items[..end], 0, &is_less);
    }
}

/// Moves the item at `at` down until no child is greater.
fn sift<T>(items: &mut [T], mut at: usize, is_less: &impl Fn(&T, &T) -> bool) {
    loop {
        let mut child = 2 * at + 1;
        if child >= items.len() {
            return;
        }
        if child + 1 < items.len() && is_less(&items[child], &items[child + 1]) {
            child += 1;
        }
        if !is_less(&items[at], &items[child]) {
            return;
        }
        items.swap(at, child);
        at = child;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;

    #[test]
    fn items_are_sorted() {
        let mut random = Random::new(1);
        for _ in 0..2_000 {
            let mut items = random.several(40, |random| random.below(20));
            let mut expected = items.clone();
            expected.sort_unstable();
            sort(&mut items, |a, b| a < b);
            assert_eq!(items, expected);
        }
    }
}
