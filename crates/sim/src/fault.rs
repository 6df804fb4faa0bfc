//! Things that go wrong on purpose, switched on by an annotation of the Host.
//!
//! `capstan.dev/sim-fault` is one of:
//!
//! | value | what happens |
//! |---|---|
//! | `unreachable` | the host does not answer |
//! | `fail-bootstrap` | bootstrap data fails at its first step |
//! | `fail-step=N` | whatever step N of a plan does to the machine fails |
//! | `hang-step=N` | whatever step N of a plan does to the machine takes for ever |
//! | `dirty-reset` | a reset leaves something behind |

use capstan_api::infrastructure::Host;
use kube::ResourceExt as _;

/// The annotation.
pub const FAULT_ANNOTATION: &str = "capstan.dev/sim-fault";

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The host does not answer.
    Unreachable,
    /// Bootstrap data fails.
    FailBootstrap,
    /// A step of a plan, counted from 1, fails.
    FailStep(usize),
    /// A step of a plan, counted from 1, never ends.
    HangStep(usize),
    /// A reset leaves something behind.
    DirtyReset,
}

impl Fault {
    /// The fault that a host's annotation asks for.
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
