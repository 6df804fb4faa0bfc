//! Names of images.

use capstan_plan::Digest;
use std::fmt;

/// The registry of names without one.
const DEFAULT: &str = "docker.io";

/// Other names of that registry.
const ALIAS: &str = "index.docker.io";

/// Longest name of a repository.
const PATH: usize = 255;

/// Longest tag.
const TAG: usize = 128;

/// The name of an image in its one spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    registry: String,
    path: String,
    /// The tag, unless there is a digest.
    tag: Option<String>,
    digest: Option<Digest>,
}

impl ImageReference {
    /// Reads a name. `None`: it is not one. Every part can be written into a URL as it is.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.strip_prefix("sha256:")?.parse().ok()?)),
            None => (text, None),
        };
        let (name, tag) = match name.rsplit_once(':') {
            // The colon of a port is before a slash.
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (name, None),
        };
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
                (first, rest.to_owned())
            }
            _ => (DEFAULT, name.to_owned()),
        };
        let registry = if registry == ALIAS { DEFAULT } else { registry };
        let path = if registry == DEFAULT && !path.contains('/') { format!("library/{path}") } else { path };
        if !is_registry(registry) || !is_path(&path) || !tag.is_none_or(is_tag) {
            return None;
        }
        let tag = if digest.is_some() { None } else { Some(tag.unwrap_or("latest").to_owned()) };
        Some(Self { registry: registry.to_owned(), path, tag, digest })
    }

    /// Host and port of the registry; `docker.io` for Docker Hub.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository in the registry.
    pub fn repository(&self) -> &str {
        &self.path
    }

    /// The digest, if it is named by one.
    pub const fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The tag or the digest, as requests to a registry name it.
    pub fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("sha256:{digest}"),
            (None, tag) => tag.clone().unwrap_or_default(),
        }
    }

    /// The same image under another name of its repository, such as that of a mirror. `None`: that is not a name.
    #[must_use]
    pub fn in_repository(&self, path: &str) -> Option<Self> {
        is_path(path).then(|| Self { path: path.to_owned(), ..self.clone() })
    }

    /// Whether a name in an archive is this one.
    pub fn is(&self, name: &str) -> bool {
        self.digest.is_none() && Self::parse(name).as_ref() == Some(self)
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.digest.is_some() { '@' } else { ':' };
        write!(f, "{}/{}{sign}{}", self.registry, self.path, self.version())
    }
}

fn is_registry(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b':' | b'[' | b']'))
}

fn is_path(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain =
            |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'.' | b'_' | b'-');
        part.bytes().all(is_plain) && !matches!(part, "" | "." | "..")
    };
    text.len() <= PATH && text.split('/').all(is_part)
}

fn is_tag(text: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    !text.is_empty() && text.len() <= TAG && !text.starts_with(['.', '-']) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_spelling() {
        let same = [
            ("rancher/x:v1", "docker.io/rancher/x:v1"),
            ("rancher/x:v1", "index.docker.io/rancher/x:v1"),
            ("x", "docker.io/library/x:latest"),
            ("localhost/x:v1", "localhost/x:v1"),
            ("r.example:5000/x", "r.example:5000/x:latest"),
            ("[::1]:5000/x", "[::1]:5000/x:latest"),
        ];
        for (a, b) in same {
            assert!(ImageReference::parse(a).expect(a).is(b), "{a} {b}");
            assert_eq!(
                ImageReference::parse(a).expect(a).to_string().replace("index.", ""),
                b.replace("index.", "")
            );
        }
        for (a, b) in
            [("x:v1", "x:v2"), ("x", "y"), ("r.example/x", "x"), ("r.example:5000/x", "r.example/x")]
        {
            assert!(!ImageReference::parse(a).expect(a).is(b), "{a} {b}");
        }
        let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let named = ImageReference::parse(&format!("x:v1@sha256:{digest}")).expect("a name");
        assert_eq!(named.digest(), digest.parse().ok());
        assert_eq!(named.to_string(), format!("docker.io/library/x@sha256:{digest}"));
        assert!(!named.is("x:v1"), "a digest is not found by a tag");
        for bad in ["", "x:", "x@md5:1", "a b", "docker.io/"] {
            assert_eq!(ImageReference::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn parts_can_be_written_into_a_url() {
        for bad in [
            "r.example/../x",
            "r.example/a//b",
            "r.example/./x",
            "r.example/x?y",
            "r.example/x#y",
            "r.example/x%2fy",
            "r.example/X",
            "r.exa mple/x",
            "user:pass.word@r.example/x",
            "r.example/x:a?b",
            "r.example/x:..",
            "r.example/x:-a",
        ] {
            assert_eq!(ImageReference::parse(bad), None, "{bad:?}");
        }
        assert_eq!(ImageReference::parse(&format!("r.example/{}", "x".repeat(256))), None);
        assert_eq!(ImageReference::parse(&format!("r.example/x:{}", "x".repeat(129))), None);
        let image = ImageReference::parse("r.example/a/b:v1").expect("a name");
        assert_eq!(
            (image.registry(), image.repository(), image.version()),
            ("r.example", "a/b", "v1".to_owned())
        );
        assert_eq!(image.in_repository("c/d").expect("a name").to_string(), "r.example/c/d:v1");
        assert_eq!(image.in_repository("c/../d"), None);
    }
}
