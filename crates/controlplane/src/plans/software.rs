//! Chooses the software of a machine, from the catalog and from what is installed. Pure.

use capstan_api::bootstrap::Distro;
use capstan_api::controlplane::{AgentRollout, CapstanControlPlane};
use capstan_artifacts::{AGENT, Arch, ArtifactRef, Catalog, VERSION};
use capstan_distro::{Software, is_of_version, software_names};
use capstan_plan::{AgentProgram, Artifact, Source};
use capstan_planner::MachineFacts;
use capstan_planner::plans::{AgentUpgrades, agent_upgrades};
use capstan_planner::wait::{self, Wait};

/// The software of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) program: Software,
    pub(crate) images: Option<Software>,
}

/// Why no software can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The software is not known yet.
    Wait(Wait),
    /// The catalog does not contain the software.
    Unknown(String),
}

/// The available software.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shelf<'a> {
    pub(crate) catalog: &'a Catalog,
    /// Software for certain machines, for versions that the catalog does not contain.
    pub(crate) spare: Option<&'a Spare>,
}

/// Software for machines that accept any artifact, such as simulated ones.
#[derive(Clone, Debug)]
pub struct Spare {
    /// The artifact.
    pub artifact: ArtifactRef,
    /// The operating system that identifies such machines.
    pub os_image: String,
}

/// What a machine has reported about itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    pub(crate) architecture: Option<&'a str>,
    pub(crate) os_image: Option<&'a str>,
}

/// The software of a version. Software that is installed already is kept, whatever the catalog contains now: the folder
/// of a version is never changed.
pub(crate) fn choose(
    shelf: Shelf<'_>,
    distro: Distro,
    version: &str,
    about: About<'_>,
    installed: &[Artifact],
) -> Result<Chosen, Missing> {
    let Some(names) = software_names(distro) else {
        // Rendering names the field.
        return Err(Missing::Unknown(format!("there is no software for {distro:?}")));
    };
    let catalog = shelf.catalog;
    let arch = arch(catalog, names.program, version, about.architecture)?;
    let images = catalog.find(names.images, version, arch).and_then(software);
    let spare = shelf.spare.filter(|spare| about.os_image == Some(&spare.os_image));
    let spare = spare.map(|spare| &spare.artifact);
    let listed = catalog.find(names.program, version, arch).or(spare).and_then(software);
    let there = installed.iter().find(|program| is_of_version(program, version));
    let program = match (listed, there) {
        (Some(listed), Some(there)) if there.sha256 != listed.sha256 => kept(there),
        (Some(listed), _) => listed,
        (None, Some(there)) => kept(there),
        (None, None) if shelf.spare.is_some() && about.os_image.is_none() => {
            return Err(Missing::Wait(wait::about()));
        }
        (None, None) => return Err(Missing::Unknown(unknown(catalog, names.program, version, arch))),
    };
    Ok(Chosen { program, images })
}

/// The program of the agent that comes with this version of the manager. None for a machine that has not reported what it is, and
/// if agents are to stay as they are.
pub(crate) fn agent(
    catalog: &Catalog,
    architecture: Option<&str>,
    owner: &CapstanControlPlane,
) -> Option<AgentProgram> {
    let wanted = owner.spec.rollout.as_ref().and_then(|rollout| rollout.agents).unwrap_or_default();
    if wanted == AgentRollout::Manual {
        return None;
    }
    let Software { sha256, size, sources } =
        catalog.find(AGENT, VERSION, architecture?.parse().ok()?).and_then(software)?;
    Some(AgentProgram { sha256, size, sources })
}

/// How far the roll-out of that program has come in a cluster.
pub(crate) fn upgrades(
    catalog: &Catalog,
    owner: &CapstanControlPlane,
    machines: &[MachineFacts],
) -> AgentUpgrades {
    let offered = machines.iter().filter_map(|machine| {
        let program = agent(catalog, machine.architecture.as_deref(), owner)?;
        Some((machine.name.as_str(), program.sha256))
    });
    agent_upgrades(machines, &offered.collect())
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
        (Some(_), Some(_)) => Err(Missing::Wait(wait::architecture())),
        (None, _) => Ok(Arch::Amd64),
    }
}

