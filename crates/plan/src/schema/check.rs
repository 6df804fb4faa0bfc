//! Validation of plans: limits and relations that the types do not enforce.

use std::collections::BTreeSet;

use super::{
    Action, Artifact, EnvVar, FileTarget, Limit, MachinePlan, Periodic, Probe, ProxyCredentials, Source,
    SourceProxy, SourceUrl, Step, Target, Unit, limits,
};
use crate::{MachinePath, StepName};

/// Why a plan is invalid. Names the field, and never repeats a value that may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A size or count is outside its limits.
    #[error("{field}: {limit}")]
    Limit {
        /// Path of the field.
        field: String,
        /// The limit.
        limit: Limit,
    },
    /// Two steps, two probes or two periodic commands have the same name.
    #[error("{field}: there is another one named {name}")]
    Duplicate {
        /// Path of the second one.
        field: String,
        /// The name.
        name: StepName,
    },
    /// Two steps write the same path, or one path would be both a file and a folder.
    #[error("{field}: {path} is already what another step makes")]
    Path {
        /// Path of the field in the second step.
        field: String,
        /// The path.
        path: MachinePath,
    },
    /// A step lists an input step that does not precede it.
    #[error("{field}: no step named {name} comes before this one")]
    Inputs {
        /// Path of the field.
        field: String,
        /// Name of that step.
        name: StepName,
    },
    /// An environment variable is invalid.
    #[error("{field}: {reason}")]
    Variable {
        /// Path of the field.
        field: String,
        /// The problem.
        reason: &'static str,
    },
    /// Another value is invalid.
    #[error("{field}: {reason}")]
    Value {
        /// Path of the field.
        field: String,
        /// The problem.
        reason: &'static str,
    },
}

impl MachinePlan {
    /// Refuses a plan that oversteps a limit or contradicts itself.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        limit("steps", self.steps.len(), 1, limits::STEPS)?;
        limit("probes", self.probes.len(), 0, limits::PROBES)?;
        limit("redact", self.redact.len(), 0, limits::REDACTIONS)?;
        for (index, text) in self.redact.iter().enumerate() {
            limit(format!("redact[{index}]"), text.expose().len(), 1, limits::WORD_BYTES)?;
        }
        let gates = self.steps.iter().filter(|step| matches!(step.action, Action::Gate(_)));
        limit("gates among the steps", gates.count(), 0, limits::GATES)?;
        if self.expires.subsec_nanosecond() != 0 {
            return Err(PlanError::Value { field: "expires".to_owned(), reason: "must be a whole second" });
        }
        let mut names = BTreeSet::new();
        let mut paths = Paths::default();
        for (index, step) in self.steps.iter().enumerate() {
            let field = format!("steps[{index}]");
            step_alone(&field, step)?;
            for (at, name) in step.inputs.iter().enumerate() {
                if !names.contains(name) {
                    return Err(PlanError::Inputs {
                        field: format!("{field}.inputs[{at}]"),
                        name: name.clone(),
                    });
                }
            }
            paths.add(&field, step)?;
            unique(&mut names, field, &step.name)?;
        }
        let mut names = BTreeSet::new();
        for (index, probe) in self.probes.iter().enumerate() {
            let field = format!("probes[{index}]");
            probe_alone(&field, probe)?;
            unique(&mut names, field, &probe.name)?;
        }
        limit("periodic", self.periodic.len(), 0, limits::PERIODIC)?;
        let mut names = BTreeSet::new();
        for (index, periodic) in self.periodic.iter().enumerate() {
            let field = format!("periodic[{index}]");
            periodic_alone(&field, periodic)?;
            unique(&mut names, field, &periodic.name)?;
        }
        for (field, windows) in [("repairWindows", &self.repair_windows), ("hostWindows", &self.host_windows)]
        {
            limit(field, windows.len(), 0, limits::WINDOWS)?;
            for (index, window) in windows.iter().enumerate() {
                limit(format!("{field}[{index}]"), window.len(), 1, limits::WINDOW_BYTES)?;
            }
        }
        if let Some(agent) = &self.agent {
            limit("agent.size", agent.size, 1, limits::AGENT_BYTES)?;
            sources_alone("agent", &agent.sources)?;
        }
        Ok(())
    }
}

