//! Injected faults, enabled by an annotation of the Host.
//!
//! `capstan.dev/sim-fault` is one of:
//!
//! | value | effect |
//! |---|---|
//! | `unreachable` | the host does not answer |
//! | `fail-bootstrap` | bootstrap data fails at its first step |
//! | `fail-step=N` | the changes of step N of a plan fail |
//! | `hang-step=N` | the changes of step N of a plan never end |
//! | `dirty-reset` | a reset leaves a file behind |

use capstan_api::infrastructure::Host;
use kube::ResourceExt as _;

/// Annotation of a Host with the fault to inject.
pub const FAULT_ANNOTATION: &str = "capstan.dev/sim-fault";

/// A fault to inject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The host does not answer.
    Unreachable,
    /// Bootstrap data fails.
    FailBootstrap,
    /// Step N of a plan, counted from 1, fails.
    FailStep(usize),
    /// Step N of a plan, counted from 1, never ends.
    HangStep(usize),
    /// A reset leaves a file behind.
    DirtyReset,
}

impl Fault {
    /// The fault that the annotation of a host requests.
    pub fn of(host: &Host) -> Option<Self> {
        let value = host.annotations().get(FAULT_ANNOTATION)?;
        let fault = Self::parse(value);
        if fault.is_none() {
            tracing::warn!(host = %host.name_any(), %value, "unknown fault in {FAULT_ANNOTATION}");
        }
        fault
    }

    fn parse(value: &str) -> Option<Self> {
        match value.split_once('=') {
            Some(("fail-step", number)) => number.parse().ok().map(Self::FailStep),
            Some(("hang-step", number)) => number.parse().ok().map(Self::HangStep),
            Some(_) => None,
            None => match value {
                "unreachable" => Some(Self::Unreachable),
                "fail-bootstrap" => Some(Self::FailBootstrap),
                "dirty-reset" => Some(Self::DirtyReset),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        assert_eq!(Fault::parse("fail-step=3"), Some(Fault::FailStep(3)));
        assert_eq!(Fault::parse("hang-step=1"), Some(Fault::HangStep(1)));
        assert_eq!(Fault::parse("dirty-reset"), Some(Fault::DirtyReset));
        assert_eq!(Fault::parse("unreachable"), Some(Fault::Unreachable));
        assert_eq!(Fault::parse("fail-bootstrap"), Some(Fault::FailBootstrap));
        assert_eq!(Fault::parse("fail-step=x"), None);
        assert_eq!(Fault::parse(""), None);
    }
}
