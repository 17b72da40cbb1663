//! Facts in partitions: engines of the same rules, each with the facts of some keys.
//!
//! Facts with equal keys lie in one partition. [`Engine::partitioned`] refuses rules that would join facts of different keys.
//!
//! [`Engine::partitioned`]: crate::Engine::partitioned

pub use crate::keys::By;
use crate::keys::Keys;
use crate::value::Value;

/// The partitions, and the keys of fact types.
#[derive(Clone, Debug)]
pub struct Partitions {
    count: u32,
    keys: Keys,
}

impl Partitions {
    pub(crate) fn new(count: u32, keys: Keys) -> Self {
        Partitions { count: count.max(1), keys }
    }

    /// Returns the partition of a fact with this type and these values, or `None` if it goes to all partitions.
    pub fn of(&self, ty: usize, values: &[Option<Value>]) -> Option<u32> {
        let key = self.keys[ty]?;
        let hash = match values[usize::from(key)] {
            // A fact with an undefined key joins with nothing, so any partition will do.
            None => 0,
            Some(Value::Integer(integer)) => hash(1, &integer.to_le_bytes()),
            Some(Value::Float(float)) => hash(2, &float.to_le_bytes()),
            Some(Value::Boolean(boolean)) => hash(3, &[boolean.into()]),
            Some(Value::String(bytes)) => hash(4, bytes),
        };
        Some((((hash >> 32) * u64::from(self.count)) >> 32) as u32)
    }
}

/// Returns the hash of a key: FNV-1a, and then the mixing of SplitMix64. Folders on disk depend on it, so it never changes.
fn hash(kind: u8, bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in std::iter::once(&kind).chain(bytes) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