fn limit(
    field: impl Into<String>,
    found: impl TryInto<u64>,
    least: u64,
    most: impl TryInto<u64>,
) -> Result<(), PlanError> {
    Limit::check(found, least, most).map_err(|limit| PlanError::Limit { field: field.into(), limit })
}

fn unique<'a>(
    names: &mut BTreeSet<&'a StepName>,
    field: String,
    name: &'a StepName,
) -> Result<(), PlanError> {
    if names.insert(name) { Ok(()) } else { Err(PlanError::Duplicate { field, name: name.clone() }) }
}

fn step_alone(field: &str, step: &Step) -> Result<(), PlanError> {
    limit(format!("{field}.timeoutSeconds"), step.timeout_seconds, 1, limits::TIMEOUT_SECONDS)?;
    limit(format!("{field}.inputs"), step.inputs.len(), 0, limits::STEPS)?;
    if let Some(retry) = step.retry {
        limit(format!("{field}.retry.attempts"), retry.attempts, 1, limits::ATTEMPTS)?;
        limit(format!("{field}.retry.delaySeconds"), retry.delay_seconds, 0, limits::DELAY_SECONDS)?;
        let longest = format!("{field}.retry.maxDelaySeconds");
        limit(longest, retry.max_delay_seconds, retry.delay_seconds.into(), limits::DELAY_SECONDS)?;
    }
    match &step.action {
        Action::File(file) => owners(&format!("{field}.action.file"), file.owner, file.group),
        Action::Directory(directory) => {
            owners(&format!("{field}.action.directory"), directory.owner, directory.group)
        }
        Action::Command(command) => {
            variables(&format!("{field}.action.command.env"), &command.env)?;
            let undo = command.undo.as_ref().map_or(&[][..], |undo| &undo.env);
            variables(&format!("{field}.action.command.undo.env"), undo)
        }
        Action::Artifact(artifact) => artifact_alone(&format!("{field}.action.artifact"), artifact),
        Action::Unit(unit) => unit_alone(&format!("{field}.action.unit"), unit),
        Action::Check(check) => target_alone(&format!("{field}.action.check.target"), &check.target),
        Action::Gate(_) => Ok(()),
    }
}

fn target_alone(field: &str, target: &Target) -> Result<(), PlanError> {
    match target {
        Target::File(FileTarget { max_age_seconds: Some(age), .. }) => {
            limit(format!("{field}.file.maxAgeSeconds"), *age, 1, limits::AGE_SECONDS)
        }
        _ => Ok(()),
    }
}

fn artifact_alone(field: &str, artifact: &Artifact) -> Result<(), PlanError> {
    limit(format!("{field}.size"), artifact.size, 1, limits::ARTIFACT_BYTES)?;
    sources_alone(field, &artifact.sources)?;
    owners(field, artifact.owner, artifact.group)
}

fn sources_alone(field: &str, sources: &[Source]) -> Result<(), PlanError> {
    limit(format!("{field}.sources"), sources.len(), 1, limits::SOURCES)?;
    for (index, source) in sources.iter().enumerate() {
        let field = format!("{field}.sources[{index}]");
        let is_https = matches!(source.url, SourceUrl::Https(_));
        if let Some(proxy) = &source.proxy {
            proxy_alone(&format!("{field}.proxy"), proxy, is_https)?;
        }
        let Some(ca) = &source.ca else { continue };
        let field = format!("{field}.ca");
        limit(&field, ca.len(), 1, limits::CA_BYTES)?;
        if !is_https {
            return Err(PlanError::Value {
                field,
                reason: "only an https source has authorities to believe",
            });
        }
        if !ca.contains("-----BEGIN CERTIFICATE-----") {
            return Err(PlanError::Value { field, reason: "must be certificates in PEM" });
        }
    }
    Ok(())
}

fn proxy_alone(field: &str, proxy: &SourceProxy, is_https: bool) -> Result<(), PlanError> {
    if !is_https {
        return Err(PlanError::Value {
            field: field.to_owned(),
            reason: "only an https source is reached through a proxy",
        });
    }
    let Some(ProxyCredentials { username, password }) = &proxy.credentials else { return Ok(()) };
    limit(format!("{field}.credentials.username"), username.len(), 1, limits::CREDENTIAL_BYTES)?;
    limit(format!("{field}.credentials.password"), password.expose().len(), 1, limits::CREDENTIAL_BYTES)?;
    if username.contains(':') {
        // Basic authentication ends the user name at the first colon.
        let field = format!("{field}.credentials.username");
        return Err(PlanError::Value { field, reason: "must not contain a colon" });
    }
    Ok(())
}

