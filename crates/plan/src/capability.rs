//! What agents of different versions understand, and what a plan needs of them.
//!
//! An agent rejects a plan with anything that it does not know, because half of a plan is not a plan. So an agent names in its report
//! what it knows beyond the first release, and a manager uses nothing else. `tests/versions.rs` fails if a plan gets a field
//! without a capability.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

use crate::{Action, AgentProgram, OnDrift, Periodic, Probe, Step};

/// A part of the format of plans, or of the documents beside them, that the first release did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// `onDrift` of a step.
    OnDrift,
    /// `agent` of a plan: the agent replaces itself. Not every agent of a version can: it needs systemd.
    ReplaceAgent,
    /// Targets of checks and probes beyond commands and plain HTTP: TLS, TCP, files and units.
    Targets,
    /// `cancel` of the open gates beside a plan. No plan needs it.
    Cancel,
    /// `periodic` of a plan.
    Periodic,
    /// `onDrift: repairInWindow` of a step, and `repairWindows` of a plan.
    RepairWindows,
    /// `proxy` of a source.
    Proxy,
    /// `hostWindows` of a plan.
    HostWindows,
}

impl Capability {
    /// All of them: what this version may understand.
    pub const ALL: [Self; 8] = [
        Self::OnDrift,
        Self::ReplaceAgent,
        Self::Targets,
        Self::Cancel,
        Self::Periodic,
        Self::RepairWindows,
        Self::Proxy,
        Self::HostWindows,
    ];

    /// Its name in reports. It never changes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnDrift => "onDrift",
            Self::ReplaceAgent => "replaceAgent",
            Self::Targets => "targets",
            Self::Cancel => "cancel",
            Self::Periodic => "periodic",
            Self::RepairWindows => "repairWindows",
            Self::Proxy => "proxy",
            Self::HostWindows => "hostWindows",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of capabilities. The empty one is that of the first release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<Capability>);

impl Capabilities {
    /// What agents understand that report no capabilities.
    pub const FIRST_RELEASE: Self = Self(BTreeSet::new());

    /// What this version may understand.
    pub fn all() -> Self {
        Capability::ALL.into_iter().collect()
    }

    /// Whether this one is among them.
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// Those that an agent with these capabilities lacks.
    pub fn lacking_in(&self, agent: &Self) -> Self {
        Self(self.0.difference(&agent.0).copied().collect())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same without one.
    #[must_use]
    pub fn without(mut self, capability: Capability) -> Self {
        self.0.remove(&capability);
        self
    }

    /// What a plan with these steps, probes, periodic commands and windows of the Host and this program of the agent needs.
    pub fn needed_by(
        steps: &[Step],
        probes: &[Probe],
        periodic: &[Periodic],
        host_windows: &[String],
        agent: Option<&AgentProgram>,
    ) -> Self {
        let has = |policy: OnDrift| steps.iter().any(|step| step.on_drift == policy);
        let checks = steps.iter().filter_map(|step| match &step.action {
            Action::Check(check) => Some(&check.target),
            _ => None,
        });
        let artifacts = steps.iter().filter_map(|step| match &step.action {
            Action::Artifact(artifact) => Some(&artifact.sources),
            _ => None,
        });
        let mut sources = artifacts.chain(agent.map(|agent| &agent.sources)).flatten();
        let mut targets = checks.chain(probes.iter().map(|probe| &probe.target));
        let all = [
            has(OnDrift::Report).then_some(Capability::OnDrift),
            has(OnDrift::RepairInWindow).then_some(Capability::RepairWindows),
            agent.is_some().then_some(Capability::ReplaceAgent),
            (!periodic.is_empty()).then_some(Capability::Periodic),
            (!host_windows.is_empty()).then_some(Capability::HostWindows),
            sources.any(|source| source.proxy.is_some()).then_some(Capability::Proxy),
            targets.any(|target| !target.is_of_first_release()).then_some(Capability::Targets),
        ];
        all.into_iter().flatten().collect()
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<T: IntoIterator<Item = Capability>>(capabilities: T) -> Self {
        Self(capabilities.into_iter().collect())
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|capability| capability.name()).collect();
        f.write_str(&names.join(", "))
    }
}

/// The capabilities of an agent as its report names them. Names that this version does not know are those of a later agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedCapabilities {
    /// Version of the agent that they are of. An earlier agent that takes the place of a later one does not know this field and
    /// leaves it in the report.
    pub agent_version: String,

    /// Names of the capabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl ReportedCapabilities {
    /// What an agent of this version with these capabilities reports.
    pub fn of_this_version(agent_version: impl Into<String>, capabilities: &Capabilities) -> Self {
        let names = capabilities.0.iter().map(|capability| capability.name().to_owned()).collect();
        Self { agent_version: agent_version.into(), names }
    }

    /// Those that this version knows.
    pub(crate) fn known(&self) -> Capabilities {
        let is_named = |capability: &Capability| self.names.iter().any(|name| name == capability.name());
        Capability::ALL.into_iter().filter(is_named).collect()
    }
}
