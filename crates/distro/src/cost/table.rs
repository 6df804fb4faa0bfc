//! The table: every field of the API, and the cost of a change to it.

use super::Cost;

/// Kinds of objects whose changes affect machines.
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
    /// MachineDeployment. Its `spec.template.spec` is classified as the spec of a Machine, except for the references.
    Deployment,
    /// MachineSet.
    Set,
    /// CapstanConfigTemplate.
    ConfigTemplate,
    /// HostMachineTemplate.
    HostMachineTemplate,
    /// Cluster.
    Cluster,
    /// HostCluster.
    HostCluster,
    /// Host.
    Host,
}

impl Subject {
    /// All subjects.
    pub const ALL: [Self; 11] = [
        Self::ControlPlane,
        Self::Deployment,
        Self::Machine,
        Self::Config,
        Self::HostMachine,
        Self::Set,
        Self::ConfigTemplate,
        Self::HostMachineTemplate,
        Self::Cluster,
        Self::HostCluster,
        Self::Host,
    ];

    /// The subject of a kind; none if its changes do not affect machines.
    pub fn of_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| subject.kind() == kind)
    }

    /// The kind, as in `kind` of a manifest.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::ControlPlane => "CapstanControlPlane",
            Self::Config => "CapstanConfig",
            Self::HostMachine => "HostMachine",
            Self::Machine => "Machine",
            Self::Deployment => "MachineDeployment",
            Self::Set => "MachineSet",
            Self::ConfigTemplate => "CapstanConfigTemplate",
            Self::HostMachineTemplate => "HostMachineTemplate",
            Self::Cluster => "Cluster",
            Self::HostCluster => "HostCluster",
            Self::Host => "Host",
        }
    }
}

/// How the cost of a change to a field is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The cost is constant.
    Always(Cost),
    /// The cost depends on the old and the new version.
    Version,
    /// The cost depends on the setting: see the table of the distribution.
    Setting,
    /// The cost depends on whether Kubernetes reads the file when it starts.
    File,
    /// The cost is that of the differences between the templates, field by field.
    Template,
}

/// How a value may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disclosure {
    /// As it is.
    Value,
    /// By its size and digest.
    Digest,
    /// As it is, unless it may be a secret of the distribution.
    Setting,
}

/// One row: a field and all fields below it, unless a row with a longer path applies.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The kind that the field belongs to.
    pub subject: Subject,
    /// Path of the field: `[]` means each entry of a list, `.*` each key of a map.
    pub path: &'static str,
    /// How the cost is determined.
    pub rule: Rule,
    /// The reason for the cost, for people.
    pub why: &'static str,
    /// For lists: the keys that tell entries apart. A list without is compared as a whole.
    pub(super) keys: &'static [&'static str],
    pub(super) shown: Disclosure,
    /// Whether a difference is told as one, however much is below it.
    pub(super) whole: bool,
}

impl Field {
    const fn new(subject: Subject, path: &'static str, rule: Rule, why: &'static str) -> Self {
        Self { subject, path, rule, why, keys: &[], shown: Disclosure::Value, whole: false }
    }

    const fn by(self, keys: &'static [&'static str]) -> Self {
        Self { keys, ..self }
    }

    const fn shown(self, shown: Disclosure) -> Self {
        Self { shown, ..self }
    }

    const fn whole(self) -> Self {
        Self { whole: true, ..self }
    }
}

use Rule::{Always, File, Setting, Template, Version};
use Subject::{
    Cluster, Config, ConfigTemplate, ControlPlane, Deployment, Host, HostCluster, HostMachine,
    HostMachineTemplate, Machine, Set,
};

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
const HELD: &str = "it holds up what would happen, and makes nothing happen";
const PERMISSION: &str = "it says what may happen, and makes nothing happen";
const JOIN_OR_LEAVE: &str = "machines join or leave";
const THEIR_MAKER: &str = "machines stay with what made them";
const BETWEEN: &str = "what differs between the templates counts";
const TEMPLATE: &str =
    "only new machines come to know it: for those there are, make another template and name that one";
