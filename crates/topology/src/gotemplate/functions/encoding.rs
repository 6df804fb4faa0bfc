//! Encodings and digests.

use super::{Function, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha512};
use std::fmt::Write;

pub(super) const TABLE: &[(&str, Function)] = &[
    ("b64enc", |args| Ok(text(STANDARD.encode(args.text(0)?)))),
    ("b64dec", |args| {
        let bytes = STANDARD.decode(args.text(0)?).map_err(|error| args.fail(error))?;
        Ok(text(String::from_utf8(bytes).map_err(|_| args.fail("the result is not text"))?))
    }),
    ("sha256sum", |args| Ok(text(hex(&Sha256::digest(args.text(0)?))))),
    ("sha512sum", |args| Ok(text(hex(&Sha512::digest(args.text(0)?))))),
];

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
