//! The bridge that machines are attached to. It has no uplink: machines reach each other and this computer, and no
//! other network.

use std::fs::File;
use std::net::Ipv4Addr;

use serde::Deserialize;

use crate::command::run;
use crate::error::{Error, Result};
use crate::subnet::{Block, Subnet};

/// Held while a network is chosen and made, so that two processes do not choose the same.
const LOCK: &str = "/run/capstan-nspawn-network.lock";

/// A bridge with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    bridge: String,
    subnet: Subnet,
}

impl Network {
    /// Makes a bridge on a network that nothing on this machine uses.
    pub(crate) fn make(bridge: &str) -> Result<Self> {
        let lock = File::create(LOCK).map_err(Error::io("open", LOCK))?;
        lock.lock().map_err(Error::io("lock", LOCK))?;
        let taken = taken(&run("ip", &["-json", "-4", "address"])?, &run("ip", &["-json", "-4", "route"])?);
        let subnet = Subnet::free(&taken).ok_or(Error::Full { what: "network in 10.66.0.0/16" })?;
        run("ip", &["link", "add", "name", bridge, "type", "bridge"])?;
        let network = Self { bridge: bridge.to_owned(), subnet };
        let address = format!("{}/24", subnet.gateway());
        let up = run("ip", &["address", "add", &address, "dev", bridge])
            .and_then(|_| run("ip", &["link", "set", "dev", bridge, "up"]));
        if let Err(error) = up {
            Self::remove(bridge);
            return Err(error);
        }
        Ok(network)
    }

    /// Uses an existing bridge, which must have an IPv4 address that ends in `.1` with a prefix of 24 bits.
    ///
    /// # Errors
    /// If there is no such bridge, or it has no such address.
    pub fn of_bridge(bridge: &str) -> Result<Self> {
        let unusable = |why| Error::Bridge { bridge: bridge.to_owned(), why };
        let printed = run("ip", &["-json", "-4", "address", "show", "dev", bridge]).map_err(|_| {
            unusable("there is no such network link; make it with `ip link add name … type bridge`")
        })?;
        let address = gateway(&printed).ok_or_else(|| {
            unusable("it must have an IPv4 address ending in .1 with a prefix of 24 bits: `ip address add …`")
        })?;
        Ok(Self { bridge: bridge.to_owned(), subnet: Subnet::of(address) })
    }

    /// Takes a bridge away, if it is there.
    pub(crate) fn remove(bridge: &str) {
        // An error says that it is gone already.
        let _ = run("ip", &["link", "delete", "dev", bridge, "type", "bridge"]);
    }

    /// Name of the bridge.
    pub fn bridge(&self) -> &str {
        &self.bridge
    }

    /// The addresses of the machines on it.
    pub fn subnet(&self) -> Subnet {
        self.subnet
    }
}

/// Takes a network link away, if it is there.
pub(crate) fn remove_link(name: &str) {
    let _ = run("ip", &["link", "delete", "dev", name]);
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    addr_info: Vec<AddressInfo>,
}

#[derive(Deserialize)]
struct AddressInfo {
    local: Option<Ipv4Addr>,
    #[serde(default)]
    prefixlen: u8,
}

#[derive(Deserialize)]
struct Route {
    dst: String,
}

/// What `ip -json address` and `ip -json route` say is in use. What cannot be read is not in the way.
fn taken(addresses: &str, routes: &str) -> Vec<Block> {
    let links: Vec<Link> = serde_json::from_str(addresses).unwrap_or_default();
    let routes: Vec<Route> = serde_json::from_str(routes).unwrap_or_default();
    let addresses = links.iter().flat_map(|link| &link.addr_info);
    addresses
        .filter_map(|info| Some(Block { address: info.local?, prefix: info.prefixlen.min(32) }))
        .chain(routes.iter().filter_map(|route| Block::parse(&route.dst)))
        .collect()
}

/// The address of a bridge that machines can use as their way out.
fn gateway(addresses: &str) -> Option<Ipv4Addr> {
    let links: Vec<Link> = serde_json::from_str(addresses).unwrap_or_default();
    let mut infos = links.iter().flat_map(|link| &link.addr_info).filter(|info| info.prefixlen == 24);
    infos.find_map(|info| info.local.filter(|address| address.octets()[3] == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: &str = r#"[
        {"ifname":"lo","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8}]},
        {},
        {"ifname":"cap-1","addr_info":[{"family":"inet","local":"10.66.1.1","prefixlen":24,"broadcast":"10.66.1.255"}]}
    ]"#;
    const ROUTES: &str =
        r#"[{"dst":"default","gateway":"192.168.1.1"},{"dst":"10.66.2.0/24"},{"dst":"10.66.3.7"}]"#;

    #[test]
    fn addresses_and_routes_are_in_use() {
        let taken = taken(ADDRESSES, ROUTES);
        assert_eq!(taken.len(), 4);
        assert_eq!(Subnet::free(&taken).map(|subnet| subnet.to_string()).as_deref(), Some("10.66.4.0/24"));
        assert_eq!(super::taken("", "no json"), []);
    }

    #[test]
    fn a_bridge_has_one_address_that_machines_can_use() {
        assert_eq!(gateway(ADDRESSES), Some(Ipv4Addr::new(10, 66, 1, 1)));
        assert_eq!(gateway(r#"[{"addr_info":[{"local":"10.0.0.1","prefixlen":16}]}]"#), None);
        assert_eq!(gateway(r#"[{"addr_info":[{"local":"10.0.0.9","prefixlen":24}]}]"#), None);
        assert_eq!(gateway("[]"), None);
    }
}
