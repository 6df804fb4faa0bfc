//! Formats with a checksum, and base64.

/// An ISBN of ten digits, dashes and blanks left aside.
pub(super) fn is_isbn10(text: &str) -> bool {
    let Some(chars) = stripped(text, 10) else { return false };
    let mut sum = 0;
    for (i, c) in chars.into_iter().enumerate() {
        match c {
            b'0'..=b'9' => sum += (i + 1) * usize::from(c - b'0'),
            b'X' if i == 9 => sum += 100,
            _ => return false,
        }
    }
    sum % 11 == 0
}

/// An ISBN of thirteen digits, dashes and blanks left aside.
pub(super) fn is_isbn13(text: &str) -> bool {
    let Some(chars) = stripped(text, 13) else { return false };
    if !chars.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 =
        chars.iter().enumerate().map(|(i, c)| u32::from(c - b'0') * if i % 2 == 0 { 1 } else { 3 }).sum();
    // With the check digit included the weighted sum is a multiple of ten.
    sum.is_multiple_of(10)
}

fn stripped(text: &str, length: usize) -> Option<Vec<u8>> {
    let is_gap = |c: &u8| matches!(c, b'-' | b' ' | b'\t' | b'\n' | 0xc | b'\r');
    let chars: Vec<u8> = text.bytes().filter(|c| !is_gap(c)).collect();
    (chars.len() == length).then_some(chars)
}

/// A card number of a known issuer whose Luhn checksum holds; everything but digits is left aside.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let starts = |prefix: &[u32]| digits.starts_with(prefix);
    let second = digits.get(1).copied().unwrap_or(10);
    let third = digits.get(2).copied().unwrap_or(10);
    let known = match digits.len() {
        13 => starts(&[4]),
        14 => starts(&[3, 6]) || starts(&[3, 8]) || (starts(&[3, 0]) && third <= 5),
        15 => starts(&[3, 4]) || starts(&[3, 7]) || starts(&[2, 1, 3, 1]) || starts(&[1, 8, 0, 0]),
        16 => {
            starts(&[4])
                || (starts(&[5]) && (1..=5).contains(&second))
                || starts(&[6, 0, 1, 1])
                || starts(&[6, 5])
                || starts(&[3, 5])
        }
        _ => false,
    };
    let luhn: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, digit)| if i % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { *digit })
        .sum();
    known && luhn.is_multiple_of(10)
}

/// Standard base64 with padding; an empty text is none.
pub(super) fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && body.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'+' || c == b'/')
}
