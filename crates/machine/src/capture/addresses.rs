//! IP addresses replaced so that the bits which tell two of them apart, and the networks that hold them,
//! stay.
//!
//! All addresses and networks of the machine make a tree of bits. Where it branches the bit stays; where it
//! does not, the bit is 0. So two addresses share a prefix afterwards exactly as long as before, and routes
//! match what they matched, but nothing is left of what the bits were. Loopback, "any", multicast and
//! broadcast stay as they are; of link-local addresses the network does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// So many fillings of the second byte (IPv4) or word (IPv6) are tried until no address is one that was
/// there.
const TRIES: u32 = 256;

/// No server has more addresses and routes; a hostile tree may.
const MOST: usize = 8192;

/// Addresses that were found, and what becomes of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    found: BTreeSet<IpAddr>,
    renamed: BTreeMap<IpAddr, IpAddr>,
}

impl Addresses {
    /// Notes an address.
    pub(crate) fn note(&mut self, address: IpAddr) {
        if self.found.len() < MOST {
            self.found.insert(address);
        }
    }

    /// Decides what becomes of all that were noted.
    pub(crate) fn settle(&mut self) {
        let v4 = self.found.iter().filter_map(|address| match address {
            IpAddr::V4(address) => Some((u128::from(address.to_bits()) << 96, kept4(*address))),
            IpAddr::V6(_) => None,
        });
        let v6 = self.found.iter().filter_map(|address| match address {
            IpAddr::V6(address) => Some((address.to_bits(), kept6(*address))),
            IpAddr::V4(_) => None,
        });
        // What stays must keep its bits: nothing else may come to lie there.
        let pinned4 = [(0, 32), (127 << 120, 8), (0xe << 124, 4), (u128::from(u32::MAX) << 96, 32)];
        let pinned6 = [(0, 128), (1, 128), (0xfe80 << 112, 64), (0xff << 120, 8)];
        let v4 = rename(&v4.collect(), &pinned4, 32, 16);
        let v6 = rename(&v6.collect(), &pinned6, 128, 32);
        let v4 = v4.into_iter().map(|(a, b)| (a >> 96, b >> 96));
        let v4 =
            v4.map(|(a, b)| (IpAddr::from(Ipv4Addr::from(a as u32)), IpAddr::from(Ipv4Addr::from(b as u32))));
        let v6 =
            v6.into_iter().map(|(a, b)| (IpAddr::from(Ipv6Addr::from(a)), IpAddr::from(Ipv6Addr::from(b))));
        self.renamed = v4.chain(v6).collect();
    }

    /// What becomes of an address; `None` where it was not noted. Beyond [`MOST`] all become the same.
    pub(crate) fn renamed(&self, address: IpAddr) -> Option<IpAddr> {
        let full = || match address {
            _ if self.found.len() < MOST => None,
            IpAddr::V4(_) => Some(Ipv4Addr::UNSPECIFIED.into()),
            IpAddr::V6(_) => Some(Ipv6Addr::UNSPECIFIED.into()),
        };
        self.renamed.get(&address).copied().or_else(full)
    }

    /// How many became another.
    pub(crate) fn replaced(&self) -> usize {
        self.renamed.iter().filter(|(before, after)| before != after).count()
    }
}

/// Leading bits that stay.
fn kept4(address: Ipv4Addr) -> u32 {
    match () {
        () if address.is_unspecified() || address.is_loopback() || address.octets()[0] >= 224 => 32,
        () => 0,
    }
}

fn kept6(address: Ipv6Addr) -> u32 {
    match () {
        () if address.is_unspecified() || address.is_loopback() => 128,
        // `fe80::` and `ff00::` themselves are networks of everybody.
        () if address.is_unicast_link_local() => {
            if address.to_bits() as u64 == 0 {
                128
            } else {
                64
            }
        }
        // Scope and flags; solicited-node groups hold bits of an address.
        () if address.is_multicast() => {
            if address.to_bits() << 16 == 0 {
                128
            } else {
                16
            }
        }
        () => 0,
    }
}

