//! Searches count how often events define each attribute. Later insertions use the counts.

use crate::cost;
use crate::error::Error;
use crate::event::digest::{self, ValueDigest};
use crate::support::headroom::grow;

/// The maximal number of counted attributes. It bounds the cost for schemas with very many.
const COUNTED: usize = 1024;

/// Counts of events, and of those that define each attribute.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    events: u32,
    defined: Vec<u32>,
}

impl Seen {
    /// Makes room for `attributes` attributes.
    pub fn reserve(&mut self, attributes: usize) -> Result<(), Error> {
        grow(&mut self.defined, attributes.min(COUNTED))
    }

    /// Counts the event with these digests. An interrupted search may count it twice, which is harmless.
    pub fn note(&mut self, digests: &[ValueDigest]) {
        let is_room = self.events < u32::MAX;
        self.events += u32::from(is_room);
        for (defined, digest) in self.defined.iter_mut().zip(&digests[digest::FIRST..]) {
            *defined += u32::from(is_room & digest.is_defined());
        }
    }

    /// Returns the share of events that define each attribute, and resets the counts, if enough events were counted.
    pub fn take(&mut self) -> Option<impl Iterator<Item = f32> + '_> {
        let events = self.events;
        if events < cost::MIN_EVENTS {
            return None;
        }
        self.events = 0;
        Some(self.defined.iter_mut().map(move |defined| std::mem::take(defined) as f32 / events as f32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_events_tell_what_they_define() {
        let mut seen = Seen::default();
        seen.reserve(2 * COUNTED).unwrap();
        let digest = |is_defined| ValueDigest::new(0, if is_defined { 7 } else { digest::UNDEFINED });
        for round in 0..2 {
            for event in 0..cost::MIN_EVENTS {
                assert!(seen.take().is_none());
                let digests: Vec<ValueDigest> =
                    (0..=COUNTED as u32).map(|i| digest(i > 0 && event % i == round)).collect();
                seen.note(&digests);
            }
            let shares: Vec<f32> = seen.take().unwrap().collect();
            assert_eq!(shares.len(), COUNTED);
            assert_eq!(shares[1..4], [0.5, [86.0, 85.0][round as usize] / 256.0, 0.25]);
        }
        seen.events = u32::MAX;
        seen.note(&[digest(true), digest(true)]);
        assert_eq!((seen.events, seen.defined[0]), (u32::MAX, 0));
    }
}
