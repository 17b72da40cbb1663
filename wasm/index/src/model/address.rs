//! Internet addresses and networks.
//!
//! An IPv6 address that maps an IPv4 address (`::ffff:10.0.0.1`) is that IPv4 address. Otherwise the two families have
//! nothing in common: `::/0` contains no IPv4 address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::support::heap_sort::sort;

/// The bits of the prefix under which IPv6 maps IPv4 addresses.
const MAPPED: u32 = 96;

/// An address of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    is_v6: bool,
    /// In network byte order. An IPv4 address has the first four.
    bytes: [u8; 16],
}

/// All addresses of one family that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The first address. Networks are ordered by it, so a network comes before those inside it.
    first: Address,
    /// The prefix length: the number of bits that all addresses share.
    bits: u8,
}

/// The reason why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is neither an address nor a network.
    Malformed,
    /// The prefix length exceeds the width of the family, which is this.
    TooManyBits(u8),
    /// The address is not the first one of its network. This is the network.
    NotFirst(Network),
}

impl Address {
    /// Parses an address. Returns `None` if the text is not one.
    ///
    /// ```
    /// use be_tree_index::model::address::Address;
    ///
    /// let mapped = Address::parse(b"::ffff:10.0.0.1").unwrap();
    /// assert_eq!(mapped.to_string(), "10.0.0.1");
    /// assert_eq!(Address::parse(b"2001:DB8:0::1").unwrap().to_string(), "2001:db8::1");
    /// assert_eq!(Address::parse(b"10.0.0.256"), None);
    /// ```
    pub fn parse(text: &[u8]) -> Option<Address> {
        // The longest address has 45 characters.
        let text = std::str::from_utf8(text.get(..text.len().min(64))?).ok()?;
        Some(Address::of(text.parse().ok()?))
    }

    fn of(address: IpAddr) -> Address {
        match address {
            IpAddr::V4(v4) => Address::v4(v4.octets()),
            IpAddr::V6(v6) => Address::v6(v6.octets()),
        }
    }

    /// Returns the IPv4 address with these bytes.
    pub fn v4(octets: [u8; 4]) -> Address {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&octets);
        Address { is_v6: false, bytes }
    }

    /// Returns the IPv6 address with these bytes, or the IPv4 address that it maps.
    pub fn v6(bytes: [u8; 16]) -> Address {
        match Ipv6Addr::from(bytes).to_ipv4_mapped() {
            Some(v4) => Address::v4(v4.octets()),
            None => Address { is_v6: true, bytes },
        }
    }

    /// Returns whether this is an IPv6 address, and its 16 bytes. An IPv4 address has the first four.
    pub fn parts(self) -> (bool, [u8; 16]) {
        (self.is_v6, self.bytes)
    }

    /// Returns the address of [`Address::parts`], or `None` if no address has such parts.
    pub fn from_parts(is_v6: bool, bytes: [u8; 16]) -> Option<Address> {
        let [first @ .., _, _, _, _, _, _, _, _, _, _, _, _] = bytes;
        let address = if is_v6 { Address::v6(bytes) } else { Address::v4(first) };
        (address.parts() == (is_v6, bytes)).then_some(address)
    }

    /// Returns the network of all addresses that share this address's first `bits` bits.
    #[inline]
    pub fn network(self, bits: u8) -> Network {
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        let bytes = (u128::from_be_bytes(self.bytes) & mask).to_be_bytes();
        Network { first: Address { bytes, ..self }, bits }
    }

    /// Returns the number of bits of an address of this family.
    pub fn width(self) -> u8 {
        if self.is_v6 {
            128
        } else {
            32
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            bytes if self.is_v6 => Ipv6Addr::from(bytes).fmt(f),
            [a, b, c, d, ..] => Ipv4Addr::new(a, b, c, d).fmt(f),
        }
    }
}

impl Network {
    /// Parses a network: an address alone, or an address and a prefix length.
    ///
    /// ```
    /// use be_tree_index::model::address::{Address, Network, Refusal};
    ///
    /// let network = Network::parse(b"10.0.0.0/8").unwrap();
    /// assert!(network.contains(Address::parse(b"10.1.2.3").unwrap()));
    /// assert_eq!(Network::parse(b"10.0.0.1").unwrap().to_string(), "10.0.0.1");
    /// assert_eq!(Network::parse(b"10.1.0.0/8"), Err(Refusal::NotFirst(network)));
    /// assert_eq!(Network::parse(b"10.0.0.0/33"), Err(Refusal::TooManyBits(32)));
    /// ```
    ///
    /// # Errors
    ///
    /// The [`Refusal`] says why the text is no network.
    pub fn parse(text: &[u8]) -> Result<Network, Refusal> {
        let slash = text.iter().position(|&byte| byte == b'/');
        let (address, bits) = match slash {
            None => (text, None),
            Some(at) => (&text[..at], Some(bits_of(&text[at + 1..]).ok_or(Refusal::Malformed)?)),
        };
        let as_given = std::str::from_utf8(address).ok().and_then(|text| text.parse::<IpAddr>().ok());
        let given = as_given.ok_or(Refusal::Malformed)?;
        let width = if given.is_ipv6() { 128 } else { 32 };
        let bits = bits.unwrap_or(width);
        if bits > u32::from(width as u8) {
            return Err(Refusal::TooManyBits(width as u8));
        }
        let address = Address::of(given);
        let bits = match given.is_ipv6() && !address.is_v6 {
            // A network of mapped addresses is an IPv4 network. A shorter prefix would also contain other IPv6 addresses.
            true if bits >= MAPPED => bits - MAPPED,
            true => return Err(Refusal::Malformed),
            false => bits,
        };
        let network = address.network(bits as u8);
        match network.first == address {
            true => Ok(network),
            false => Err(Refusal::NotFirst(network)),
        }
    }

