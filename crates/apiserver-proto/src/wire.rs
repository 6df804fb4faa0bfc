//! The wire format of protobuf: numbered values, one after the other.

/// A value as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// What is not protobuf.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Reads the fields of a message, in the order they were sent.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

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
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
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

/// Writes a number.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        let [low, ..] = value.to_le_bytes();
        out.push(low | 0x80);
        value >>= 7;
    }
    let [low, ..] = value.to_le_bytes();
    out.push(low);
}

/// Writes a field with a number.
pub(crate) fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

/// Writes a field with eight bytes.
pub(crate) fn put_fixed64(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a field with bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_head(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

/// Writes what comes before so many bytes of a field.
pub(crate) fn put_head(out: &mut Vec<u8>, field: u64, length: usize) {
    put_varint(out, field << 3 | 2);
    put_varint(out, length as u64);
}

/// Writes a field with what `write` writes.
pub(crate) fn put_nested<E>(
    out: &mut Vec<u8>,
    field: u64,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    put_varint(out, field << 3 | 2);
    // Most lengths take one byte. For others, the content is moved once it is there.
    let place = out.len();
    out.push(0);
    write(out)?;
    let mut length = Vec::with_capacity(10);
    put_varint(&mut length, (out.len() - place - 1) as u64);
    out.splice(place..=place, length);
    Ok(())
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
    fn what_is_written_is_read() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(varint(&mut &bytes[..]), Some(value));
        }
        let (mut bytes, long) = (Vec::new(), [7; 300]);
        put_number(&mut bytes, 1, 150);
        put_bytes(&mut bytes, 2, b"hi");
        put_fixed64(&mut bytes, 3, 1);
        let nested = |out: &mut Vec<u8>| {
            put_bytes(out, 1, &long);
            Ok::<_, ()>(())
        };
        put_nested(&mut bytes, 100, nested).unwrap();
        put_nested(&mut bytes, 5, |_| Ok::<_, ()>(())).unwrap();
        let fields: Vec<_> = Fields(&bytes).map(Result::unwrap).collect();
        let inner = [&[0x0a, 0xac, 0x02][..], &long].concat();
        let expected = [
            (1, Wire::Varint(150)),
            (2, Wire::Bytes(b"hi")),
            (3, Wire::Fixed64(1)),
            (100, Wire::Bytes(&inner)),
            (5, Wire::Bytes(b"")),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn nonsense_ends() {
        for bytes in [&[0x08][..], &[0x12, 5, 1], &[0x0b], &[0x80; 11], &[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f]]
        {
            assert!(Fields(bytes).any(|field| field.is_err()), "{bytes:?}");
        }
    }
}
