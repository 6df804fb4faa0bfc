//! The Go modules under `tools/go`, and the versions read from them.
//!
//! Everything is read at compile time: a module file without the expected line does not compile.

/// One Go module of ours that pins upstream modules.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its folder under `tools/go`.
    folder: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
    /// The version of the upstream module it is there for.
    pub(crate) version: &'static str,
    /// The oldest Go that may build it.
    pub(crate) go: &'static str,
}

macro_rules! module {
    ($folder:literal, $upstream:literal) => {{
        const GO_MOD: &str = include_str!(concat!("../go/", $folder, "/go.mod"));
        Module {
            folder: $folder,
            go_mod: GO_MOD,
            go_sum: include_str!(concat!("../go/", $folder, "/go.sum")),
            version: word_after(GO_MOD, concat!("\n\t", $upstream, " ")),
            go: word_after(GO_MOD, "\ngo "),
        }
    }};
}

pub(crate) static KUBERNETES: Module = module!("kubernetes", "k8s.io/kubernetes");
pub(crate) static CONFORMANCE: Module = module!("conformance", "k8s.io/kubernetes");
pub(crate) static ETCD: Module = module!("etcd", "go.etcd.io/etcd/server/v3");
pub(crate) static CLUSTER_API: Module = module!("cluster-api", "sigs.k8s.io/cluster-api");
pub(crate) static SYSTEM_AGENT: Module = module!("system-agent", "github.com/rancher/system-agent");
pub(crate) static K3S: Module = module!("k3s", "github.com/k3s-io/k3s");
pub(crate) static RUNC: Module = module!("runc", "github.com/opencontainers/runc");
pub(crate) static CNI_FLANNEL: Module = module!("cni-flannel", "github.com/containernetworking/plugins");

impl Module {
    /// Where `go` is run for this module.
    pub(crate) fn dir(&self) -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("go").join(self.folder)
    }

    /// The files that say which modules are used.
    pub(crate) fn files(&self) -> [(&'static str, &'static str); 2] {
        [("go.mod", self.go_mod), ("go.sum", self.go_sum)]
    }

    /// The version of a module that stands in for another one.
    pub(crate) fn replacement(&self, module: &str) -> Option<&'static str> {
        let line = self.go_mod.lines().find(|line| line.trim().starts_with(&format!("{module} => ")))?;
        line.split_whitespace().nth(3)
    }

    /// Changes whenever any pinned module does.
    pub(crate) fn digest(&self) -> u64 {
        fnv1a(&[self.go_mod, self.go_sum])
    }
}

/// The text between `prefix` and the next white space. Panics, which here means: does not compile.
const fn word_after(text: &'static str, prefix: &str) -> &'static str {
    let (bytes, wanted) = (text.as_bytes(), prefix.as_bytes());
    let mut start = 0;
    while start + wanted.len() <= bytes.len() {
        let mut matched = 0;
        while matched < wanted.len() && bytes[start + matched] == wanted[matched] {
            matched += 1;
        }
        if matched == wanted.len() {
            let word = start + wanted.len();
            let mut end = word;
            while end < bytes.len() && !bytes[end].is_ascii_whitespace() {
                end += 1;
            }
            assert!(end > word, "a go.mod has nothing where a version should be");
            return text.split_at(end).0.split_at(word).1;
        }
        start += 1;
    }
    panic!("a go.mod lacks the line that this crate reads a version from")
}

/// A digest that needs no dependency and stays the same across releases of Rust. It tells folders apart;
/// it protects against nothing.
pub(crate) fn fnv1a(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        // The zero byte keeps ("ab", "c") apart from ("a", "bc").
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

/// `(1, 36)` of `v1.36.3`, `go1.36` or `1.36`; none where the text does not begin like a version.
pub(crate) fn major_minor(version: &str) -> Option<(u32, u32)> {
    let numbers = version.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let mut parts = numbers.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_module_files() {
        for (module, upstream) in [
            (&KUBERNETES, "k8s.io/kubernetes"),
            (&CONFORMANCE, "k8s.io/kubernetes"),
            (&ETCD, "go.etcd.io/etcd/server/v3"),
            (&CLUSTER_API, "sigs.k8s.io/cluster-api"),
            (&K3S, "github.com/k3s-io/k3s"),
            (&RUNC, "github.com/opencontainers/runc"),
            (&CNI_FLANNEL, "github.com/containernetworking/plugins"),
        ] {
            assert!(module.version.starts_with('v'), "{upstream}: {}", module.version);
            assert!(major_minor(module.version).is_some(), "{upstream}: {}", module.version);
            assert!(major_minor(module.go).is_some(), "{upstream}: {}", module.go);
            assert!(module.go_sum.contains(&format!("{upstream} {} h1:", module.version)));
            assert!(module.dir().join("go.mod").is_file());
        }
    }

    #[test]
    fn a_version_is_one_word() {
        const GO_MOD: &str =
            "module m\n\ngo 1.26.0\n\nrequire (\n\ta.b/c/v3 v3.0.1\n\ta.b/c v1.2.3 // indirect\n)\n";
        assert_eq!(word_after(GO_MOD, "\n\ta.b/c "), "v1.2.3");
        assert_eq!(word_after(GO_MOD, "\n\ta.b/c/v3 "), "v3.0.1");
        assert_eq!(word_after(GO_MOD, "\ngo "), "1.26.0");
    }

    #[test]
    #[should_panic(expected = "lacks the line")]
    fn a_missing_module_is_an_error() {
        word_after("module m\n\ngo 1.26.0\n", "\n\ta.b/c ");
    }

    #[test]
    fn major_and_minor() {
        assert_eq!(major_minor("v1.36.3"), Some((1, 36)));
        assert_eq!(major_minor("go1.26.8"), Some((1, 26)));
        assert_eq!(major_minor("go1.27rc1"), Some((1, 27)));
        assert_eq!(major_minor("1.26"), Some((1, 26)));
        assert_eq!(major_minor("devel"), None);
    }

    #[test]
    fn the_digest_sees_where_parts_end() {
        assert_ne!(fnv1a(&["ab", "c"]), fnv1a(&["a", "bc"]));
        assert_eq!(fnv1a(&["ab", "c"]), fnv1a(&["ab", "c"]));
    }
}
