//! The wire format of protobuf: numbered values, one behind the other.

/// A value as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// What is not protobuf.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads the fields of a message, in the order they were sent.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = self.field();
        if read.is_none() {
            self.0 = &[];
        }
        Some(read.ok_or(Malformed))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Wire::Varint(varint(&mut self.0)?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            // Groups: nobody sends them.
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Reads a number of up to ten bytes.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for index in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(7 * index)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sorts_of_values() {
        let bytes = [
            &[0x08, 0x96, 0x01][..],
            &[0x12, 2, b'h', b'i'],
            &[0x19, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x25, 2, 0, 0, 0],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ]
        .concat();
        let fields: Vec<_> = Fields(&bytes).map(Result::unwrap).collect();
        assert_eq!(
            fields,
            [
                (1, Wire::Varint(150)),
                (2, Wire::Bytes(b"hi")),
                (3, Wire::Fixed64(1)),
                (4, Wire::Fixed32(2)),
                (1, Wire::Varint(u64::MAX)),
            ]
        );
    }

    #[test]
    fn nonsense_ends() {
        for bytes in [&[0x08][..], &[0x12, 5, 1], &[0x0b], &[0x80; 11], &[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f]]
        {
            assert!(Fields(bytes).any(|field| field.is_err()), "{bytes:?}");
        }
    }
}
