//! The index of a folder of software. Pure.

use capstan_plan::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::{Arch, ArtifactRef, Catalog, Source};

const API_VERSION: &str = "artifacts.capstan.dev/v1alpha1";
const KIND: &str = "ArtifactIndex";
/// More than this is no index.
pub(crate) const LARGEST_INDEX: u64 = 4 << 20;

/// All entries of a folder of software, in the order in which they are printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    entries: BTreeMap<Key, Entry>,
}

type Key = (String, String, Arch);

/// One file of software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name, such as `k3s`.
    pub name: String,
    /// Version, such as `v1.36.0+k3s1`.
    pub version: String,
    /// Architecture.
    pub arch: Arch,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
    /// Size in bytes.
    pub size: u64,
    /// Path of the file, relative to the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// URLs to download the file from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

/// Why an index is invalid, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The text is not an index.
    #[error("{0}")]
    Text(String),
    /// An entry is invalid.
    #[error("artifacts[{index}] ({entry}): {problem}")]
    Entry {
        /// Position of the entry, counted from 0.
        index: usize,
        /// Title of the entry.
        entry: String,
        /// The problem.
        problem: EntryError,
    },
}

/// Why an entry is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The name is invalid.
    #[error(
        "name must be up to 63 lower-case letters, digits, dots and dashes, and begin with a letter or digit"
    )]
    Name,
    /// The version is invalid.
    #[error("version must be up to 128 letters, digits and the characters . + - _")]
    Version,
    /// The size is 0.
    #[error("size must not be 0")]
    Size,
    /// The path of the file is invalid.
    #[error("file must be a path inside the folder, without . and ..")]
    File,
    /// A URL is invalid.
    #[error("url must begin with https:// and have no user, white space or fragment: {0}")]
    Url(String),
    /// The entry has neither a file nor a URL.
    #[error("there must be a file or a url")]
    NoSource,
    /// Another entry has the same name, version and architecture.
    #[error("there are two of them")]
    Twice,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document<E> {
    api_version: String,
    kind: String,
    artifacts: Vec<E>,
}

impl Index {
    /// Parses an index. Unknown fields are errors.
    ///
    /// # Errors
    /// If the text is not an index, or an entry is invalid.
    pub fn parse(text: &str) -> Result<Self, IndexError> {
        let document: Document<Entry> = serde_saphyr::from_str(text).map_err(|error| {
            let words = error.to_string();
            IndexError::Text(words.lines().next().unwrap_or("not YAML").to_owned())
        })?;
        if (document.api_version.as_str(), document.kind.as_str()) != (API_VERSION, KIND) {
            return Err(IndexError::Text(format!("it must be of apiVersion {API_VERSION} and kind {KIND}")));
        }
        let mut index = Self::default();
        for (place, entry) in document.artifacts.into_iter().enumerate() {
            let wrong = |problem| IndexError::Entry { index: place, entry: entry.title(), problem };
            entry.check().map_err(wrong)?;
            if index.entries.contains_key(&entry.key()) {
                return Err(wrong(EntryError::Twice));
            }
            index.entries.insert(entry.key(), entry);
        }
        Ok(index)
    }

    /// Writes the index as YAML.
    pub fn to_yaml(&self) -> String {
        let document = Document {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            artifacts: self.entries().collect(),
        };
        serde_saphyr::to_string(&document).expect("texts, numbers and lists can be written as YAML")
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Adds an entry, or replaces the one with the same name, version and architecture. If the replaced entry has the
    /// same digest, its file and URLs are kept.
    ///
    /// # Errors
    /// If the entry is invalid.
    pub fn put(&mut self, mut entry: Entry) -> Result<(), EntryError> {
        entry.check()?;
        if let Some(known) = self.entries.get(&entry.key()).filter(|known| known.sha256 == entry.sha256) {
            entry.file = entry.file.or_else(|| known.file.clone());
            let urls = known.urls.iter().filter(|url| !entry.urls.contains(url)).cloned().collect::<Vec<_>>();
            entry.urls.extend(urls);
        }
        self.entries.insert(entry.key(), entry);
        Ok(())
    }

    /// The entry with these bytes that has a file.
    #[cfg(any(feature = "server", test))]
    pub(crate) fn file_of(&self, sha256: &Digest) -> Option<&Entry> {
        self.entries().find(|entry| entry.sha256 == *sha256 && entry.file.is_some())
    }

    /// With what another index says can be had elsewhere. What stands here counts more, and a file there is nobody's.
    #[must_use]
    pub(crate) fn with_elsewhere(mut self, other: &Self) -> Self {
        for entry in other.entries().filter(|entry| !entry.urls.is_empty()) {
            let far = Entry { file: None, ..entry.clone() };
            let known = self.entries.entry(far.key()).or_insert_with(|| far.clone());
            if known.sha256 == far.sha256 {
                let new: Vec<_> = far.urls.into_iter().filter(|url| !known.urls.contains(url)).collect();
                known.urls.extend(new);
            }
        }
        self
    }

    /// What machines can have of it. Files count if somebody serves them: then `served` makes their source.
    pub(crate) fn catalog(&self, served: impl Fn(&Digest) -> Option<Source>) -> Catalog {
        self.entries().fold(Catalog::default(), |catalog, entry| {
            let own = entry.file.as_ref().and_then(|_| served(&entry.sha256));
            let far = entry.urls.iter().map(|url| Source { url: url.clone(), ca: None });
            let sources: Vec<Source> = own.into_iter().chain(far).collect();
            if sources.is_empty() {
                return catalog;
            }
            let artifact = ArtifactRef { sha256: entry.sha256, size: entry.size, sources };
            catalog.with(&entry.name, &entry.version, entry.arch, artifact)
        })
    }
}

impl Entry {
    fn key(&self) -> Key {
        (self.name.clone(), self.version.clone(), self.arch)
    }

