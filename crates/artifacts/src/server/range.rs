//! The byte range of a request. Pure.

/// The bytes to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of them.
    All,
    /// From the first to the last, both sent.
    Part {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// There are no such bytes.
    Unsatisfiable,
}

/// What a `Range` header means for a file of `size` bytes. What is not one range of bytes is as if it were not there,
/// as the standard wants it.
pub(super) fn wanted(header: Option<&str>, size: u64) -> Wanted {
    header.and_then(|header| one_range(header, size)).unwrap_or(Wanted::All)
}

fn one_range(header: &str, size: u64) -> Option<Wanted> {
    let (first, last) = header.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| match text.bytes().all(|digit| digit.is_ascii_digit()) && !text.is_empty() {
        // More digits than fit are more bytes than there are.
        true => Some(text.parse::<u64>().unwrap_or(u64::MAX)),
        false => None,
    };
    Some(match (first, last) {
        ("", length) => match number(length)? {
            0 => Wanted::Unsatisfiable,
            _ if size == 0 => Wanted::Unsatisfiable,
            length => Wanted::Part { first: size.saturating_sub(length), last: size - 1 },
        },
        (first, last) => {
            let first = number(first)?;
            let last = if last.is_empty() { u64::MAX } else { number(last)? };
            if last < first {
                return None;
            }
            match first < size {
                true => Wanted::Part { first, last: last.min(size - 1) },
                false => Wanted::Unsatisfiable,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_mean_what_the_standard_says() {
        let part = |first, last| Wanted::Part { first, last };
        for (header, expected) in [
            (None, Wanted::All),
            (Some("bytes=0-0"), part(0, 0)),
            (Some("bytes=2-5"), part(2, 5)),
            (Some("bytes=2-"), part(2, 9)),
            (Some("bytes=2-99"), part(2, 9)),
            (Some("bytes=9-99999999999999999999999999"), part(9, 9)),
            (Some("bytes=-3"), part(7, 9)),
            (Some("bytes=-99"), part(0, 9)),
            (Some("bytes=10-"), Wanted::Unsatisfiable),
            (Some("bytes=10-11"), Wanted::Unsatisfiable),
            (Some("bytes=99999999999999999999999999-"), Wanted::Unsatisfiable),
            (Some("bytes=-0"), Wanted::Unsatisfiable),
            (Some("bytes=5-2"), Wanted::All),
            (Some("bytes=0-1,3-4"), Wanted::All),
            (Some("bytes=a-4"), Wanted::All),
            (Some("bytes=+1-4"), Wanted::All),
            (Some("bytes=-"), Wanted::All),
            (Some("bytes="), Wanted::All),
            (Some("lines=1-2"), Wanted::All),
            (Some(""), Wanted::All),
        ] {
            assert_eq!(wanted(header, 10), expected, "{header:?}");
        }
        assert_eq!(wanted(Some("bytes=0-"), 0), Wanted::Unsatisfiable);
        assert_eq!(wanted(Some("bytes=-1"), 0), Wanted::Unsatisfiable);
    }
}
