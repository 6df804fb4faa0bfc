//! Fields that differ from the desired state, and the cost of each difference.
//!
//! The costs are in a table of `capstan-distro`.

use std::borrow::Cow;
use std::fmt;

/// The effect of a change on a machine, in ascending order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// No effect.
    Nothing,
    /// Files are written or commands run, without effect on Kubernetes on the machine.
    Live,
    /// Kubernetes on the machine is restarted. Pods keep running.
    Restart,
    /// The Node is drained before Kubernetes is restarted.
    DrainAndRestart,
    /// The machine is rebooted.
    Reboot,
    /// The change requires another machine.
    Replace,
    /// The change is not possible.
    Refused,
}

impl Cost {
    /// Whether the change can be made in place.
    pub const fn is_in_place(self) -> bool {
        !matches!(self, Self::Replace | Self::Refused)
    }

    /// Its name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Live => "live",
            Self::Restart => "restart",
            Self::DrainAndRestart => "drain and restart",
            Self::Reboot => "reboot",
            Self::Replace => "replace",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A field that differs, and the cost of the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path of the field in its object, as in `spec.settings.disable` or `spec.files[/etc/motd].content`.
    pub field: String,
    /// The previous value, unless it is hidden; `None` if it was not set.
    pub from: Option<String>,
    /// The new value, unless it is hidden; `None` if it is not set.
    pub to: Option<String>,
    /// The cost.
    pub cost: Cost,
    /// The reason for users. Never contains a value.
    pub why: Cow<'static, str>,
    /// Where the new value comes from, if it comes from the configuration of a Host.
    pub origin: Option<String>,
}

impl Change {
    /// A change whose values are not shown.
    pub fn new(field: impl Into<String>, cost: Cost, why: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), from: None, to: None, cost, why: why.into(), origin: None }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}
