//! Whether so few machines are unhealthy that something may be done about them. Pure.

use capstan_api::core::RemediationTrigger;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use thiserror::Error;

use crate::machinedeployment::limits::{BadAmount, Rounding, scaled};
use crate::machineset::remediation::text;

/// A remediation trigger that cannot be parsed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BadTrigger {
    /// Neither a number nor a percentage.
    #[error("unhealthyLessThanOrEqualTo: {0}")]
    Amount(#[from] BadAmount),
    /// Not `[a-b]`, or `a` is greater than `b`.
    #[error("unhealthyInRange: {0:?} is not a range such as [2-5]")]
    Range(String),
}

/// Whether remediation is permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Permitted; this many more machines may become unhealthy.
    Yes(i32),
    /// Not permitted, and why.
    No(String),
}

/// Evaluates the trigger. Machines that are neither healthy nor unhealthy count as unhealthy here; `unhealthy` is the
/// number of those that are.
pub fn judge(
    trigger: &RemediationTrigger,
    expected: i32,
    healthy: i32,
    unhealthy: usize,
) -> Result<Allowed, BadTrigger> {
    let not_healthy = expected - healthy;
    if let Some(range) = &trigger.unhealthy_in_range {
        let (least, most) = parse(range).ok_or_else(|| BadTrigger::Range(range.clone()))?;
        return Ok(match (least..=most).contains(&not_healthy) {
            true => Allowed::Yes(most - not_healthy),
            false => Allowed::No(format!(
                "Remediation is not allowed, the number of not started or unhealthy machines does not fall within \
                 the range (total: {expected}, unhealthy: {unhealthy}, unhealthyRange: {range})"
            )),
        });
    }
    let all = IntOrString::String("100%".to_owned());
    let limit = trigger.unhealthy_less_than_or_equal_to.as_ref().unwrap_or(&all);
    let most = scaled(limit, expected, Rounding::Down)?;
    Ok(match not_healthy <= most {
        true => Allowed::Yes(most - not_healthy),
        false => Allowed::No(format!(
            "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy \
             (total: {expected}, unhealthy: {unhealthy}, maxUnhealthy: {})",
            text(limit)
        )),
    })
}

fn parse(range: &str) -> Option<(i32, i32)> {
    let (least, most) = range.strip_prefix('[')?.strip_suffix(']')?.split_once('-')?;
    let (least, most) = (least.parse().ok()?, most.parse().ok()?);
    (least <= most).then_some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_is_too_many() {
        for (limit, range, expected, healthy, allowed) in [
            (None, None, 3, 0, Some(0)),
            (None, None, 3, 3, Some(3)),
            (Some("40%"), None, 10, 6, Some(0)),
            (Some("40%"), None, 10, 5, None),
            // Rounded down.
            (Some("50%"), None, 3, 2, Some(0)),
            (Some("50%"), None, 3, 1, None),
            (Some("1"), None, 5, 4, Some(0)),
            (Some("0"), None, 5, 4, None),
            (None, Some("[1-2]"), 5, 5, None),
            (None, Some("[1-2]"), 5, 4, Some(1)),
            (None, Some("[1-2]"), 5, 2, None),
            // The range counts instead.
            (Some("0"), Some("[0-5]"), 5, 0, Some(0)),
        ] {
            let amount = |text: &str| {
                text.parse().map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int)
            };
            let trigger = RemediationTrigger {
                unhealthy_less_than_or_equal_to: limit.map(amount),
                unhealthy_in_range: range.map(str::to_owned),
            };
            let got = match judge(&trigger, expected, healthy, 0).expect("well-formed") {
                Allowed::Yes(more) => Some(more),
                Allowed::No(_) => None,
            };
            assert_eq!(got, allowed, "{limit:?} {range:?} {healthy}/{expected}");
        }
        for range in ["3-5", "[5-3]", "[a-b]", "[]"] {
            let trigger =
                RemediationTrigger { unhealthy_in_range: Some(range.to_owned()), ..Default::default() };
            assert!(judge(&trigger, 1, 1, 0).is_err(), "{range}");
        }
    }
}