fn unit_alone(field: &str, unit: &Unit) -> Result<(), PlanError> {
    if unit.content.as_bytes().is_empty() {
        // systemd takes an empty file for a unit that is masked.
        return Err(PlanError::Value { field: format!("{field}.content"), reason: "must not be empty" });
    }
    match &unit.stop {
        Some(stop) => {
            limit(format!("{field}.stop.timeoutSeconds"), stop.timeout_seconds, 1, limits::TIMEOUT_SECONDS)
        }
        None => Ok(()),
    }
}

/// The last number is how the operating system says "leave it as it is".
fn owners(field: &str, owner: u32, group: u32) -> Result<(), PlanError> {
    limit(format!("{field}.owner"), owner, 0, u32::MAX - 1)?;
    limit(format!("{field}.group"), group, 0, u32::MAX - 1)
}

fn probe_alone(field: &str, probe: &Probe) -> Result<(), PlanError> {
    limit(format!("{field}.intervalSeconds"), probe.interval_seconds, 1, limits::DELAY_SECONDS)?;
    limit(format!("{field}.timeoutSeconds"), probe.timeout_seconds, 1, limits::DELAY_SECONDS)?;
    limit(format!("{field}.successThreshold"), probe.success_threshold, 1, limits::THRESHOLD)?;
    limit(format!("{field}.failureThreshold"), probe.failure_threshold, 1, limits::THRESHOLD)?;
    target_alone(&format!("{field}.target"), &probe.target)
}

fn periodic_alone(field: &str, periodic: &Periodic) -> Result<(), PlanError> {
    let (least, most) = (limits::SHORTEST_INTERVAL_SECONDS, limits::LONGEST_INTERVAL_SECONDS);
    limit(format!("{field}.intervalSeconds"), periodic.interval_seconds, least.into(), most)?;
    limit(format!("{field}.timeoutSeconds"), periodic.timeout_seconds, 1, limits::PERIODIC_TIMEOUT_SECONDS)
}

fn variables(field: &str, env: &[EnvVar]) -> Result<(), PlanError> {
    limit(field, env.len(), 0, limits::VARIABLES)?;
    let mut names = BTreeSet::new();
    for (index, variable) in env.iter().enumerate() {
        let wrong = |reason| Err(PlanError::Variable { field: format!("{field}[{index}]"), reason });
        let name = variable.name.as_bytes();
        if name.is_empty()
            || name.len() > 256
            || name[0].is_ascii_digit()
            || !name.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_')
        {
            return wrong("a name must be letters, digits and `_`, and not begin with a digit");
        }
        if !names.insert(name) {
            return wrong("there is another variable of this name");
        }
        if variable.value.expose().contains('\0') {
            return wrong("a value cannot contain a zero byte");
        }
        limit(format!("{field}[{index}].value"), variable.value.expose().len(), 0, limits::WORD_BYTES)?;
    }
    Ok(())
}

/// What the steps so far put on the machine: each path once, no file where a folder is needed, and nothing in a
/// folder that comes out of an archive.
#[derive(Default)]
struct Paths {
    /// Files, and folders that nobody else may put anything in.
    closed: BTreeSet<MachinePath>,
    folders: BTreeSet<MachinePath>,
    needed: BTreeSet<MachinePath>,
}

impl Paths {
    fn add(&mut self, field: &str, step: &Step) -> Result<(), PlanError> {
        let Some(path) = step.path() else { return Ok(()) };
        let is_closed = !matches!(step.action, Action::Directory(_));
        let taken = self.closed.contains(&path)
            || self.folders.contains(&path)
            || (is_closed && self.needed.contains(&path));
        let above: Vec<MachinePath> = std::iter::successors(path.parent(), MachinePath::parent).collect();
        if taken || above.iter().any(|folder| self.closed.contains(folder)) {
            return Err(PlanError::Path { field: field.to_owned(), path });
        }
        if is_closed {
            self.closed.insert(path)
        } else {
            self.folders.insert(path)
        };
        self.needed.extend(above);
        Ok(())
    }
}