fn software(artifact: &ArtifactRef) -> Option<Software> {
    let source = |source: &capstan_artifacts::Source| {
        let url = source.url.parse().ok()?;
        Some(Source { url, ca: source.ca.clone(), proxy: None })
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
        "the management plane has no {name} {version} for {arch}, {there}: add it with `capstan artifacts add`, or ask \
         for another version"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::{Digest, MachinePath, Mode};
    use capstan_planner::facts::AgentFacts;

    fn listed(content: &str) -> ArtifactRef {
        let source = capstan_artifacts::Source { url: format!("https://plane/{content}"), ca: None };
        ArtifactRef { sha256: Digest::of(content.as_bytes()), size: 1, sources: vec![source] }
    }

    fn owner(rollout: &serde_json::Value) -> CapstanControlPlane {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "CapstanControlPlane",
            "metadata": {"name": "cp"},
            "spec": {
                "version": "v1.36.0+k3s1", "rollout": rollout,
                "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"}}},
            },
        }))
        .expect("a CapstanControlPlane")
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
        let about = About { architecture: arch, os_image: None };
        choose(shelf(catalog), Distro::K3s, "v1", about, there).map(|chosen| chosen.program.sha256)
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
        let chosen = choose(shelf(&catalog), Distro::K3s, "v1", About::default(), &[installed("v1", "a")])
            .expect("software");
        assert_eq!(chosen.program.sources[0].url.to_string(), "https://plane/a");
        let images = catalog.with("k3s-airgap-images", "v1", Arch::Amd64, listed("i"));
        let chosen = choose(shelf(&images), Distro::K3s, "v1", About::default(), &[]).expect("software");
        assert_eq!(chosen.images.map(|images| images.sha256), Some(Digest::of(b"i")));
    }

    #[test]
    fn a_missing_program_is_reported_with_the_available_ones() {
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
        assert!(choose(shelf(&two), Distro::Rke2, "v1", About::default(), &[]).is_err());
    }

    #[test]
    fn the_agent_of_this_version_is_offered() {
        let owner = owner(&serde_json::json!({}));
        let offered = |catalog: &Catalog, arch| agent(catalog, arch, &owner).map(|program| program.sha256);
        let catalog = Catalog::default().with(AGENT, VERSION, Arch::Arm64, listed("a"));
        assert_eq!(offered(&catalog, Some("aarch64")), Some(Digest::of(b"a")));
        for (catalog, arch) in [
            (&catalog, Some("amd64")),
            (&catalog, None),
            (&catalog, Some("vax")),
            (&Catalog::default(), Some("arm64")),
        ] {
            assert_eq!(offered(catalog, arch), None, "{arch:?}");
        }
        let earlier = Catalog::default().with(AGENT, "v0.0.1", Arch::Amd64, listed("a"));
        assert_eq!(offered(&earlier, Some("amd64")), None);
        for (agents, is_offered) in [("Automatic", true), ("Manual", false)] {
            let owner = self::owner(&serde_json::json!({"agents": agents, "windows": ["daily 01:00-05:00"]}));
            assert_eq!(agent(&catalog, Some("arm64"), &owner).is_some(), is_offered, "{agents}");
        }
    }

    #[test]
    fn a_roll_out_is_that_of_the_program_for_the_architecture() {
        let owner = owner(&serde_json::json!({}));
        let catalog = Catalog::default().with(AGENT, VERSION, Arch::Arm64, listed("new"));
        let machine = |architecture: &str| {
            let agent = AgentFacts { sha256: Digest::of(b"old"), on_trial: false, rejected: None };
            MachineFacts::worker("w").up().with(|m| {
                (m.architecture, m.agent) = (Some(architecture.to_owned()), Some(agent));
                m.capabilities = Some(capstan_plan::Capabilities::all());
            })
        };
        let upgrades = |architecture| upgrades(&catalog, &owner, &[machine(architecture)]);
        assert_eq!(upgrades("arm64"), AgentUpgrades::Underway);
        assert_eq!(upgrades("amd64"), AgentUpgrades::NotOffered);
    }

    #[test]
    fn a_spare_is_for_machines_that_need_nothing() {
        let spare = Spare { artifact: listed("spare"), os_image: "simulated".to_owned() };
        let program = |catalog: &Catalog, os_image| {
            let shelf = Shelf { catalog, spare: Some(&spare) };
            let about = About { architecture: Some("amd64"), os_image };
            choose(shelf, Distro::K3s, "v1", about, &[]).map(|chosen| chosen.program.sha256)
        };
        let nothing = Catalog::default();
        assert_eq!(program(&nothing, Some("simulated")), Ok(Digest::of(b"spare")));
        assert!(matches!(program(&nothing, Some("Debian")), Err(Missing::Unknown(_))));
        assert!(matches!(program(&nothing, None), Err(Missing::Wait(_))));
        let listed = Catalog::default().with("k3s", "v1", Arch::Amd64, listed("a"));
        for os_image in [Some("simulated"), Some("Debian"), None] {
            assert_eq!(program(&listed, os_image), Ok(Digest::of(b"a")));
        }
    }
}
