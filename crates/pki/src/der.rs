//! As much DER as a certificate needs: values written and read as tag, length and content.

/// Tag of an integer.
pub const INTEGER: u8 = 0x02;
/// Tag of a bit string. Its first byte is the number of unused bits.
pub const BIT_STRING: u8 = 0x03;
/// Tag of an octet string.
pub const OCTET_STRING: u8 = 0x04;
/// Tag of an object identifier.
pub const OID: u8 = 0x06;
/// Tag of a UTF-8 string.
pub const UTF8_STRING: u8 = 0x0c;
/// Tag of a printable string.
pub const PRINTABLE_STRING: u8 = 0x13;
/// Tag of a sequence.
pub const SEQUENCE: u8 = 0x30;
/// Tag of a set.
pub const SET: u8 = 0x31;

/// Writes a value whose content is these parts, one after the other.
pub fn write(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    if length < 0x80 {
        out.push(length.to_le_bytes()[0]);
    } else {
        let bytes = length.to_be_bytes();
        let used = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
        out.push(0x80 | used.len().to_le_bytes()[0]);
        out.extend_from_slice(used);
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

/// Writes a sequence.
pub fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    write(SEQUENCE, parts)
}

/// A value that was read.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// Without its tag and length.
    pub content: &'a [u8],
    /// With its tag and length.
    pub whole: &'a [u8],
    /// The bytes after it.
    pub rest: &'a [u8],
}

/// Reads the value at the beginning. None if it has another tag or is cut off.
pub fn read(tag: u8, bytes: &[u8]) -> Option<Read<'_>> {
    let (found, length) = (*bytes.first()?, *bytes.get(1)?);
    let (head, length) = match length {
        short @ 0..=0x7f => (2, usize::from(short)),
        long => {
            let count = usize::from(long & 0x7f);
            let digits = bytes.get(2..2 + count).filter(|_| (1..=4).contains(&count))?;
            let length = digits.iter().fold(0_usize, |sum, digit| (sum << 8) | usize::from(*digit));
            (2 + count, length)
        }
    };
    let end = head.checked_add(length)?;
    let whole = bytes.get(..end).filter(|_| found == tag)?;
    Some(Read { content: &whole[head..], whole, rest: &bytes[end..] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_all_sizes() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x1_0000] {
            let content = vec![5; length];
            let mut written = write(OCTET_STRING, &[&content]);
            written.push(9);
            let read = read(OCTET_STRING, &written).expect("a value");
            assert_eq!((read.content, read.rest), (&content[..], &[9][..]));
            assert_eq!(read.whole.len() + 1, written.len());
        }
    }

    #[test]
    fn nonsense_is_nothing() {
        for bytes in [&[][..], &[0x30], &[0x30, 5, 1], &[0x30, 0x80], &[0x30, 0x85, 1, 1, 1, 1, 1], &[2, 0]] {
            assert!(read(SEQUENCE, bytes).is_none(), "{bytes:?}");
        }
    }
}
