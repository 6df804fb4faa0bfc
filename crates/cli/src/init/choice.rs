//! Selects providers by the names that the user gave. Pure.

use anyhow::{Result, bail};
use capstan_api::clusterctl::{Provider, ProviderType};
use kube::ResourceExt as _;

use super::args::ProviderArgs;

/// A provider that the user selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) kind: ProviderType,
    pub(super) name: String,
    pub(super) version: Option<String>,
}

impl Choice {
    fn new(kind: ProviderType, name: &str) -> Self {
        Self { kind, name: name.to_owned(), version: None }
    }

    /// `infrastructure-capstan`: the value of its provider label.
    pub(super) fn label(&self) -> String {
        self.kind.label(&self.name)
    }

    /// The flag that selected it.
    pub(super) fn flag(&self) -> &'static str {
        match self.kind {
            ProviderType::Core => "--core",
            ProviderType::Bootstrap => "--bootstrap",
            ProviderType::ControlPlane => "--control-plane",
            ProviderType::Infrastructure => "--infrastructure",
            ProviderType::Ipam => "--ipam",
            ProviderType::RuntimeExtension => "--runtime-extension",
            ProviderType::Addon => "--addon",
        }
    }

    pub(super) fn is(&self, provider: &Provider) -> bool {
        provider.spec.provider_type() == Some(self.kind)
            && provider.spec.provider_name.as_deref() == Some(self.name.as_str())
    }
}

/// The providers of the flags, in the order in which they are installed; `-` means none.
pub(super) fn asked(args: &ProviderArgs) -> Result<Vec<Choice>> {
    let core: Vec<String> = args.core.iter().cloned().collect();
    let flags = [
        (ProviderType::Core, &core),
        (ProviderType::Bootstrap, &args.bootstrap),
        (ProviderType::ControlPlane, &args.control_plane),
        (ProviderType::Infrastructure, &args.infrastructure),
        (ProviderType::Ipam, &args.ipam),
        (ProviderType::RuntimeExtension, &args.runtime_extension),
        (ProviderType::Addon, &args.addon),
    ];
    let mut choices = Vec::new();
    for (kind, words) in flags {
        for word in words.iter().filter(|word| *word != "-") {
            let (name, version) = match word.split_once(':') {
                Some((name, version)) => (name, Some(version.to_owned())),
                None => (word.as_str(), None),
            };
            let choice = Choice { version, ..Choice::new(kind, name) };
            if name.is_empty() || choice.version.as_deref() == Some("") {
                bail!(
                    "{} {word:?} names no provider: say NAME or NAME:VERSION, as in capstan:v0.1.0",
                    choice.flag()
                );
            }
            choices.push(choice);
        }
    }
    Ok(choices)
}

/// The providers to install: those of the flags, or all of Capstan's; with core, unless a core is installed or `-` was
/// given.
pub(super) fn to_install(args: &ProviderArgs, installed: &[Provider]) -> Result<Vec<Choice>> {
    let mut choices = asked(args)?;
    let declined = args.core.as_deref() == Some("-");
    if choices.iter().all(|choice| choice.kind == ProviderType::Core) {
        let ours = [
            ProviderType::Bootstrap,
            ProviderType::ControlPlane,
            ProviderType::Infrastructure,
            ProviderType::RuntimeExtension,
        ];
        choices.extend(ours.map(|kind| Choice::new(kind, "capstan")));
    }
    let has_core = installed.iter().any(|provider| provider.spec.provider_type() == Some(ProviderType::Core));
    if !has_core && !declined && choices.iter().all(|choice| choice.kind != ProviderType::Core) {
        choices.insert(0, Choice::new(ProviderType::Core, "cluster-api"));
    }
    Ok(choices)
}

