//! The kept inputs: text files with one JSON string to a line, so that a person can read and review them. Bytes that are
//! not text have the prefix `base64:`.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use base64::{Engine as _, prelude::BASE64_STANDARD};

const BINARY: &str = "base64:";

/// How many lines a merge leaves in a file at most, and bytes. Lines that are there already are never removed.
const MOST_LINES: usize = 150;
const MOST_BYTES: usize = 64 << 10;

/// A longer input is not added by a merge: a person cannot read it.
const LONGEST: usize = 4 << 10;

/// The folder of the kept inputs.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The file with the kept inputs of a target.
pub fn file(target: &str) -> PathBuf {
    folder().join(format!("{target}.txt"))
}

/// The kept inputs of a target.
///
/// # Errors
/// If its file cannot be read, or a line is malformed.
pub fn kept(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let text = std::fs::read_to_string(file(target))?;
    text.lines().map(parse).collect()
}

/// An input as a line of a file.
pub fn line(input: &[u8]) -> String {
    let text = match std::str::from_utf8(input) {
        Ok(text) if !text.starts_with(BINARY) => text.to_owned(),
        _ => format!("{BINARY}{}", BASE64_STANDARD.encode(input)),
    };
    serde_json::Value::String(text).to_string()
}

/// The input of a line.
fn parse(line: &str) -> io::Result<Vec<u8>> {
    let malformed = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{line}: {error}"))
    };
    let text: String = serde_json::from_str(line).map_err(|error| malformed(&error))?;
    match text.strip_prefix(BINARY) {
        Some(encoded) => BASE64_STANDARD.decode(encoded).map_err(|error| malformed(&error)),
        None => Ok(text.into_bytes()),
    }
}

/// Writes the kept inputs of a target into a folder, each into a file, as the fuzzer reads them.
///
/// # Errors
/// If they cannot be read or written.
pub fn unpack(target: &str, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (number, input) in kept(target)?.into_iter().enumerate() {
        std::fs::write(folder.join(format!("kept-{number:04}")), input)?;
    }
    Ok(())
}

/// Adds inputs to the kept ones of a target, the shortest first, and returns how many.
///
/// # Errors
/// If files cannot be read or written.
pub fn pack(target: &str, folder: &Path) -> io::Result<usize> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        found.push(std::fs::read(entry?.path())?);
    }
    let path = file(target);
    let text = std::fs::read_to_string(&path)?;
    let (text, added) = with(text, found);
    std::fs::write(path, text)?;
    Ok(added)
}

/// The text of a file with more inputs, within the limits.
fn with(mut text: String, mut found: Vec<Vec<u8>>) -> (String, usize) {
    let mut known: HashSet<String> = text.lines().map(str::to_owned).collect();
    found.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    let mut added = 0;
    for input in found.into_iter().filter(|input| input.len() <= LONGEST) {
        let line = line(&input);
        if known.len() >= MOST_LINES || text.len() + line.len() >= MOST_BYTES {
            break;
        }
        if known.insert(line.clone()) {
            text.push_str(&line);
            text.push('\n');
            added += 1;
        }
    }
    (text, added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_is_one_line_and_comes_back() {
        for input in [&b""[..], b"text", b"a\nb \"c\"", b"\xff\x00", b"base64:", "\u{2028}é".as_bytes()] {
            let line = line(input);
            assert_eq!(line.lines().count(), 1, "{line}");
            assert_eq!(parse(&line).unwrap(), input, "{line}");
        }
        assert_eq!(line(b"\xff"), "\"base64:/w==\"");
        assert!(parse("\"base64:!\"").is_err());
        assert!(parse("text").is_err());
    }

    #[test]
    fn a_file_grows_within_limits_and_loses_nothing() {
        let (text, added) = with("\"b\"\n".to_owned(), vec![b"ccc".to_vec(), b"b".to_vec(), b"a".to_vec()]);
        assert_eq!((text.as_str(), added), ("\"b\"\n\"a\"\n\"ccc\"\n", 2));
        let (_, added) = with(String::new(), vec![vec![b'x'; LONGEST + 1]]);
        assert_eq!(added, 0);
        let many: Vec<Vec<u8>> = (0..1000).map(|number: u32| number.to_string().into_bytes()).collect();
        let (text, _) = with("\"first\"\n".to_owned(), many);
        assert_eq!(text.lines().count(), MOST_LINES);
        assert!(text.starts_with("\"first\"\n"));
    }
}