/// Bits are counted from the highest of 128. `fill_end`: the byte or word before this bit is filled to escape
/// from what was there.
fn rename(
    found: &BTreeMap<u128, u32>,
    pinned: &[(u128, u32)],
    width: u32,
    fill_end: u32,
) -> BTreeMap<u128, u128> {
    let kept = found.iter().map(|(bits, kept)| (*bits, *kept)).chain(pinned.iter().copied());
    // All prefixes of addresses (by their length and bits): those that exist, and those whose bits stay.
    let mut exist: BTreeSet<(u32, u128)> = BTreeSet::new();
    let mut stay: BTreeSet<(u32, u128)> = BTreeSet::new();
    for (bits, kept) in kept {
        for length in 1..=width {
            exist.insert((length, prefix(bits, length)));
            if length <= kept {
                stay.insert((length, prefix(bits, length)));
            }
        }
    }
    let one = |bits: u128, fill: u32| {
        (1..=width).fold(0u128, |renamed, length| {
            let here = prefix(bits, length);
            let bit = 1u128 << (128 - length);
            let branches = exist.contains(&(length, here ^ bit));
            let filled =
                (fill_end - 8..fill_end).contains(&(length - 1)) && fill >> (fill_end - length) & 1 == 1;
            match branches || stay.contains(&(length, here)) {
                true => renamed | here & bit,
                false if filled => renamed | bit,
                false => renamed,
            }
        })
    };
    let all =
        |fill: u32| -> BTreeMap<u128, u128> { found.keys().map(|bits| (*bits, one(*bits, fill))).collect() };
    let clean = |renamed: &BTreeMap<u128, u128>| {
        renamed.iter().all(|(before, after)| {
            found.get(before).is_some_and(|kept| *kept == width) || !found.contains_key(after)
        })
    };
    (0..TRIES).map(all).find(clean).unwrap_or_else(|| all(TRIES - 1))
}

fn prefix(bits: u128, length: u32) -> u128 {
    bits & u128::MAX.checked_shl(128 - length).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn renamed(texts: &str) -> Vec<String> {
        let mut addresses = Addresses::default();
        let all: Vec<IpAddr> = texts.split(' ').map(|text| text.parse().expect("an address")).collect();
        all.iter().for_each(|address| addresses.note(*address));
        addresses.settle();
        all.iter().map(|address| addresses.renamed(*address).expect("noted").to_string()).collect()
    }

    #[test]
    fn networks_hold_what_they_held() {
        let before =
            "0.0.0.0 127.0.0.1 145.146.100.0 145.146.100.7 145.146.100.1 10.20.0.5 10.20.0.0 255.255.255.255";
        let after = renamed(before);
        assert_eq!(
            (after[0].as_str(), after[1].as_str(), after[7].as_str()),
            ("0.0.0.0", "127.0.0.1", "255.255.255.255")
        );
        assert_eq!(after[2..4], ["128.0.0.0", "128.0.0.4"]);
        assert!(after[5].starts_with("8.0.0."), "{after:?}");
        // An address that would stay what it was is moved.
        assert_eq!(renamed("128.0.0.1 128.0.0.0"), ["128.1.0.1", "128.1.0.0"]);
    }

    #[test]
    fn link_local_addresses_lose_what_was_the_mac() {
        let after = renamed("fe80::21b:21ff:fe6a:b2c1 fe80:: 2001:610:1:80c::1 ::1 :: ff02::1:ff6a:b2c1");
        assert_eq!(after[0], "fe80::200:0:0:0");
        assert_eq!((after[1].as_str(), after[3].as_str(), after[4].as_str()), ("fe80::", "::1", "::"));
        assert!(
            after[2].starts_with("2000:") && after[5].starts_with("ff02:") && !after[5].contains("b2c1"),
            "{after:?}"
        );
    }

    proptest! {
        #[test]
        fn prefixes_are_as_long_as_before(bits in proptest::collection::btree_set(any::<u32>(), 1..12), narrow in any::<bool>()) {
            let all: Vec<Ipv4Addr> = bits.iter().map(|bits| Ipv4Addr::from(if narrow { bits & 0xff | 0x0a01_0200 } else { *bits })).collect();
            let mut addresses = Addresses::default();
            all.iter().for_each(|address| addresses.note((*address).into()));
            addresses.settle();
            let after = |address: &Ipv4Addr| match addresses.renamed((*address).into()) {
                Some(IpAddr::V4(after)) => after,
                other => panic!("{other:?}"),
            };
            for a in &all {
                for b in &all {
                    let shared = |a: Ipv4Addr, b: Ipv4Addr| (a.to_bits() ^ b.to_bits()).leading_zeros();
                    prop_assert_eq!(shared(*a, *b), shared(after(a), after(b)));
                }
                prop_assert_eq!(after(a).is_loopback(), a.is_loopback());
            }
        }
    }
}
