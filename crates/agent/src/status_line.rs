//! The first line of an HTTP response.

/// The status code of a response, of which at least the first line is given. `None` if it is not HTTP.
pub(crate) fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok().filter(|status| (100..=599).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_are_read() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\nX: y\r\n", Some(200)),
            ("HTTP/1.0 503\r\n", Some(503)),
            ("HTTP/1.1 200", Some(200)),
            ("HTTP/1.1 abc\r\n", None),
            ("HTTP/1.1 20\r\n", None),
            ("SSH-2.0-x\r\n", None),
            ("", None),
        ] {
            assert_eq!(status(answer.as_bytes()), expected, "{answer:?}");
        }
    }
}
