//! Parses the facts that a host reports. Pure. Values from a host are truncated to the limits of the API.

use capstan_api::core::{MachineAddress, MachineAddressType};
use capstan_api::infrastructure::HostFacts;
use capstan_infrastructure::Reached;
use std::net::IpAddr;

use crate::script::Answer;

/// What asks for all of this.
pub(crate) const SCRIPT: &str = include_str!("sh/facts.sh");

/// More addresses than a host has a use for.
const MOST_ADDRESSES: usize = 32;
/// Devices that container networks make: their addresses lead nowhere from outside.
const CONTAINER_DEVICES: [&str; 9] =
    ["cali", "cilium", "cni", "docker", "flannel", "kube-", "lxc", "nodelocaldns", "veth"];

/// The host's own words.
pub(crate) fn read(answer: &Answer) -> Reached {
    let text = |key: &str, most: usize| {
        answer.get(key).map(|value| plain(value, most)).filter(|text| !text.is_empty())
    };
    let number =
        |key: &str| answer.get(key).and_then(|value| value.parse::<i64>().ok()).filter(|number| *number >= 0);
    let hostname = text("hostname", 253);
    Reached {
        addresses: addresses(answer, hostname.as_deref()),
        problems: Vec::new(),
        facts: HostFacts {
            hostname,
            machine_id: text("machine-id", 64),
            boot_id: text("boot-id", 64),
            os_image: text("os", 256),
            kernel_version: text("kernel", 256),
            architecture: text("architecture", 32).map(|name| architecture(&name).to_owned()),
            cpus: number("cpus").and_then(|count| count.try_into().ok()),
            memory_bytes: number("memory-kib").and_then(|kib| kib.checked_mul(1024)),
        },
    }
}

/// As Go and container images call it.
pub(crate) fn architecture(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "armv7l" | "armv6l" => "arm",
        "i386" | "i686" => "386",
        other => other,
    }
}

/// The address that we came to first: it is known to lead there.
fn addresses(answer: &Answer, hostname: Option<&str>) -> Vec<MachineAddress> {
    // Theirs, their port, ours, our port; theirs being us.
    let reached = answer.get("connection").and_then(|words| words.split(' ').nth(2));
    let listed = answer.all("address").filter_map(|line| {
        let (device, address) = line.split_once(' ')?;
        (!CONTAINER_DEVICES.iter().any(|prefix| device.starts_with(prefix))).then_some(address)
    });
    let mut found: Vec<IpAddr> = Vec::new();
    for address in reached.into_iter().chain(listed).filter_map(|text| text.parse().ok()) {
        if !found.contains(&address) && found.len() < MOST_ADDRESSES {
            found.push(address);
        }
    }
    let ip = |address: IpAddr| (MachineAddressType::InternalIP, address.to_string());
    let name = hostname.map(|name| (MachineAddressType::Hostname, name.to_owned()));
    found.into_iter().map(ip).chain(name).map(|(type_, address)| MachineAddress { type_, address }).collect()
}

/// One line of a machine's, without what would play tricks on a terminal, and not too long.
pub(crate) fn plain(text: &str, most: usize) -> String {
    text.trim().chars().filter(|letter| !letter.is_control()).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_was_reached_comes_first() {
        let answer = Answer::of(&[
            ("hostname", "rack-1"),
            ("connection", "10.0.0.9 51000 10.0.0.1 22"),
            ("address", "eth1 192.168.7.1"),
            ("address", "cni0 10.42.0.1"),
            ("address", "eth0 10.0.0.1"),
            ("address", "eth0 fd00::1"),
            ("address", "eth0 nonsense"),
        ]);
        let addresses: Vec<String> =
            read(&answer).addresses.into_iter().map(|address| address.address).collect();
        assert_eq!(addresses, ["10.0.0.1", "192.168.7.1", "fd00::1", "rack-1"]);
    }

    #[test]
    fn a_hostile_host_says_little() {
        let long = "x".repeat(10_000);
        let answer = Answer::of(&[
            ("hostname", "evil\u{1b}[31m\u{7}"),
            ("os", &long),
            ("cpus", "-7"),
            ("memory-kib", "9223372036854775807"),
            ("architecture", "x86_64"),
        ]);
        let facts = read(&answer).facts;
        assert_eq!(facts.hostname.as_deref(), Some("evil[31m"));
        assert_eq!(facts.os_image.map(|os| os.len()), Some(256));
        assert_eq!((facts.cpus, facts.memory_bytes), (None, None));
        assert_eq!(facts.architecture.as_deref(), Some("amd64"));
    }
}