    /// Returns whether `address` is in the network.
    #[inline]
    pub fn contains(self, address: Address) -> bool {
        address.network(self.bits) == self
    }

    /// Returns the prefix length.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// Returns the first address.
    pub fn first(self) -> Address {
        self.first
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits == self.first.width() {
            self.first.fmt(f)
        } else {
            write!(f, "{}/{}", self.first, self.bits)
        }
    }
}

/// Parses a number of one to three digits, without leading zeros.
fn bits_of(digits: &[u8]) -> Option<u32> {
    let is_plain = matches!(digits, [b'0'] | [b'1'..=b'9'] | [b'1'..=b'9', _] | [b'1'..=b'9', _, _]);
    std::str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()
}

/// Sorts `networks`, and removes each that another one contains.
pub fn disjoint(networks: &mut Vec<Network>) {
    sort(networks, |a, b| a < b);
    // In sorted order a network follows those that contain it, with only networks inside these in between.
    networks.dedup_by(|next, kept| kept.contains(next.first));
}

/// Returns whether one of `networks`, which are [`disjoint`], contains `address`.
pub fn any_contains(networks: &[Network], address: Address) -> bool {
    let behind = networks.partition_point(|network| network.first <= address);
    behind.checked_sub(1).is_some_and(|last| networks[last].contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;

    fn address(random: &mut Random) -> Address {
        let byte = |random: &mut Random| random.pick(&[0, 0, 1, 127, 128, 255]);
        let mut bytes = [0; 16];
        bytes.iter_mut().for_each(|place| *place = byte(random));
        match random.below(3) {
            0 => Address::v6(bytes),
            1 => Address::v6([&[0; 10][..], &[255, 255], &bytes[..4]].concat().try_into().unwrap()),
            _ => Address::v4(bytes[..4].try_into().unwrap()),
        }
    }

    fn network(random: &mut Random) -> Network {
        let address = address(random);
        address.network(random.below(usize::from(address.width()) + 1) as u8)
    }

    /// Compares the prefix bit by bit.
    fn shares_bits(network: Network, address: Address) -> bool {
        let bit = |address: Address, at: u8| address.bytes[usize::from(at / 8)] >> (7 - at % 8) & 1;
        network.first.is_v6 == address.is_v6 && (0..network.bits).all(|at| bit(network.first, at) == bit(address, at))
    }

    #[test]
    fn a_network_contains_the_addresses_that_share_its_bits() {
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let (network, other) = (network(&mut random), address(&mut random));
            assert_eq!(network.contains(other), shares_bits(network, other), "{network} {other}");
            assert_eq!(Network::parse(network.to_string().as_bytes()), Ok(network));
            assert_eq!(Address::parse(other.to_string().as_bytes()), Some(other));
            let (is_v6, bytes) = other.parts();
            assert_eq!(Address::from_parts(is_v6, bytes), Some(other));
        }
    }

    #[test]
    fn a_list_without_contained_networks_contains_the_same_addresses() {
        let mut random = Random::new(2);
        for _ in 0..2_000 {
            let all = random.several(6, network);
            let mut kept = all.clone();
            disjoint(&mut kept);
            for address in random.several(20, address).into_iter().chain(all.iter().map(|network| network.first)) {
                let expected = all.iter().any(|network| network.contains(address));
                assert_eq!(any_contains(&kept, address), expected, "{all:?} {address}");
            }
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "10", "10.0.0", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/-1", "::/0x1", "1.2.3.4 ", "::1%eth0", "é"]
        {
            assert_eq!(Network::parse(text.as_bytes()), Err(Refusal::Malformed), "{text}");
        }
        assert_eq!(Network::parse(b"::ffff:0:0/95"), Err(Refusal::Malformed));
        assert_eq!(Network::parse(b"::ffff:10.0.0.0/104").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(Network::parse(b"::/129"), Err(Refusal::TooManyBits(128)));
        assert_eq!(Network::parse(b"::/0").unwrap().to_string(), "::/0");
        assert_eq!(Address::from_parts(false, [1; 16]), None);
    }
}
