//! Recorded output: gzip of JSON with base64 in it, within the size of a Secret.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::machine::Captured;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

/// Bytes that are kept of each end of the output of a command.
pub const END: usize = 256 * 1024;

/// Largest size of recorded output, decompressed, that is read back.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Bytes that are base64 in JSON. Null is empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        let bytes = BASE64_STANDARD.decode(text.unwrap_or_default());
        bytes.map(Self).map_err(|_| serde::de::Error::custom("not base64"))
    }
}

/// Saved output by the name of the instruction.
pub type Saved = BTreeMap<String, Bytes>;

/// The recorded result of a periodic instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Periodic {
    /// Its name.
    pub name: String,
    /// Standard output.
    pub stdout: Bytes,
    /// Standard error, if it is saved.
    pub stderr: Bytes,
    /// Exit code; -1 after a signal, or if it was not started.
    pub exit_code: i32,
    /// When it last succeeded; empty if never.
    pub last_successful_run_time: String,
    /// Consecutive failures.
    pub failures: u32,
    /// When it last failed; empty if it has succeeded since.
    pub last_failed_run_time: String,
}

/// Results of periodic instructions by name.
pub type Periodics = BTreeMap<String, Periodic>;

/// Compresses a value.
pub fn pack(value: &impl Serialize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let json = serde_json::to_vec(value).unwrap_or_default();
    // Writing to memory does not fail.
    encoder.write_all(&json).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// Reads a compressed value. What is absent or cannot be read is empty.
pub fn unpack<T: DeserializeOwned + Default>(bytes: &[u8]) -> T {
    let mut json = Vec::new();
    match GzDecoder::new(bytes).take(LARGEST).read_to_end(&mut json) {
        Ok(_) => serde_json::from_slice::<Option<T>>(&json).ok().flatten().unwrap_or_default(),
        Err(_) => T::default(),
    }
}

/// Compresses saved output to at most this size; the middle of long output is left out.
pub fn pack_saved(saved: &Saved, most: usize) -> Vec<u8> {
    let mut saved = saved.clone();
    within(most, |longest| {
        saved.values_mut().for_each(|bytes| shorten(&mut bytes.0, longest));
        pack(&saved)
    })
}

/// The same for results of periodic instructions.
pub fn pack_periodics(periodics: &Periodics, most: usize) -> Vec<u8> {
    let mut periodics = periodics.clone();
    within(most, |longest| {
        for result in periodics.values_mut() {
            shorten(&mut result.stdout.0, longest);
            shorten(&mut result.stderr.0, longest);
        }
        pack(&periodics)
    })
}

fn within(most: usize, mut pack: impl FnMut(usize) -> Vec<u8>) -> Vec<u8> {
    let mut longest = 4 * END;
    loop {
        let packed = pack(longest);
        if packed.len() <= most || longest == 0 {
            return packed;
        }
        longest = if longest > 128 { longest / 2 } else { 0 };
    }
}

/// Leaves out the middle, so that this number of bytes is kept.
fn shorten(bytes: &mut Vec<u8>, longest: usize) {
    if bytes.len() > longest {
        let end = longest / 2;
        let (head, tail) = (bytes[..end].to_vec(), bytes[bytes.len() - end..].to_vec());
        let omitted = (bytes.len() - 2 * end) as u64;
        *bytes = joined(&head, omitted, &tail);
    }
}

/// The output of a command, with a note in place of what was left out.
pub fn text(captured: &Captured) -> Vec<u8> {
    joined(&captured.head, captured.omitted, &captured.tail)
}

fn joined(head: &[u8], omitted: u64, tail: &[u8]) -> Vec<u8> {
    let note = match omitted {
        0 => String::new(),
        omitted => format!("\n[{omitted} bytes left out]\n"),
    };
    [head, note.as_bytes(), tail].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(text: &[u8]) -> Saved {
        Saved::from([("a".to_owned(), Bytes(text.to_vec()))])
    }

    /// Bytes that do not compress.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn output_is_packed_and_read() {
        let packed = pack_saved(&saved(b"hello\n"), 1000);
        assert_eq!(packed[..2], [0x1f, 0x8b]);
        assert_eq!(unpack::<Saved>(&packed), saved(b"hello\n"));
        let null = pack(&serde_json::json!({"a": null}));
        assert_eq!(unpack::<Saved>(&null), saved(b""));
        for unreadable in [&b""[..], b"text", &pack(&"text")] {
            assert_eq!(unpack::<Saved>(unreadable), Saved::new());
        }
    }

    #[test]
    fn long_output_fits_and_keeps_both_ends() {
        let noise = [b"begin".to_vec(), noise(900_000), b"end".to_vec()].concat();
        for most in [1000, 20_000, 300_000] {
            let packed = pack_saved(&saved(&noise), most);
            assert!(packed.len() <= most, "{} of {most}", packed.len());
            let read = unpack::<Saved>(&packed)["a"].0.clone();
            assert!(read.starts_with(b"begin") && read.ends_with(b"end"), "{most}");
            assert!(String::from_utf8_lossy(&read).contains("bytes left out]"));
        }
    }

    #[test]
    fn a_result_has_the_fields_of_the_contract() {
        let result = Periodic { name: "p".into(), exit_code: 3, failures: 2, ..Periodic::default() };
        let expected = r#"{"name":"p","stdout":"","stderr":"","exitCode":3,"lastSuccessfulRunTime":"","failures":2,"lastFailedRunTime":""}"#;
        assert_eq!(serde_json::to_string(&result).expect("JSON"), expected);
    }
}
