//! The table: every field of the API, and what a change of it costs.

use super::Cost;

/// Kinds of objects whose changes reach machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// CapstanControlPlane. Its `spec.config` is classified as the spec of a CapstanConfig.
    ControlPlane,
    /// CapstanConfig.
    Config,
    /// HostMachine.
    HostMachine,
    /// Machine.
    Machine,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ControlPlane, Self::Machine, Self::Config, Self::HostMachine];

    /// The kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::ControlPlane => "CapstanControlPlane",
            Self::Config => "CapstanConfig",
            Self::HostMachine => "HostMachine",
            Self::Machine => "Machine",
        }
    }
}

/// How the cost of a field is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It is always this.
    Always(Cost),
    /// It depends on where the version comes from and goes to.
    Version,
    /// It depends on the setting: see the table of the distribution.
    Setting,
    /// It depends on whether Kubernetes reads the file when it starts.
    File,
}

/// How a value may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// As it is.
    Value,
    /// By its size and digest.
    Digest,
    /// As it is, unless it may be a secret of the distribution.
    Setting,
}

/// One row: a field and everything below it, unless a longer row says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The kind it is a field of.
    pub subject: Subject,
    /// Its path: `[]` stands for each entry of a list, `.*` for each key of a map.
    pub path: &'static str,
    /// What a change costs.
    pub rule: Rule,
    /// Why, for people.
    pub why: &'static str,
    /// For lists: the keys that tell entries apart. A list without is compared as a whole.
    pub(super) keys: &'static [&'static str],
    pub(super) shown: Shown,
    /// Whether a difference is told as one, however much is below it.
    pub(super) whole: bool,
}

impl Field {
    const fn new(subject: Subject, path: &'static str, rule: Rule, why: &'static str) -> Self {
        Self { subject, path, rule, why, keys: &[], shown: Shown::Value, whole: false }
    }

    const fn by(self, keys: &'static [&'static str]) -> Self {
        Self { keys, ..self }
    }

    const fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    const fn whole(self) -> Self {
        Self { whole: true, ..self }
    }
}

use Rule::{Always, File, Setting, Version};
use Subject::{Config, ControlPlane, HostMachine, Machine};

const NOTHING: Rule = Always(Cost::Nothing);
const LIVE: Rule = Always(Cost::Live);
const RESTART: Rule = Always(Cost::Restart);
const REPLACE: Rule = Always(Cost::Replace);
const REFUSED: Rule = Always(Cost::Refused);

const AT_ONCE: &str = "it reaches Machine and Node at once";
const NEXT_TIME: &str = "it counts from the next time on";
const NEW_ONLY: &str = "only new machines come to know it";
const OTHER_MACHINE: &str =
    "another template means other machines, and these are kept: name the former template again";
const OTHER_HOST: &str = "another host is another machine";
const FILLED_IN: &str = "Capstan fills it in, once";
const COMMAND: &str = "a command that is new or different is run once";

