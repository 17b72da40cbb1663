//! Memory that is reserved for deletions.
//!
//! A deletion must not fail, so insertions reserve as much memory as it takes to read back the largest expression. Siblings share
//! the reserve, because one index changes at a time. So the reserve is as large as the largest deletion in any of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalog::sizes::{class, Sizes};
use crate::error::Error;
use crate::support::footprint::of_table;
use crate::support::headroom::Reserve;

/// The deletions of one index.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    shared: Arc<Mutex<Shared>>,
    /// The number of subscriptions of this index in each class of sizes that has some.
    counts: Vec<Count>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    class: u8,
    subscriptions: u32,
}

/// The part that siblings share.
#[derive(Clone, Debug, Default)]
struct Shared {
    /// A histogram of the least memory that each deletion takes: that of reading back its expression.
    sizes: Sizes,
    reserve: Reserve,
}

impl Deletions {
    /// Returns the deletions of an empty sibling.
    pub fn sibling(&self) -> Self {
        Deletions { shared: Arc::clone(&self.shared), counts: Vec::new() }
    }

    /// Reserves memory for all deletions, and for one of `more` bytes.
    ///
    /// Errors: [`crate::error::Kind::OutOfMemory`]; the reserve then stays as it was.
    pub fn hold(&self, more: usize) -> Result<(), Error> {
        let Shared { sizes, reserve } = &mut *self.lock();
        reserve.hold(sizes.max().max(more))
    }

    /// Reserves memory for all deletions, and not much more than twice that. Errors: those of [`Deletions::hold`].
    pub fn hold_about(&self) -> Result<(), Error> {
        self.lock().hold_about()
    }

    /// Adds a deletion of `bytes` bytes.
    pub fn add(&mut self, bytes: usize) {
        self.lock().sizes.add(bytes);
        let class = class(bytes) as u8;
        match self.counts.iter_mut().find(|count| count.class == class) {
            Some(count) => count.subscriptions += 1,
            None => self.counts.push(Count { class, subscriptions: 1 }),
        }
    }

    /// Removes a deletion that was added. Allocates nothing.
    pub fn remove(&mut self, bytes: usize) {
        self.lock().sizes.remove(bytes);
        let class = class(bytes) as u8;
        let counts = self.counts.iter_mut().filter(|count| count.class == class);
        counts.for_each(|count| count.subscriptions -= 1);
    }

    /// Frees the reserve, for a deletion that needs it.
    pub fn release(&self) {
        self.lock().reserve.release();
    }

    /// Removes all deletions of this index, and frees the memory that its siblings do not need.
    pub fn clear(&mut self) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for count in self.counts.drain(..) {
            shared.sizes.remove_many(count.class.into(), count.subscriptions);
        }
        // The smaller reserve fits the place of the larger one, so this is not refused.
        let _ = shared.hold_about();
        drop(shared);
        self.counts = Vec::new();
    }

    /// Returns the bytes that the deletions take of the heap, without a reserve that siblings share.
    pub fn heap_bytes(&self) -> usize {
        let is_alone = Arc::strong_count(&self.shared) == 1;
        of_table(&self.counts) + if is_alone { self.lock().reserve.heap_bytes() } else { 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn hold_about(&mut self) -> Result<(), Error> {
        match self.sizes.max() {
            0 => self.reserve.release(),
            bytes => self.reserve.hold_about(bytes)?,
        }
        Ok(())
    }
}

impl Clone for Deletions {
    /// Returns the deletions of an index without siblings. The reserve covers those of the former siblings too.
    fn clone(&self) -> Self {
        Deletions { shared: Arc::new(Mutex::new(self.lock().clone())), counts: self.counts.clone() }
    }
}

impl Drop for Deletions {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(deletions: &Deletions) -> usize {
        deletions.lock().reserve.bytes()
    }

    #[test]
    fn siblings_share_a_reserve_for_the_largest_deletion_of_all() {
        let mut one = Deletions::default();
        let mut other = one.sibling();
        one.hold(3_000).unwrap();
        one.add(3_000);
        other.hold(100_000).unwrap();
        other.add(100_000);
        other.add(2_000);
        assert!(reserved(&one) >= 100_000 && reserved(&one) == reserved(&other));
        one.remove(3_000);
        one.clear();
        assert!(reserved(&other) >= 100_000);
        other.remove(100_000);
        other.hold_about().unwrap();
        assert!((2_000..20_000).contains(&reserved(&one)), "{}", reserved(&one));
        drop(other);
        assert_eq!((reserved(&one), one.lock().sizes.max()), (0, 0));
    }

    #[test]
    fn a_clone_has_a_reserve_of_its_own() {
        let mut one = Deletions::default();
        one.hold(5_000).unwrap();
        one.add(5_000);
        let clone = one.clone();
        drop(one);
        assert!(reserved(&clone) >= 5_000 && clone.lock().sizes.max() >= 5_000);
    }
}
