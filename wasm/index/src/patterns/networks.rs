//! The networks that expressions test for: a table by prefix, and the prefix lengths in it.
//!
//! An address finds its networks by one look-up for each prefix length: at most 33 for IPv4 and 129 for IPv6.

use std::hash::Hasher;

use super::members::{Members, Seat};
use crate::handles::PredicateId;
use crate::model::address::{Address, Network};
use crate::support::footprint::of_table;
use crate::support::hash::Words;
use crate::support::headroom::growth;

#[derive(Clone, Debug, Default)]
pub(super) struct Networks {
    /// The prefix lengths of each family, ascending, each with its number of networks.
    bits: [Vec<(u8, u32)>; 2],
    members: Members,
}

fn hash(network: Network) -> u64 {
    let (is_v6, bytes) = network.first().parts();
    let [high, low] =
        [&bytes[..8], &bytes[8..]].map(|half| half.iter().fold(0, |all, &byte| all << 8 | u64::from(byte)));
    Words::default().add(high).add(low ^ u64::from(network.bits()) << 8 ^ u64::from(is_v6)).finish()
}

fn family(network: Network) -> usize {
    usize::from(network.first().parts().0)
}

impl Networks {
    /// Adds the networks of a list. `of` returns the networks of a list.
    pub fn insert<'a>(&mut self, networks: &[Network], id: PredicateId, of: impl Fn(PredicateId) -> &'a [Network]) {
        for (position, &network) in networks.iter().enumerate() {
            let counts = &mut self.bits[family(network)];
            match counts.binary_search_by_key(&network.bits(), |&(bits, _)| bits) {
                Ok(at) => counts[at].1 += 1,
                Err(at) => counts.insert(at, (network.bits(), 1)),
            }
            let is = |seat: Seat| of(seat.list)[seat.position as usize] == network;
            self.members.insert(id, position as u32, hash(network), is);
        }
    }

    /// Removes the networks of a list. Allocates nothing.
    pub fn remove(&mut self, networks: &[Network], id: PredicateId) {
        for (position, &network) in networks.iter().enumerate() {
            let counts = &mut self.bits[family(network)];
            let Ok(at) = counts.binary_search_by_key(&network.bits(), |&(bits, _)| bits) else {
                unreachable!("network {network} was inserted")
            };
            counts[at].1 -= 1;
            if counts[at].1 == 0 {
                counts.remove(at);
            }
            self.members.remove(id, position as u32, hash(network));
        }
    }

    /// Calls `found` with each list that has a network around `address`. `of` returns the networks of a list.
    pub fn each<'a>(
        &self,
        address: Address,
        of: impl Fn(PredicateId) -> &'a [Network],
        found: &mut impl FnMut(PredicateId),
    ) {
        for &(bits, _) in &self.bits[usize::from(address.parts().0)] {
            let network = address.network(bits);
            let is = |seat: Seat| of(seat.list)[seat.position as usize] == network;
            self.members.each(hash(network), is, found);
        }
    }

    /// Returns whether there is no network.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the bytes that the tables take of the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bits.iter().map(of_table).sum::<usize>() + self.members.heap_bytes()
    }

    /// Returns the bytes by which `more` networks may grow the tables.
    pub fn growth(&self, more: usize) -> usize {
        self.bits.iter().map(|bits| growth(bits, more.min(129))).sum::<usize>() + self.members.growth(more)
    }
}