const FIELDS: &[Field] = &[
    Field::new(
        ControlPlane,
        "metadata",
        NOTHING,
        "labels and annotations of the control plane reach no machine",
    ),
    Field::new(ControlPlane, "spec.replicas", LIVE, "machines join or leave, one after the other"),
    Field::new(ControlPlane, "spec.version", Version, "another version is installed and started"),
    Field::new(ControlPlane, "spec.machineTemplate.metadata", LIVE, AT_ONCE),
    Field::new(ControlPlane, "spec.machineTemplate.spec.infrastructureRef", REPLACE, OTHER_MACHINE).whole(),
    Field::new(ControlPlane, "spec.machineTemplate.spec.readinessGates", LIVE, AT_ONCE)
        .by(&["conditionType"]),
    Field::new(ControlPlane, "spec.machineTemplate.spec.deletion", LIVE, NEXT_TIME),
    Field::new(ControlPlane, "spec.machineTemplate.spec.taints", LIVE, AT_ONCE).by(&["key", "effect"]),
    Field::new(
        ControlPlane,
        "spec.rollout.after",
        RESTART,
        "machines that were set up before are started again",
    ),
    Field::new(
        ControlPlane,
        "spec.rollout.strategy",
        NOTHING,
        "it says what may happen, and makes nothing happen",
    ),
    Field::new(ControlPlane, "spec.etcd.snapshots", LIVE, NEXT_TIME),
    Field::new(ControlPlane, "spec.remediation", LIVE, NEXT_TIME),
    Field::new(ControlPlane, "spec.machineNaming", NOTHING, NEW_ONLY),
    Field::new(Machine, "metadata", LIVE, AT_ONCE),
    Field::new(Machine, "spec.clusterName", REFUSED, "a machine cannot go from one cluster to another"),
    Field::new(Machine, "spec.bootstrap.configRef", REPLACE, "another config is another machine").whole(),
    Field::new(
        Machine,
        "spec.bootstrap.dataSecretName",
        NOTHING,
        "only new machines start with bootstrap data",
    ),
    Field::new(
        Machine,
        "spec.infrastructureRef",
        REPLACE,
        "another infrastructure machine is another machine",
    )
    .whole(),
    Field::new(Machine, "spec.version", Version, "another version is installed and started"),
    Field::new(Machine, "spec.providerID", REFUSED, FILLED_IN),
    Field::new(Machine, "spec.failureDomain", REPLACE, "a machine stands where it stands"),
    Field::new(Machine, "spec.minReadySeconds", LIVE, AT_ONCE),
    Field::new(Machine, "spec.readinessGates", LIVE, AT_ONCE).by(&["conditionType"]),
    Field::new(Machine, "spec.deletion", LIVE, NEXT_TIME),
    Field::new(Machine, "spec.taints", LIVE, AT_ONCE).by(&["key", "effect"]),
    Field::new(Config, "metadata", NOTHING, "labels and annotations of the config reach no machine"),
    Field::new(
        Config,
        "spec.distro",
        REFUSED,
        "a machine cannot go from one distribution to another: make another cluster",
    ),
    Field::new(Config, "spec.format", NOTHING, "only new machines start with bootstrap data"),
    Field::new(Config, "spec.settings.*", Setting, "k3s reads its settings when it starts")
        .shown(Shown::Setting)
        .whole(),
    Field::new(Config, "spec.files", File, "the file is written").by(&["path"]),
    Field::new(Config, "spec.files[].content", File, "the file is written").shown(Shown::Digest),
    Field::new(Config, "spec.before", LIVE, COMMAND).by(&["name"]),
    Field::new(Config, "spec.after", LIVE, COMMAND).by(&["name"]),
    Field::new(
        HostMachine,
        "metadata",
        NOTHING,
        "labels and annotations of the HostMachine reach no machine",
    ),
    Field::new(HostMachine, "spec.providerID", REFUSED, FILLED_IN),
    Field::new(HostMachine, "spec.claimID", REFUSED, FILLED_IN),
    Field::new(HostMachine, "spec.hostName", REPLACE, OTHER_HOST),
    Field::new(
        HostMachine,
        "spec.hostSelector",
        REPLACE,
        "other hosts may be claimed by other machines only",
    )
    .whole(),
];

/// The whole table.
pub fn fields() -> &'static [Field] {
    FIELDS
}

/// The row that a path belongs to: the longest that is the path itself or stands above it. `[]` in the path stands for
/// each entry of a list, `.*` for each key of a map.
pub fn field(subject: Subject, path: &str) -> Option<&'static Field> {
    if subject == ControlPlane
        && let Some(rest) = path.strip_prefix("spec.config").filter(|rest| rest.starts_with('.'))
    {
        return field(Config, &format!("spec{rest}"));
    }
    let above = |row: &&Field| {
        row.subject == subject
            && path.strip_prefix(row.path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    FIELDS.iter().filter(above).max_by_key(|row| row.path.len())
}

/// Whether the keys below a path are those of a map, not of a struct.
pub(super) fn is_map(subject: Subject, path: &str) -> bool {
    field(subject, &format!("{path}.*")).is_some_and(|row| row.path.ends_with(".*"))
        || path.ends_with(".labels")
        || path.ends_with(".annotations")
}