const COMMAND: &str = "a command that is new or different is run once";
const K3S_SETTING: &str = "k3s reads its settings when it starts";
const FILE: &str = "the file is written";
const OTHER_HOSTS: &str = "at most: it depends on what differs for the Hosts that are selected";
/// Of labels and taints that belong to a Host.
pub(super) const TO_NODE: &str = "it reaches the Node at once";
const INVENTORY: &str = "it counts for the claim of the Host, and reaches no machine";

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
    Field::new(ControlPlane, "spec.rollout.strategy", NOTHING, PERMISSION),
    Field::new(
        ControlPlane,
        "spec.rollout.agents",
        NOTHING,
        "it says whether the agents of machines are upgraded with Capstan",
    ),
    Field::new(
        ControlPlane,
        "spec.rollout.windows",
        NOTHING,
        "it counts when a machine is to be drained or restarted",
    ),
    Field::new(ControlPlane, "spec.etcd.snapshots", LIVE, NEXT_TIME),
    Field::new(ControlPlane, "spec.healing", LIVE, NEXT_TIME),
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
    Field::new(Machine, "spec.failureDomain", REPLACE, "a machine cannot move to another failure domain"),
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
    Field::new(Config, "spec.settings.*", Setting, K3S_SETTING).shown(Disclosure::Setting).whole(),
    Field::new(Config, "spec.files", File, FILE).by(&["path"]),
    Field::new(Config, "spec.files[].content", File, FILE).shown(Disclosure::Digest),
    Field::new(Config, "spec.before", LIVE, COMMAND).by(&["name"]),
    Field::new(Config, "spec.after", LIVE, COMMAND).by(&["name"]),
    Field::new(
        Config,
        "spec.periodic",
        LIVE,
        "the agent runs the command from the next plan on, and nothing is restarted",
    )
    .by(&["name"]),
    Field::new(
        Config,
        "spec.probes",
        LIVE,
        "the agent runs the probe from the next plan on, and nothing is restarted",
    )
    .by(&["name"]),
    Field::new(Config, "spec.release", LIVE, "it counts when the machine's host is released"),
    Field::new(Config, "spec.onDrift", LIVE, "it counts when the agent next finds a change on the machine"),
    Field::new(Config, "spec.proxy", RESTART, "k3s reads its environment when it starts"),
    Field::new(Config, "spec.hostConfig", Always(Cost::DrainAndRestart), OTHER_HOSTS).by(&["name"]),
    Field::new(Config, "spec.hostConfig[].selector", Always(Cost::DrainAndRestart), OTHER_HOSTS).whole(),
    Field::new(Config, "spec.hostConfig[].config.settings.*", Setting, K3S_SETTING)
        .shown(Disclosure::Setting)
        .whole(),
    Field::new(Config, "spec.hostConfig[].config.files", File, FILE).by(&["path"]),
    Field::new(Config, "spec.hostConfig[].config.files[].content", File, FILE).shown(Disclosure::Digest),
    Field::new(Config, "spec.hostConfig[].config.labels", LIVE, TO_NODE),
    Field::new(Config, "spec.hostConfig[].config.taints", LIVE, TO_NODE).by(&["key", "effect"]),
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
    Field::new(
        Deployment,
        "metadata",
        NOTHING,
        "labels and annotations of the MachineDeployment reach no machine",
    ),
    Field::new(Deployment, "spec.clusterName", REFUSED, "a machine cannot go from one cluster to another"),
    Field::new(Deployment, "spec.replicas", LIVE, JOIN_OR_LEAVE),
    Field::new(
        Deployment,
        "spec.rollout.after",
        REPLACE,
        "once that time has come, machines of MachineSets made before it are replaced, whatever the policy",
    ),
    Field::new(Deployment, "spec.rollout.strategy", NOTHING, PERMISSION),
    Field::new(Deployment, "spec.selector", NOTHING, THEIR_MAKER).whole(),
    Field::new(Deployment, "spec.template.spec.bootstrap.configRef", Template, BETWEEN).whole(),
    Field::new(Deployment, "spec.template.spec.infrastructureRef", Template, BETWEEN).whole(),
    Field::new(Deployment, "spec.machineNaming", NOTHING, NEW_ONLY),
    Field::new(Deployment, "spec.remediation", LIVE, NEXT_TIME),
    Field::new(Deployment, "spec.deletion", LIVE, NEXT_TIME),
    Field::new(Deployment, "spec.paused", NOTHING, HELD),
    Field::new(Set, "metadata", NOTHING, "labels and annotations of the MachineSet reach no machine"),
    Field::new(Set, "spec.clusterName", REFUSED, "a machine cannot go from one cluster to another"),
    Field::new(Set, "spec.replicas", LIVE, JOIN_OR_LEAVE),
    Field::new(Set, "spec.selector", NOTHING, THEIR_MAKER).whole(),
    Field::new(Set, "spec.template.metadata", LIVE, AT_ONCE),
    Field::new(Set, "spec.template.spec", NOTHING, NEW_ONLY),
    Field::new(Set, "spec.template.spec.minReadySeconds", LIVE, AT_ONCE),
    Field::new(Set, "spec.template.spec.readinessGates", LIVE, AT_ONCE).by(&["conditionType"]),
    Field::new(Set, "spec.template.spec.deletion", LIVE, NEXT_TIME),
    Field::new(Set, "spec.template.spec.taints", LIVE, AT_ONCE).by(&["key", "effect"]),
    Field::new(Set, "spec.machineNaming", NOTHING, NEW_ONLY),
    Field::new(Set, "spec.deletion", LIVE, NEXT_TIME),
    Field::new(ConfigTemplate, "metadata", NOTHING, TEMPLATE),
    Field::new(ConfigTemplate, "spec.template", NOTHING, TEMPLATE),
    Field::new(ConfigTemplate, "spec.template.spec.settings.*", NOTHING, TEMPLATE)
        .shown(Disclosure::Setting)
        .whole(),
    Field::new(ConfigTemplate, "spec.template.spec.files", NOTHING, TEMPLATE).by(&["path"]),
    Field::new(ConfigTemplate, "spec.template.spec.files[].content", NOTHING, TEMPLATE)
        .shown(Disclosure::Digest),
    Field::new(ConfigTemplate, "spec.template.spec.hostConfig", NOTHING, TEMPLATE).by(&["name"]),
    Field::new(ConfigTemplate, "spec.template.spec.hostConfig[].config.settings.*", NOTHING, TEMPLATE)
        .shown(Disclosure::Setting)
        .whole(),
    Field::new(ConfigTemplate, "spec.template.spec.hostConfig[].config.files", NOTHING, TEMPLATE)
        .by(&["path"]),
    Field::new(ConfigTemplate, "spec.template.spec.hostConfig[].config.files[].content", NOTHING, TEMPLATE)
        .shown(Disclosure::Digest),
    Field::new(HostMachineTemplate, "metadata", NOTHING, TEMPLATE),
    Field::new(HostMachineTemplate, "spec.template", NOTHING, TEMPLATE),
    Field::new(Cluster, "metadata", NOTHING, "labels and annotations of the Cluster reach no machine"),
    Field::new(Cluster, "spec.paused", NOTHING, HELD),
    Field::new(
        Cluster,
        "spec.clusterNetwork",
        REFUSED,
        "it was decided when the cluster began and cannot be changed: set it back",
    ),
    Field::new(
        Cluster,
        "spec.controlPlaneEndpoint",
        RESTART,
        "the configuration of every machine has the address of the API server, and k3s reads it when it starts",
    ),
    Field::new(Cluster, "spec.controlPlaneRef", NOTHING, THEIR_MAKER).whole(),
    Field::new(Cluster, "spec.infrastructureRef", NOTHING, THEIR_MAKER).whole(),
    Field::new(Cluster, "spec.availabilityGates", NOTHING, "it changes conditions only")
        .by(&["conditionType"]),
    Field::new(
        Cluster,
        "spec.topology",
        NOTHING,
        "core writes it into the objects of the cluster; see their fields",
    )
    .whole(),
    Field::new(
        HostCluster,
        "metadata",
        NOTHING,
        "labels and annotations of the HostCluster reach no machine",
    ),
    Field::new(
        HostCluster,
        "spec.controlPlaneEndpoint",
        REFUSED,
        "every kubeconfig and node points to it: make another cluster",
    ),
    Field::new(HostCluster, "spec.hostSelector", NOTHING, "only new machines claim hosts by it").whole(),
    Field::new(Host, "metadata", NOTHING, "labels count where spec.hostConfig selects Hosts by them"),
    Field::new(Host, "spec.ssh", NOTHING, "Capstan connects to the host with it, and it reaches no machine"),
    Field::new(
        Host,
        "spec.registration",
        NOTHING,
        "Capstan reaches the machine with it; it changes no machine",
    ),
    Field::new(Host, "spec.simulated", NOTHING, "it changes how fast the simulated host is, and no machine"),
    Field::new(Host, "spec.failureDomain", NOTHING, "only new machines come to know it"),
    Field::new(Host, "spec.unschedulable", NOTHING, INVENTORY),
    Field::new(Host, "spec.claim", NOTHING, INVENTORY).whole(),
    Field::new(Host, "spec.quarantine", NOTHING, INVENTORY),
    Field::new(Host, "spec.windows", NOTHING, "it counts when the machine is next drained or restarted"),
    Field::new(Host, "spec.config.settings.*", Setting, K3S_SETTING).shown(Disclosure::Setting).whole(),
    Field::new(Host, "spec.config.files", File, FILE).by(&["path"]),
    Field::new(Host, "spec.config.files[].content", File, FILE).shown(Disclosure::Digest),
    Field::new(Host, "spec.config.labels", LIVE, TO_NODE),
    Field::new(Host, "spec.config.taints", LIVE, TO_NODE).by(&["key", "effect"]),
];

