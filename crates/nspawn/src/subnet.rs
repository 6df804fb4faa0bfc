//! Allocation of subnets and addresses. Pure: takes the addresses in use, and returns a free one.

use std::fmt;
use std::net::Ipv4Addr;

/// A /24 network: `a.b.c.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subnet([u8; 3]);

/// An address with the length of its network's prefix, as `ip` prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u8,
}

impl Block {
    /// Reads `10.0.0.1/24` or `10.0.0.1`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, "32"));
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
        Some(Self { address: address.parse().ok()?, prefix })
    }

    fn range(self) -> (u32, u32) {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
        let first = u32::from(self.address) & mask;
        (first, first | !mask)
    }
}

impl Subnet {
    /// The /24 network of an address.
    pub fn of(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        Self([a, b, c])
    }

    /// The address of this computer in the network, which is the machines' default gateway.
    pub fn gateway(self) -> Ipv4Addr {
        self.address(1)
    }

    fn address(self, host: u8) -> Ipv4Addr {
        let Self([a, b, c]) = self;
        Ipv4Addr::new(a, b, c, host)
    }

    fn overlaps(self, block: Block) -> bool {
        let (first, last) = block.range();
        first <= u32::from(self.address(255)) && u32::from(self.address(0)) <= last
    }

    /// The first network that nothing on this machine uses. They are taken from 10.66.0.0/16: k3s has
    /// 10.42.0.0/16 and 10.43.0.0/16 for itself, and container engines like 172.16.0.0/12.
    pub(crate) fn free(taken: &[Block]) -> Option<Self> {
        (1..=254)
            .map(|third| Self([10, 66, third]))
            .find(|candidate| !taken.iter().any(|&block| candidate.overlaps(block)))
    }

    /// The lowest address for a machine that none has.
    pub(crate) fn free_address(self, taken: &[Ipv4Addr]) -> Option<Ipv4Addr> {
        (10..=250).map(|host| self.address(host)).find(|address| !taken.contains(address))
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/24", self.address(0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(text: &str) -> Block {
        Block::parse(text).expect("a block")
    }

    #[test]
    fn blocks_are_read_as_ip_prints_them() {
        assert_eq!(block("10.0.0.1/24"), Block { address: Ipv4Addr::new(10, 0, 0, 1), prefix: 24 });
        assert_eq!(block("10.0.0.1").prefix, 32);
        for bad in ["", "default", "10.0.0/8", "10.0.0.0/33", "10.0.0.0/-1", "fe80::1/64"] {
            assert_eq!(Block::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_first_network_that_nobody_uses_is_taken() {
        let free = |taken: &[&str]| {
            let taken: Vec<Block> = taken.iter().map(|text| block(text)).collect();
            Subnet::free(&taken).map(|subnet| subnet.to_string())
        };
        assert_eq!(free(&[]).as_deref(), Some("10.66.1.0/24"));
        assert_eq!(free(&["10.66.1.1/24", "192.168.0.4/16"]).as_deref(), Some("10.66.2.0/24"));
        assert_eq!(free(&["10.66.0.0/22"]).as_deref(), Some("10.66.4.0/24"));
        assert_eq!(free(&["10.66.1.77", "10.66.2.0/30"]).as_deref(), Some("10.66.3.0/24"));
        // A default route is no reason to have no networks; `ip` does not print it as a block.
        assert_eq!(free(&["10.0.0.0/8"]), None);
    }

    #[test]
    fn addresses_are_given_out_from_below() {
        let subnet = Subnet::of(Ipv4Addr::new(10, 66, 3, 1));
        assert_eq!(subnet.gateway(), Ipv4Addr::new(10, 66, 3, 1));
        let first = subnet.free_address(&[]).expect("free");
        let second = subnet.free_address(&[first]).expect("free");
        assert_eq!((first.octets()[3], second.octets()[3]), (10, 11));
        let all: Vec<Ipv4Addr> = (0..=255).map(|host| subnet.address(host)).collect();
        assert_eq!(subnet.free_address(&all), None);
    }

    proptest! {
        #[test]
        fn a_free_network_overlaps_nothing(taken in proptest::collection::vec((any::<u32>(), 9_u8..=32), 0..40)) {
            let taken: Vec<Block> = taken
                .into_iter()
                // Mostly inside the range that matters.
                .map(|(bits, prefix)| Block { address: (0x0a42_0000 | (bits & 0xffff)).into(), prefix: prefix.max(18) })
                .collect();
            if let Some(subnet) = Subnet::free(&taken) {
                for block in taken {
                    prop_assert!(!subnet.overlaps(block));
                }
            }
        }
    }
}
