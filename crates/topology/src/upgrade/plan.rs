//! The plan of an upgrade: the versions that the control plane and the workers go through.

use super::{Order, UpgradeError, order, parse};
use semver::Version;
use std::collections::BTreeMap;

/// The most minor versions that workers may be behind the control plane.
const SKEW: u64 = 3;

/// Versions that control plane and workers are upgraded to, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plans {
    /// Of the control plane.
    pub control_plane: Vec<String>,
    /// Of the workers. Empty: as few as version skew allows.
    pub workers: Vec<String>,
}

/// Where the plan comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// One step to the version of the topology, which may be of the next minor version.
    OneMinor,
    /// The versions of the class, oldest first.
    Class(&'a [String]),
    /// The response of a runtime extension.
    Given(Plans),
}

impl Source<'_> {
    pub(crate) fn plans(&self, wanted: &str, control_plane: &str) -> Result<Plans, UpgradeError> {
        let only = |control_plane| Plans { control_plane, workers: Vec::new() };
        match self {
            Source::OneMinor => one_minor(wanted, control_plane).map(only),
            Source::Class(versions) => from_class_versions(versions, wanted, control_plane).map(only),
            Source::Given(plans) => Ok(plans.clone()),
        }
    }
}

/// The plan of a control plane without intermediate versions.
///
/// # Errors
/// If it would skip a minor version.
pub fn one_minor(wanted: &str, control_plane: &str) -> Result<Vec<String>, UpgradeError> {
    let (to, from) = (parse(wanted)?, parse(control_plane)?);
    if to == from {
        return Ok(Vec::new());
    }
    if to.minor > from.minor.saturating_add(1) {
        return Err(UpgradeError::TooFar { from: control_plane.to_string(), to: wanted.to_string() });
    }
    Ok(vec![wanted.to_string()])
}

/// The plan of a control plane through the last known version of each minor version.
///
/// # Errors
/// If a version cannot be read.
pub fn from_class_versions(
    versions: &[String],
    wanted: &str,
    control_plane: &str,
) -> Result<Vec<String>, UpgradeError> {
    let (to, from) = (parse(wanted)?, parse(control_plane)?);
    if to == from {
        return Ok(Vec::new());
    }
    let mut candidates: Vec<(u64, &String)> = Vec::new();
    for text in versions {
        let version = parse(text)?;
        // Other builds of the current version are no steps: a plan starts with the next version.
        if version.cmp_precedence(&from).is_le() {
            continue;
        }
        if order(&version, &to) == Order::Greater {
            break;
        }
        candidates.push((version.minor, text));
        if version == to {
            break;
        }
    }
    // The last candidate of each minor version, but of the current one only if the upgrade stays in it.
    let mut plan: Vec<(u64, String)> = Vec::new();
    for (minor, text) in candidates {
        if minor == from.minor && to.minor != from.minor {
            continue;
        }
        match plan.last_mut() {
            Some((last, step)) if *last == minor => *step = text.clone(),
            _ => plan.push((minor, text.clone())),
        }
    }
    Ok(plan.into_iter().map(|(_, text)| text).collect())
}

/// Validates plans, and adds a plan of the workers with as few steps as version skew allows.
///
/// # Errors
/// If a plan goes back, skips a minor version, does not end with the version of the topology, or takes workers to a
/// version that the control plane does not have.
pub fn complete(
    plans: Plans,
    wanted: &str,
    control_plane: &str,
    oldest_workers: Option<&str>,
) -> Result<Plans, UpgradeError> {
    let (to, from) = (parse(wanted)?, parse(control_plane)?);
    let mut minors = BTreeMap::from([(from.minor, control_plane.to_string())]);
    check_control_plane(&plans.control_plane, wanted, &to, &from, &mut minors)?;
    let invalid = |why: String| Err(UpgradeError::WorkersPlan(why));
    let oldest = oldest_workers.map(parse).transpose()?;
    let Some(oldest) = oldest.filter(|oldest| order(oldest, &to) != Order::Equal) else {
        if plans.workers.is_empty() {
            return Ok(plans);
        }
        return invalid("there are no workers, or they have the desired version already".to_string());
    };
    let Plans { control_plane: steps, mut workers } = plans;
    if !steps.is_empty() {
        let unknown = workers.iter().find(|step| *step != control_plane && !steps.contains(step));
        if let Some(unknown) = unknown {
            return invalid(format!(
                "version {unknown} is neither in the plan of the control plane nor its version"
            ));
        }
    }
    if workers.is_empty() {
        workers = fewest(&oldest, &to, wanted, &minors)?;
    }
    check_workers(&workers, wanted, &to, &oldest, control_plane, &steps)?;
    Ok(Plans { control_plane: steps, workers })
}

