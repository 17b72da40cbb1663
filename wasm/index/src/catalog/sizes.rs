//! A histogram of the memory that deletions take. Its highest nonempty class bounds the memory of any deletion.

/// The number of classes of sizes: four to an octave.
const CLASSES: usize = 4 * u32::BITS as usize;

/// A histogram of sizes.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    /// The number of sizes in each class.
    counts: [u32; CLASSES],
    /// The highest class with a size, or 0 if there is none. Each insertion reads it.
    highest: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { counts: [0; CLASSES], highest: 0 }
    }
}

impl Sizes {
    pub fn add(&mut self, bytes: usize) {
        let class = class(bytes);
        self.counts[class] += 1;
        self.highest = self.highest.max(class);
    }

    /// Removes a size that was added.
    pub fn remove(&mut self, bytes: usize) {
        self.remove_many(class(bytes), 1);
    }

    /// Removes `count` sizes of a class that were added.
    pub fn remove_many(&mut self, class: usize, count: u32) {
        self.counts[class] -= count;
        if self.counts[self.highest] == 0 {
            self.highest = self.counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        }
    }

    /// Returns an upper bound of the largest size, less than a quarter above it.
    pub fn max(&self) -> usize {
        if self.counts[self.highest] > 0 {
            largest(self.highest)
        } else {
            0
        }
    }
}

/// Returns the class of a size, which is below 128: the position of its highest bit, and the two bits after it.
pub(crate) fn class(bytes: usize) -> usize {
    let bytes = bytes.max(4);
    let place = bytes.ilog2() as usize;
    (4 * place + (bytes >> (place - 2) & 3)).min(CLASSES - 1)
}

/// Returns the largest size of a class.
fn largest(class: usize) -> usize {
    let (place, quarter) = (class / 4, class % 4);
    ((5 + quarter) << (place - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_is_at_least_the_largest_size_and_hardly_more() {
        let mut sizes = Sizes::default();
        assert_eq!(sizes.max(), 0);
        let all: Vec<usize> = (4..400).chain((1..20).map(|n| n * 777_777)).collect();
        for (count, &bytes) in all.iter().enumerate() {
            sizes.add(bytes);
            let most = sizes.max();
            let largest = all[..=count].iter().max().unwrap();
            assert!((*largest..=largest + largest / 4).contains(&most), "{largest} {most}");
        }
        all.iter().for_each(|&bytes| sizes.remove(bytes));
        assert_eq!(sizes.max(), 0);
    }
}