    /// Name, version and architecture, for messages. Truncated, because they may be unchecked.
    pub fn title(&self) -> String {
        let cut = |text: &str| text.chars().filter(|c| !c.is_control()).take(64).collect::<String>();
        format!("{} {} {}", cut(&self.name), cut(&self.version), self.arch)
    }

    /// Checks that the entry is valid.
    ///
    /// # Errors
    /// The first problem that was found.
    pub fn check(&self) -> Result<(), EntryError> {
        if !is_name(&self.name) {
            return Err(EntryError::Name);
        }
        if !is_version(&self.version) {
            return Err(EntryError::Version);
        }
        if self.size == 0 {
            return Err(EntryError::Size);
        }
        if self.file.as_deref().is_some_and(|file| !is_inside(file)) {
            return Err(EntryError::File);
        }
        if let Some(url) = self.urls.iter().find(|url| !is_url(url)) {
            return Err(EntryError::Url(url.chars().filter(|c| !c.is_control()).take(128).collect()));
        }
        if self.file.is_none() && self.urls.is_empty() {
            return Err(EntryError::NoSource);
        }
        Ok(())
    }
}

fn is_name(text: &str) -> bool {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'.' | b'-');
    (1..=63).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with(['.', '-'])
}

fn is_version(text: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'+' | b'-' | b'_');
    (1..=128).contains(&text.len()) && text.bytes().all(fits)
}

