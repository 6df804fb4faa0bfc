//! Which software a machine gets: by the catalog, and by what it has already. Pure.

use capstan_api::bootstrap::Distro;
use capstan_artifacts::{Arch, ArtifactRef, Catalog};
use capstan_distro::{Software, is_of_version, software_names};
use capstan_plan::{Artifact, Source};

/// What is installed on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) program: Software,
    pub(crate) images: Option<Software>,
}

/// Why there is nothing to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Not yet.
    Wait(String),
    /// Not unless somebody adds it.
    Unknown(String),
}

/// What there is to choose from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shelf<'a> {
    pub(crate) catalog: &'a Catalog,
    /// What every machine gets as long as the catalog has no such program at all.
    pub(crate) spare: Option<&'a ArtifactRef>,
}

/// The software of a version. What is on the machine already stays what it is, whatever the catalog says of it now: the
/// folder of a version is never changed.
pub(crate) fn choose(
    shelf: Shelf<'_>,
    distro: Distro,
    version: &str,
    architecture: Option<&str>,
    installed: &[Artifact],
) -> Result<Chosen, Missing> {
    let Some(names) = software_names(distro) else {
        // Rendering names the field.
        return Err(Missing::Unknown(format!("there is no software for {distro:?}")));
    };
    let catalog = shelf.catalog;
    let arch = arch(catalog, names.program, version, architecture)?;
    let images = catalog.find(names.images, version, arch).and_then(software);
    let spare = shelf.spare.filter(|_| catalog.versions(names.program).next().is_none());
    let listed = catalog.find(names.program, version, arch).or(spare).and_then(software);
    let there = installed.iter().find(|program| is_of_version(program, version));
    let program = match (listed, there) {
        (Some(listed), Some(there)) if there.sha256 != listed.sha256 => kept(there),
        (Some(listed), _) => listed,
        (None, Some(there)) => kept(there),
        (None, None) => return Err(Missing::Unknown(unknown(catalog, names.program, version, arch))),
    };
    Ok(Chosen { program, images })
}

fn arch(catalog: &Catalog, name: &str, version: &str, architecture: Option<&str>) -> Result<Arch, Missing> {
    if let Some(text) = architecture {
        return text
            .parse()
            .map_err(|error: capstan_artifacts::ArchError| Missing::Unknown(error.to_string()));
    }
    let mut all = catalog.of(name, version).map(|(arch, _)| arch);
    match (all.next(), all.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(Missing::Wait("waits for the machine to say its architecture".to_owned())),
        (None, _) => Ok(Arch::Amd64),
    }
}

fn software(artifact: &ArtifactRef) -> Option<Software> {
    let source = |source: &capstan_artifacts::Source| {
        let url = source.url.parse().ok()?;
        Some(Source { url, ca: source.ca.clone() })
    };
    let sources: Vec<Source> = artifact.sources.iter().filter_map(source).collect();
    (!sources.is_empty()).then_some(Software { sha256: artifact.sha256, size: artifact.size, sources })
}

fn kept(program: &Artifact) -> Software {
    Software { sha256: program.sha256, size: program.size, sources: program.sources.clone() }
}

fn unknown(catalog: &Catalog, name: &str, version: &str, arch: Arch) -> String {
    let versions: Vec<&str> = catalog.versions(name).collect();
    let there = match versions.is_empty() {
        true => "there is none at all".to_owned(),
        false => format!("there is {}", versions.join(", ")),
    };
    format!(
        "the management plane has no {name} {version} for {arch}, {there}: add it, or ask for another version"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::{Digest, MachinePath, Mode};

    fn listed(content: &str) -> ArtifactRef {
        let source = capstan_artifacts::Source { url: format!("https://plane/{content}"), ca: None };
        ArtifactRef { sha256: Digest::of(content.as_bytes()), size: 1, sources: vec![source] }
    }

    fn installed(version: &str, content: &str) -> Artifact {
        Artifact {
            sha256: Digest::of(content.as_bytes()),
            size: 1,
            sources: vec![Source::new("https://former/x".parse().expect("a source"))],
            path: MachinePath::new(format!("/opt/capstan/k3s/{version}/k3s")).expect("a path"),
            unpack: None,
            mode: Mode::new(0o755).expect("a mode"),
            owner: 0,
            group: 0,
        }
    }

    fn shelf(catalog: &Catalog) -> Shelf<'_> {
        Shelf { catalog, spare: None }
    }

    fn program(catalog: &Catalog, arch: Option<&str>, there: &[Artifact]) -> Result<Digest, Missing> {
        choose(shelf(catalog), Distro::K3s, "v1", arch, there).map(|chosen| chosen.program.sha256)
    }

    #[test]
    fn what_is_there_stays_and_the_rest_comes_from_the_catalog() {
        let catalog = Catalog::default().with("k3s", "v1", Arch::Amd64, listed("a"));
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        assert_eq!(program(&catalog, Some("x86_64"), &[]), Ok(a));
        assert_eq!(program(&catalog, None, &[]), Ok(a));
        assert_eq!(program(&catalog, None, &[installed("v1", "b")]), Ok(b));
        assert_eq!(program(&catalog, None, &[installed("v0", "b")]), Ok(a));
        assert_eq!(program(&Catalog::default(), None, &[installed("v1", "b")]), Ok(b));
        // The same bytes come from where they are now.
        let chosen =
            choose(shelf(&catalog), Distro::K3s, "v1", None, &[installed("v1", "a")]).expect("software");
        assert_eq!(chosen.program.sources[0].url.to_string(), "https://plane/a");
        let images = catalog.with("k3s-airgap-images", "v1", Arch::Amd64, listed("i"));
        let chosen = choose(shelf(&images), Distro::K3s, "v1", None, &[]).expect("software");
        assert_eq!(chosen.images.map(|images| images.sha256), Some(Digest::of(b"i")));
    }

    #[test]
    fn what_is_missing_is_told_with_what_there_is() {
        let catalog = Catalog::default().with("k3s", "v2", Arch::Amd64, listed("a"));
        let Err(Missing::Unknown(why)) = program(&catalog, Some("amd64"), &[]) else { panic!("found") };
        assert!(why.contains("no k3s v1 for amd64, there is v2"), "{why}");
        assert!(matches!(program(&catalog, Some("vax"), &[]), Err(Missing::Unknown(_))));
        let two = Catalog::default().with("k3s", "v1", Arch::Amd64, listed("a")).with(
            "k3s",
            "v1",
            Arch::Arm64,
            listed("b"),
        );
        assert!(matches!(program(&two, None, &[]), Err(Missing::Wait(_))));
        assert_eq!(program(&two, Some("aarch64"), &[]), Ok(Digest::of(b"b")));
        assert!(choose(shelf(&two), Distro::Rke2, "v1", None, &[]).is_err());
    }

    #[test]
    fn a_spare_is_used_only_where_there_is_nothing_at_all() {
        let spare = listed("spare");
        let program = |catalog: &Catalog| {
            let shelf = Shelf { catalog, spare: Some(&spare) };
            choose(shelf, Distro::K3s, "v1", Some("amd64"), &[]).map(|chosen| chosen.program.sha256)
        };
        assert_eq!(program(&Catalog::default()), Ok(Digest::of(b"spare")));
        let other = Catalog::default().with("k3s", "v2", Arch::Amd64, listed("a"));
        assert!(matches!(program(&other), Err(Missing::Unknown(_))));
    }
}
