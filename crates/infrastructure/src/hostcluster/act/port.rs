//! A free local port for a cluster whose hosts are all simulated.
//!
//! No process holds the port until the API server of the cluster binds it. So the port is below the range of ports that
//! the kernel assigns to clients, and is not promised to another HostCluster.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, TcpListener};

const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// A port of the address `host` that no process listens on and that no cluster has; of all local addresses, if `host`
/// is a name. The search starts at a port that depends on `seed`, so that clusters do not compete for the same ports.
pub(super) fn find(host: &str, promised: &BTreeSet<i32>, seed: u64) -> Option<u16> {
    let address: IpAddr = host.parse().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let start = u16::try_from(seed % u64::from(COUNT)).unwrap_or_default();
    (0..COUNT)
        .map(|step| FIRST + (start + step) % COUNT)
        .filter(|port| !promised.contains(&i32::from(*port)))
        .find(|port| TcpListener::bind((address, *port)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promised_and_busy_ports_are_passed_over() {
        let first = find("127.0.0.1", &BTreeSet::new(), 7).expect("a port");
        let promised = BTreeSet::from([i32::from(first)]);
        let second = find("127.0.0.1", &promised, 7).expect("a port");
        assert_ne!(first, second);
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, second)).expect("free");
        let third = find("127.0.0.1", &promised, 7).expect("a port");
        assert!(third != first && third != second);
        assert!((FIRST..FIRST + COUNT).contains(&third));
    }
}
