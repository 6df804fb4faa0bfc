//! The syntax of the URL of a webhook. It accepts what the client that calls webhooks can call, so that nothing is stored that
//! cannot: a test compares it with that client's parser.

/// As long as a URL may be, in bytes.
const MOST_BYTES: usize = 65_534;
/// As long as a scheme may be, in bytes.
const LONGEST_SCHEME: usize = 64;
/// As many colons as an authority may have: an IPv6 address with a port.
const MOST_COLONS: u32 = 8;

/// The parts of a URL that matter to a webhook.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Url<'a> {
    pub(super) scheme: Option<&'a str>,
    /// User, host and port.
    pub(super) authority: Option<&'a str>,
    pub(super) query: Option<&'a str>,
}

impl<'a> Url<'a> {
    /// Reads a URL, also one with a path only or an authority only.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        if text.is_empty() || text.len() > MOST_BYTES {
            return None;
        }
        if text == "*" {
            return Some(Self::default());
        }
        if text.starts_with('/') {
            return Some(Self { query: query(text)?, ..Self::default() });
        }
        let (scheme, rest) = split_scheme(text)?;
        let end = authority_end(rest)?;
        let (authority, path) = rest.split_at(end);
        if scheme.is_none() {
            return path.is_empty().then_some(Self { authority: Some(authority), ..Self::default() });
        }
        if authority.is_empty() {
            return None;
        }
        let query = if path.is_empty() { None } else { query(path)? };
        Some(Self { scheme, authority: Some(authority), query })
    }
}

/// The scheme, if there is one, and what follows `://`.
fn split_scheme(text: &str) -> Option<(Option<&str>, &str)> {
    for known in ["http", "https"] {
        let is_known = text.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
        if let Some(rest) =
            text.get(known.len()..).and_then(|rest| rest.strip_prefix("://")).filter(|_| is_known)
        {
            return Some((Some(known), rest));
        }
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.~".contains(c)).unwrap_or(text.len());
    let (scheme, rest) = text.split_at(end);
    match rest.strip_prefix("://") {
        Some(_) if scheme.len() > LONGEST_SCHEME => None,
        Some(rest) if text.len() > 3 => Some((Some(scheme), rest)),
        _ => Some((None, text)),
    }
}

/// Where the authority at the beginning of a text ends.
fn authority_end(text: &str) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let (mut colons, mut is_open, mut is_closed, mut has_percent) = (0, false, false, false);
    for letter in text[..end].bytes() {
        match letter {
            b'%' => has_percent = true,
            b':' if colons >= MOST_COLONS => return None,
            b':' => colons += 1,
            b'[' if has_percent || is_open => return None,
            b'[' => is_open = true,
            b']' if !is_open || is_closed => return None,
            // What was before belonged to an address, or to the user.
            b']' => (is_closed, colons, has_percent) = (true, 0, false),
            b'@' => (colons, has_percent) = (0, false),
            letter if letter.is_ascii_alphanumeric() || b"!$&'()*+,-.;=_~".contains(&letter) => {}
            _ => return None,
        }
    }
    let is_good = is_open == is_closed && colons <= 1 && !text[..end].ends_with('@') && !has_percent;
    is_good.then_some(end)
}

/// The query of a path, if there is one; nothing if the path cannot be read. What follows a `#` is not looked at.
fn query(text: &str) -> Option<Option<&str>> {
    let text = text.split_once('#').map_or(text, |(text, _)| text);
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let is_plain = |byte: u8| matches!(byte, 0x21 | 0x24..=0x3b | 0x3d | 0x40..=0x7e | 0x80..);
    let in_path = |byte: u8| byte == b'"' || (is_plain(byte) && byte != b'`');
    let in_query = |byte: u8| byte == b'?' || is_plain(byte);
    let is_good = path.bytes().all(in_path) && query.is_none_or(|query| query.bytes().all(in_query));
    is_good.then_some(query)
}

#[cfg(test)]
mod tests {
    use http::Uri;

    use super::*;

    fn compare(text: &str) {
        let theirs = text.parse::<Uri>().ok();
        let theirs = theirs.as_ref().map(|uri| Url {
            scheme: uri.scheme_str(),
            authority: uri.authority().map(http::uri::Authority::as_str),
            query: uri.query(),
        });
        assert_eq!(Url::parse(text), theirs, "{text:?}");
    }

    #[test]
    fn it_reads_what_the_client_reads() {
        // Every ASCII character and one other in every part of a URL.
        for letter in (0..=0x7f_u8).map(char::from).chain(['\u{e4}']) {
            for before in [
                "",
                "a",
                "https:",
                "https:/",
                "https://",
                "https://a",
                "https://a/",
                "https://a?",
                "https://a#",
                "/",
                "/?",
                "x://[",
            ] {
                for after in ["", "a", "/", ":", "//", "://a", "@b", "]:1"] {
                    compare(&format!("{before}{letter}{after}"));
                }
            }
        }
    }

    #[test]
    fn authorities_and_lengths() {
        for text in [
            "https://u:p@a",
            "https://u%20@a",
            "https://u%20a",
            "https://[::1]:8443/x",
            "https://[1:2:3:4:5:6:7:8]:1",
            "https://[1:2:3:4:5:6:7:8:9:a]",
            "https://a:1:2",
            "https://a:b:c@d",
            "https://[[a]]",
            "https://[a",
            "https://a]",
            "https://a%[b]",
            "https://[a%b]",
            "https://a@",
            "HTTPS://a",
            "HtTp://a",
            "://a",
            "a://",
            "a.b",
            "*",
            "**",
            "/*",
            "?a",
            "#a",
            "https://a?b?c",
            "https://a/b{c}|\"",
            "https://a/`",
            "https://a?`",
            "https://a/b c",
            "https://a#b c",
            "\u{e4}://a",
            "https://a/\u{e4}?\u{e4}",
            "https:\u{e4}",
            "http\u{e4}://a",
        ] {
            compare(text);
        }
        for length in [63, 64, 65] {
            compare(&format!("{}://a", "x".repeat(length)));
        }
        for length in [65_533, 65_534, 65_535] {
            compare(&format!("https://{}", "a".repeat(length - 8)));
        }
    }
}
