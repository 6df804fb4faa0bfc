//! Names of images, as far as they are compared.

use capstan_plan::Digest;

/// The name of an image in its one spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Registry and repository.
    repository: String,
    /// The tag, unless there is a digest.
    tag: Option<String>,
    pub(super) digest: Option<Digest>,
}

impl Reference {
    pub(super) fn parse(text: &str) -> Option<Self> {
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
            _ => ("docker.io", name.to_owned()),
        };
        let registry = if registry == "index.docker.io" { "docker.io" } else { registry };
        let path =
            if registry == "docker.io" && !path.contains('/') { format!("library/{path}") } else { path };
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
        if !is_plain(&path) || path.ends_with('/') || tag.is_some_and(|tag| !is_plain(tag)) {
            return None;
        }
        let tag = if digest.is_some() { None } else { Some(tag.unwrap_or("latest").to_owned()) };
        Some(Self { repository: format!("{registry}/{path}"), tag, digest })
    }

    /// Whether a name in an archive is this one.
    pub(super) fn is(&self, name: &str) -> bool {
        self.digest.is_none() && Self::parse(name).as_ref() == Some(self)
    }
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
        ];
        for (a, b) in same {
            assert!(Reference::parse(a).expect(a).is(b), "{a} {b}");
        }
        for (a, b) in
            [("x:v1", "x:v2"), ("x", "y"), ("r.example/x", "x"), ("r.example:5000/x", "r.example/x")]
        {
            assert!(!Reference::parse(a).expect(a).is(b), "{a} {b}");
        }
        let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let named = Reference::parse(&format!("x:v1@sha256:{digest}")).expect("a name");
        assert_eq!(named.digest, digest.parse().ok());
        assert!(!named.is("x:v1"), "a digest is not found by a tag");
        for bad in ["", "x:", "x@md5:1", "a b", "docker.io/"] {
            assert_eq!(Reference::parse(bad), None, "{bad:?}");
        }
    }
}