fn is_inside(path: &str) -> bool {
    path.len() <= 512
        && !path.contains(|c: char| c.is_control())
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Every byte of it goes into scripts and plans as it is, so only what an address needs is let through.
fn is_url(text: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || b"-._~:/?&=+,%[]".contains(&c);
    let rest = text.strip_prefix("https://").unwrap_or_default();
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    text.len() <= 2048 && !authority.is_empty() && !authority.starts_with(':') && rest.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn text(entries: &str) -> String {
        format!("apiVersion: {API_VERSION}\nkind: {KIND}\nartifacts:{entries}\n")
    }

    fn line(changed: &str, value: &str) -> String {
        let mut line = String::from("\n- ");
        let usual = [
            ("name", "k3s"),
            ("version", "v1.36.0+k3s1"),
            ("arch", "amd64"),
            ("sha256", ABC),
            ("size", "3"),
            ("file", "sha256/abc"),
        ];
        for (key, usual) in usual {
            let value = if key == changed { value } else { usual };
            if !value.is_empty() {
                line.push_str(&format!("{key}: {value}\n  "));
            }
        }
        if !usual.iter().any(|(key, _)| *key == changed) && !changed.is_empty() {
            line.push_str(&format!("{changed}: {value}"));
        }
        line
    }

    #[test]
    fn what_was_written_is_read_back() {
        let both = format!("{}{}", line("", ""), line("arch", "arm64"));
        let index = Index::parse(&text(&both)).expect("an index");
        assert_eq!(index.entries().count(), 2);
        assert_eq!(Index::parse(&index.to_yaml()), Ok(index));
        assert_eq!(Index::parse(&text(" []")), Ok(Index::default()));
        assert_eq!(Index::parse(&Index::default().to_yaml()), Ok(Index::default()));
    }

    #[test]
    fn nothing_is_passed_over() {
        for (text, words) in [
            (String::new(), ""),
            ("[]".to_owned(), ""),
            (text(" []").replace("v1alpha1", "v2"), "apiVersion"),
            (text(" []") + "more: 1\n", "more"),
            (
                text(&line("", "")) + &line("", "")[1..] + "\n",
                "artifacts[1] (k3s v1.36.0+k3s1 amd64): there are two",
            ),
            (text(&line("colour", "red")), "colour"),
            (text(&line("name", "K3s")), "name must"),
            (text(&line("name", "-k")), "name must"),
            (text(&line("version", "'v1 36'")), "version must"),
            (text(&line("version", "'$(id)'")), "version must"),
            (text(&line("arch", "x99")), "no architecture"),
            (text(&line("sha256", "abc")), "64 lower-case"),
            (text(&line("size", "0")), "size must"),
            (text(&line("size", "-1")), ""),
            (text(&line("file", "../x")), "file must"),
            (text(&line("file", "/x")), "file must"),
            (text(&line("file", "a//b")), "file must"),
            (text(&line("file", "")), "a file or a url"),
            (text(&line("urls", "['http://x/y']")), "https://"),
            (text(&line("urls", "['https:///y']")), "https://"),
            (text(&line("urls", "['https://user@x/y']")), "https://"),
            (text(&line("urls", "[\"https://x/'y\"]")), "https://"),
            (text(&line("urls", "['https://x/#y']")), "https://"),
        ] {
            let error = Index::parse(&text).expect_err(&text).to_string();
            assert!(error.contains(words) && !error.contains('\n') && !error.is_empty(), "{text}: {error}");
        }
    }

    #[test]
    fn remote_artifacts_are_added_and_never_replace_local_ones() {
        let own = Index::parse(&text(&line("", ""))).expect("an index");
        let url = "urls: ['https://x/y']";
        let other_index = |lines: &str| Index::parse(&text(lines)).expect("an index");
        let other = other_index(&(line("sha256", &"0".repeat(64)) + url));
        assert_eq!(own.clone().with_elsewhere(&other), own, "other bytes of that name");
        let same = own.clone().with_elsewhere(&other_index(&(line("file", "") + url)));
        let entry = same.entries().next().expect("an entry");
        assert_eq!((entry.file.as_deref(), entry.urls.len()), (Some("sha256/abc"), 1));
        let more = own.clone().with_elsewhere(&other_index(&(line("arch", "arm64") + url)));
        let added = more.entries().find(|entry| entry.arch == Arch::Arm64).expect("it was added");
        assert_eq!((added.file.as_deref(), added.urls.len()), (None, 1), "its file is not here");
        assert_eq!(
            own.clone().with_elsewhere(&other_index(&line("arch", "arm64"))),
            own,
            "it has neither a file nor a URL"
        );
    }

    #[test]
    fn what_is_put_in_keeps_what_is_known_of_the_same_bytes() {
        let mut index = Index::parse(&text(&line("", ""))).expect("an index");
        let known = index.entries().next().expect("an entry").clone();
        let far = Entry { file: None, urls: vec!["https://far/k3s".to_owned()], ..known.clone() };
        index.put(far.clone()).expect("put");
        let both = Entry { file: known.file.clone(), ..far.clone() };
        assert_eq!(index.entries().collect::<Vec<_>>(), [&both]);
        assert!(index.file_of(&known.sha256).is_some());
        let other = Entry { sha256: Digest::of(b"other"), ..far };
        index.put(other.clone()).expect("put");
        assert_eq!(index.entries().collect::<Vec<_>>(), [&other]);
        assert_eq!(index.put(Entry { size: 0, ..other }), Err(EntryError::Size));
    }

    #[test]
    fn files_are_software_while_somebody_serves_them() {
        let urls = line("urls", "['https://far/k3s']");
        let two = format!("{urls}\n{}", &line("arch", "arm64")[1..]);
        let index = Index::parse(&text(&two)).expect("an index");
        let find = |catalog: &Catalog, arch| {
            let found = catalog.find("k3s", "v1.36.0+k3s1", arch);
            found.map(|found| found.sources.iter().map(|source| source.url.clone()).collect::<Vec<_>>())
        };
        let nobody = index.catalog(|_| None);
        assert_eq!(find(&nobody, Arch::Amd64), Some(vec!["https://far/k3s".to_owned()]));
        assert_eq!(find(&nobody, Arch::Arm64), None);
        let somebody = index.catalog(|digest| {
            Some(Source { url: format!("https://near/{digest}"), ca: Some("PEM".to_owned()) })
        });
        assert_eq!(
            find(&somebody, Arch::Amd64),
            Some(vec![format!("https://near/{ABC}"), "https://far/k3s".to_owned()])
        );
        assert_eq!(find(&somebody, Arch::Arm64), Some(vec![format!("https://near/{ABC}")]));
    }
}
