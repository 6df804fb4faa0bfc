//! The output of a program, bounded: its beginning and its end, also if it has no line ends.

use std::collections::VecDeque;

/// Number of bytes that are kept of each end.
const END: usize = 4096;

/// Collects the output of a program within a limit.
#[derive(Debug)]
pub struct Capture {
    end: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Default for Capture {
    fn default() -> Self {
        Self::keeping(END)
    }
}

impl Capture {
    /// Keeps this number of bytes of each end.
    pub const fn keeping(end: usize) -> Self {
        Self { end, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Appends output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.end - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.end)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.end);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// The output so far.
    pub fn captured(&self) -> Captured {
        let kept = (self.head.len() + self.tail.len()) as u64;
        Captured {
            head: self.head.clone(),
            tail: self.tail.iter().copied().collect(),
            omitted: self.total - kept,
        }
    }
}

/// The kept output of a program. It is not redacted.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The beginning.
    pub head: Vec<u8>,
    /// The rest or, if bytes were omitted, the end.
    pub tail: Vec<u8>,
    /// Number of omitted bytes in between.
    pub omitted: u64,
}

impl From<&str> for Captured {
    fn from(text: &str) -> Self {
        let mut capture = Capture::default();
        capture.push(text.as_bytes());
        capture.captured()
    }
}

impl std::fmt::Debug for Captured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} bytes, {} left out]", self.head.len() + self.tail.len(), self.omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_kept_however_they_arrive() {
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
        for length in [0, 1, END - 1, END, END + 1, 2 * END, 2 * END + 1, bytes.len()] {
            for chunk in [1, 7, 1000, END, 100_000] {
                let mut capture = Capture::default();
                bytes[..length].chunks(chunk).for_each(|chunk| capture.push(chunk));
                let captured = capture.captured();
                assert_eq!(captured.head, bytes[..length.min(END)]);
                assert_eq!(captured.tail, bytes[length.saturating_sub(END).max(length.min(END))..length]);
                assert_eq!(captured.omitted, length.saturating_sub(2 * END) as u64, "{length} in {chunk}");
            }
        }
    }
}
