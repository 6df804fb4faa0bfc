//! Formats of addresses: IP, CIDR, MAC, URI, email.

use std::net::{Ipv4Addr, Ipv6Addr};

/// An IP address; IPv4 with leading zeros is read as decimal, as Go did before 1.17.
pub(super) fn is_ip(text: &str) -> bool {
    sloppy_v4(text).is_some() || sloppy_v6(text)
}

/// An address and the length of its prefix.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match (sloppy_v4(address), sloppy_v6(address)) {
        (Some(_), _) => 32,
        (None, true) => 128,
        (None, false) => return false,
    };
    !length.is_empty()
        && length.bytes().all(|c| c.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= most)
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = text.split('.').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        digits.then(|| part.trim_start_matches('0')).map(|part| if part.is_empty() { "0" } else { part })
    });
    let mut next = || octets.next().flatten()?.parse::<u8>().ok();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    (text.split('.').count() == 4).then_some(address)
}

fn sloppy_v6(text: &str) -> bool {
    match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => {
            sloppy_v4(tail).is_some_and(|v4| format!("{head}:{v4}").parse::<Ipv6Addr>().is_ok())
        }
        _ => text.parse::<Ipv6Addr>().is_ok(),
    }
}

/// Six, eight or twenty octets with colons or dashes between, or dots between pairs of them.
pub(super) fn is_mac(text: &str) -> bool {
    let (separator, width) = match text.as_bytes() {
        [_, _, c @ (b':' | b'-'), ..] => (char::from(*c), 2),
        [_, _, _, _, b'.', ..] => ('.', 4),
        _ => return false,
    };
    let groups: Vec<_> = text.split(separator).collect();
    let octets = groups.len() * width / 2;
    matches!(octets, 6 | 8 | 20)
        && groups.iter().all(|group| group.len() == width && group.bytes().all(|c| c.is_ascii_hexdigit()))
}

/// An absolute path or an absolute URI, as in the first line of an HTTP request.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|c| c < 0x20 || c == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = scheme(text) else { return false };
    let (rest, _query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        // `mailto:someone` is opaque and fine; `someone` is neither a path nor a URI.
        return !scheme.is_empty();
    }
    // A path that starts with two slashes names a host, unless there are three of them and no scheme.
    let named = rest.strip_prefix("//").filter(|rest| !scheme.is_empty() || !rest.starts_with('/'));
    let (authority, path) = match named {
        Some(named) => named.find('/').map_or((named, ""), |slash| named.split_at(slash)),
        None => ("", rest),
    };
    is_authority(authority) && escapes_hold(path)
}

/// The scheme and what follows it; `None` if the text starts with a colon or a digit that would be one.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (i, c) in text.bytes().enumerate() {
        match c {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return None,
            b':' => return Some((&text[..i], &text[i + 1..])),
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user_ok = user.bytes().all(|c| c.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&c))
        && escapes_hold(user);
    let (host, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((_, port)) => ("", port),
            None => return false,
        },
        None => host.find(':').map_or((host, ""), |colon| host.split_at(colon)),
    };
    let port_ok = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|c| c.is_ascii_digit()));
    let host_ok = host
        .bytes()
        .all(|c| c >= 0x80 || c.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]<>\"%".contains(&c));
    user_ok && port_ok && host_ok && escapes_hold(host)
}

fn escapes_hold(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|c| c.is_ascii_hexdigit()))
}

/// `local@domain`, alone or as `Name <local@domain>`. Comments, groups and encoded words are refused.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((_, address)) => address,
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom = |c: char| c.is_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let dotted = |text: &str| text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom));
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || dotted(local)) && dotted(domain)
}
