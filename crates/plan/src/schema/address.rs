//! URLs of checks, probes and artifacts, parsed once and strictly.

/// A scheme, a host, perhaps a port, and a path.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    text: String,
    scheme: usize,
    authority_end: usize,
    host_end: usize,
    port: u16,
}

/// Longest address in a plan.
const LONGEST: usize = 2048;

impl Address {
    /// The address, if the text is one with this scheme (`http://`): at most 2048 plain ASCII characters, no user,
    /// no password, no fragment.
    pub(super) fn new(text: String, scheme: &str, default_port: u16) -> Option<Self> {
        Self::within(LONGEST, text, scheme, default_port)
    }

    /// The same, with at most this number of characters.
    pub(super) fn within(longest: usize, text: String, scheme: &str, default_port: u16) -> Option<Self> {
        let plain = text.bytes().all(|c| c.is_ascii_graphic()) && text.len() <= longest;
        let rest = text.strip_prefix(scheme).filter(|_| plain && !text.contains('#'))?;
        let authority = &rest[..rest.find('/')?];
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an IPv6 address stand in brackets.
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, default_port),
        };
        let name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.');
        let known = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(inner) => inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok()),
            None => !host.is_empty() && host.bytes().all(name),
        };
        if !known || port == 0 {
            return None;
        }
        let authority_end = scheme.len() + authority.len();
        let host_end = scheme.len() + host.len();
        Some(Self { scheme: scheme.len(), authority_end, host_end, port, text })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn into_string(self) -> String {
        self.text
    }

    /// Host name or IP address; an IPv6 address without its brackets.
    pub(super) fn host(&self) -> &str {
        self.text[self.scheme..self.host_end].trim_start_matches('[').trim_end_matches(']')
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// What stands in the `Host` header.
    pub(super) fn authority(&self) -> &str {
        &self.text[self.scheme..self.authority_end]
    }

    /// Path and query.
    pub(super) fn path(&self) -> &str {
        &self.text[self.authority_end..]
    }
}
