//! Which servers are reached without a proxy, by the rules of `NO_PROXY` in programs written in Go. Pure.

use std::net::IpAddr;

/// Whether an entry is about this server.
pub fn is_listed(entries: &[String], host: &str, port: u16) -> bool {
    let host = host.to_ascii_lowercase();
    entries.iter().any(|entry| is_about(&entry.to_ascii_lowercase(), &host, port))
}

fn is_about(entry: &str, host: &str, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, length)) = entry.split_once('/') {
        return host.parse().is_ok_and(|address| contains(network, length, address));
    }
    let (name, of_port) = match entry.rsplit_once(':') {
        // The colons of an IPv6 address are no port.
        Some((name, text)) if !name.contains(':') || name.ends_with(']') => (name, text.parse().ok()),
        _ => (entry, None),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if of_port.is_some_and(|of_port: u16| of_port != port) {
        return false;
    }
    if let (Ok(listed), Ok(address)) = (name.parse::<IpAddr>(), host.parse::<IpAddr>()) {
        return listed == address;
    }
    match name.strip_prefix("*.").or_else(|| name.strip_prefix('.')) {
        Some(domain) => is_below(host, domain),
        None => host == name || is_below(host, name),
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

/// Whether a block of addresses contains this one.
fn contains(network: &str, length: &str, address: IpAddr) -> bool {
    let (Ok(network), Ok(length)) = (network.parse::<IpAddr>(), length.parse::<u32>()) else { return false };
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            u32::from(network) & mask == u32::from(address) & mask
        }
        (IpAddr::V6(network), IpAddr::V6(address)) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            u128::from(network) & mask == u128::from(address) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_go_reads_them() {
        for (entry, host, expected) in [
            ("*", "mirror.example", true),
            ("mirror.example", "mirror.example", true),
            ("Mirror.Example", "mirror.example", true),
            ("mirror.example", "a.mirror.example", true),
            ("mirror.example", "notmirror.example", false),
            (".mirror.example", "a.mirror.example", true),
            (".mirror.example", "mirror.example", false),
            ("*.mirror.example", "a.b.mirror.example", true),
            ("mirror.example:8443", "mirror.example", true),
            ("mirror.example:443", "mirror.example", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1:8443", "10.0.0.1", true),
            ("10.0.0.1:443", "10.0.0.1", false),
            ("10.0.0.1", "10.0.0.10", false),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "11.0.0.1", true),
            ("10.0.0.0/33", "10.0.0.1", false),
            ("10.0.0.0/8", "mirror.example", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::1", "::1", true),
            ("[::1]", "::1", true),
            ("[::1]:8443", "::1", true),
            ("[::1]:443", "::1", false),
            ("::/0", "10.0.0.1", false),
            ("", "mirror.example", false),
        ] {
            assert_eq!(is_listed(&[entry.to_owned()], host, 8443), expected, "{entry} {host}");
        }
        assert!(!is_listed(&[], "mirror.example", 443));
    }
}