/// The installed providers to remove.
pub(super) fn to_remove(args: &ProviderArgs, all: bool, installed: &[Provider]) -> Result<Vec<Provider>> {
    let choices = asked(args)?;
    match (all, choices.is_empty()) {
        (true, false) => bail!("--all leaves nothing to choose: pass either --all or providers"),
        (true, true) => return Ok(installed.to_vec()),
        (false, true) => bail!(
            "which providers? Pass --all, or some of --core, --bootstrap, --control-plane, --infrastructure, --runtime-extension"
        ),
        (false, false) => {}
    }
    let mut found = Vec::new();
    for choice in choices {
        let Some(provider) = installed.iter().find(|provider| choice.is(provider)) else {
            let known: Vec<String> = installed.iter().map(kube::ResourceExt::name_any).collect();
            bail!(
                "{} {}: it is not installed (installed are {})",
                choice.flag(),
                choice.name,
                listed(&known)
            );
        };
        let version = provider.spec.version.as_deref().unwrap_or_default();
        if choice.version.as_deref().is_some_and(|wanted| wanted != version) {
            bail!(
                "{} {}: installed is {version}, not {}",
                choice.flag(),
                choice.name,
                choice.version.unwrap_or_default()
            );
        }
        found.push(provider.clone());
    }
    Ok(found)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Why an installed provider prevents the installation of this one.
pub(super) fn obstacle(
    choice: &Choice,
    version: &str,
    namespace: &str,
    installed: &[Provider],
) -> Option<String> {
    let label = choice.label();
    let found = installed.iter().find(|provider| match choice.kind {
        // There is one core only, whosever.
        ProviderType::Core => provider.spec.provider_type() == Some(ProviderType::Core),
        _ => choice.is(provider),
    })?;
    let (its_version, its_namespace) = (found.spec.version.as_deref().unwrap_or_default(), found.namespace());
    let is_same = choice.is(found) && its_version == version && its_namespace.as_deref() == Some(namespace);
    (!is_same).then(|| {
        format!(
            "{label} {version} cannot be installed beside {} {its_version} in namespace {}: upgrade it with `clusterctl \
             upgrade apply`, or remove it first with `capstan delete {} {}`",
            found.name_any(),
            its_namespace.unwrap_or_default(),
            choice.flag(),
            found.spec.provider_name.as_deref().unwrap_or_default(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn provider(kind: ProviderType, name: &str, version: &str) -> Provider {
        serde_json::from_value(json!({
            "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
            "metadata": {"name": kind.label(name), "namespace": "there"},
            "providerName": name, "type": kind.as_str(), "version": version,
        }))
        .unwrap()
    }

    fn labels(choices: &[Choice]) -> Vec<String> {
        choices.iter().map(Choice::label).collect()
    }

    fn infrastructure(words: &[&str]) -> ProviderArgs {
        ProviderArgs {
            infrastructure: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn without_flags_everything_of_ours_is_installed_and_core_once() {
        let ours = [
            "bootstrap-capstan",
            "control-plane-capstan",
            "infrastructure-capstan",
            "runtime-extension-capstan",
        ];
        let all = labels(&to_install(&ProviderArgs::default(), &[]).unwrap());
        assert_eq!(all[0], "cluster-api");
        assert_eq!(all[1..], ours);
        let core = provider(ProviderType::Core, "cluster-api", "v1.14.0");
        assert_eq!(labels(&to_install(&ProviderArgs::default(), &[core]).unwrap()), ours);
        let declined = ProviderArgs { core: Some("-".to_owned()), ..Default::default() };
        assert_eq!(labels(&to_install(&declined, &[]).unwrap()), ours);
        let some = infrastructure(&["capstan:v0.1.0"]);
        assert_eq!(labels(&to_install(&some, &[]).unwrap()), ["cluster-api", "infrastructure-capstan"]);
    }

    #[test]
    fn what_is_removed_must_be_there() {
        let installed = [provider(ProviderType::Infrastructure, "capstan", "v0.1.0")];
        let names =
            |found: Result<Vec<Provider>>| found.map(|found| found.len()).map_err(|error| error.to_string());
        assert_eq!(names(to_remove(&infrastructure(&["capstan"]), false, &installed)), Ok(1));
        assert_eq!(names(to_remove(&ProviderArgs::default(), true, &installed)), Ok(1));
        for (args, all, part) in [
            (
                infrastructure(&["docker"]),
                false,
                "it is not installed (installed are infrastructure-capstan)",
            ),
            (infrastructure(&["capstan:v9.0.0"]), false, "installed is v0.1.0, not v9.0.0"),
            (infrastructure(&["capstan"]), true, "either --all or providers"),
            (ProviderArgs::default(), false, "which providers?"),
            (infrastructure(&[":v1"]), false, "names no provider"),
        ] {
            let error = names(to_remove(&args, all, &installed)).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn another_version_or_another_core_is_in_the_way() {
        let ours = Choice::new(ProviderType::Infrastructure, "capstan");
        let same = [provider(ProviderType::Infrastructure, "capstan", "v0.1.0")];
        assert_eq!(obstacle(&ours, "v0.1.0", "there", &same), None);
        assert_eq!(obstacle(&ours, "v0.1.0", "there", &[]), None);
        assert!(obstacle(&ours, "v0.2.0", "there", &same).unwrap().contains("clusterctl upgrade apply"));
        assert!(obstacle(&ours, "v0.1.0", "elsewhere", &same).unwrap().contains("in namespace there"));
        let core = Choice::new(ProviderType::Core, "cluster-api");
        let theirs = [provider(ProviderType::Core, "cluster-api", "v1.14.0")];
        assert!(obstacle(&core, "v0.1.0", "there", &theirs).unwrap().contains("cluster-api v1.14.0"));
    }
}