/// The whole table.
pub fn fields() -> &'static [Field] {
    FIELDS
}

/// The row of a path: the one with the longest path that is equal to it or a prefix of it. `[]` in the path means each
/// entry of a list, `.*` each key of a map.
pub fn field(subject: Subject, path: &str) -> Option<&'static Field> {
    if subject == ControlPlane
        && let Some(rest) = path.strip_prefix("spec.config").filter(|rest| rest.starts_with('.'))
    {
        return field(Config, &format!("spec{rest}"));
    }
    if subject == Deployment
        && let Some(rest) = path.strip_prefix("spec.template.")
        && !FIELDS.iter().any(|row| row.subject == Deployment && is_at_or_below(path, row.path))
    {
        return field(Machine, rest);
    }
    let above = |row: &&Field| row.subject == subject && is_at_or_below(path, row.path);
    FIELDS.iter().filter(above).max_by_key(|row| row.path.len())
}

fn is_at_or_below(path: &str, row: &str) -> bool {
    path.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Whether the keys below a path are those of a map, not of a struct.
pub(super) fn is_map(subject: Subject, path: &str) -> bool {
    field(subject, &format!("{path}.*")).is_some_and(|row| row.path.ends_with(".*"))
        || path.ends_with(".labels")
        || path.ends_with(".annotations")
}