fn check_control_plane(
    plan: &[String],
    wanted: &str,
    to: &Version,
    from: &Version,
    minors: &mut BTreeMap<u64, String>,
) -> Result<(), UpgradeError> {
    let invalid = |why: String| Err(UpgradeError::ControlPlanePlan(why));
    if order(from, to) == Order::Equal {
        if plan.is_empty() {
            return Ok(());
        }
        return invalid("the control plane has the desired version already".to_string());
    }
    let mut current = from.clone();
    for (i, text) in plan.iter().enumerate() {
        let step = parse(text)?;
        if matches!(order(&step, &current), Order::Less | Order::Equal) {
            return invalid(format!("item {i}: version {text} must be greater than v{current}"));
        }
        if step.minor != current.minor && step.minor != current.minor + 1 {
            let (this, next) = (current.minor, current.minor + 1);
            return invalid(format!(
                "item {i}: expected minor version {this} or {next}, found version {text}"
            ));
        }
        minors.insert(step.minor, text.clone());
        current = step;
    }
    if order(&current, to) != Order::Equal {
        return invalid(format!("it must end with version {wanted}, but ends with v{current}"));
    }
    Ok(())
}

/// A step wherever the workers would be too far behind, and the last one.
fn fewest(
    oldest: &Version,
    to: &Version,
    wanted: &str,
    minors: &BTreeMap<u64, String>,
) -> Result<Vec<String>, UpgradeError> {
    let mut steps = Vec::new();
    let mut minor = oldest.minor.saturating_add(SKEW);
    while minor < to.minor {
        let step = minors.get(&minor).ok_or_else(|| {
            UpgradeError::WorkersPlan(format!(
                "the control plane goes through no version with minor version {minor}"
            ))
        })?;
        steps.push(step.clone());
        minor += SKEW;
    }
    if steps.last().is_none_or(|last| last != wanted) {
        steps.push(wanted.to_string());
    }
    Ok(steps)
}

fn check_workers(
    plan: &[String],
    wanted: &str,
    to: &Version,
    oldest: &Version,
    control_plane: &str,
    steps: &[String],
) -> Result<(), UpgradeError> {
    let invalid = |why: String| Err(UpgradeError::WorkersPlan(why));
    // Builds of one version are ordered by the plan of the control plane.
    let place = |text: &str| {
        let index = steps.iter().position(|step| step == text).map(|index| index + 1);
        index.or((text == control_plane).then_some(0))
    };
    let mut current = oldest.clone();
    for (i, text) in plan.iter().enumerate() {
        let step = parse(text)?;
        match order(&step, &current) {
            Order::Less | Order::Equal => {
                return invalid(format!("item {i}: version {text} must be greater than v{current}"));
            }
            Order::Different => {
                let (Some(this), Some(before)) = (place(text), place(&format!("v{current}"))) else {
                    return invalid(format!("item {i}: the order of v{current} and {text} is not known"));
                };
                if this < before {
                    return invalid(format!("item {i}: version {text} must be before v{current}"));
                }
            }
            Order::Greater => {}
        }
        if step.minor.saturating_sub(current.minor) > SKEW {
            return invalid(format!(
                "item {i}: workers cannot go from v{current} to {text}; a step between them is needed, because they \
                 may be {SKEW} minor versions behind the control plane at most"
            ));
        }
        current = step;
    }
    if order(&current, to) != Order::Equal {
        return invalid(format!("it must end with version {wanted}, but ends with v{current}"));
    }
    Ok(())
}
