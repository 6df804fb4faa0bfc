//! Fields that differ from what was asked for, and what each difference costs.
//!
//! The costs themselves stand in a table of `capstan-distro`.

use std::borrow::Cow;
use std::fmt;

/// What happens to a machine because of a change; the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// Nothing.
    Nothing,
    /// Something is written or run; Kubernetes on the machine does not notice.
    Live,
    /// Kubernetes on the machine is started again. Pods keep running.
    Restart,
    /// Pods are moved away first.
    DrainAndRestart,
    /// The machine itself is started again.
    Reboot,
    /// It cannot be done to this machine, only to another one in its place.
    Replace,
    /// It cannot be done at all.
    Refused,
}

impl Cost {
    /// Whether it can be done to the machine as it stands.
    pub const fn is_in_place(self) -> bool {
        !matches!(self, Self::Replace | Self::Refused)
    }

    /// Its name, for people.
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

/// One field that differs, and what that costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path of the field in its object, as in `spec.settings.disable` or `spec.files[/etc/motd].content`.
    pub field: String,
    /// What it was, as far as that may be shown; absent if it was not set.
    pub from: Option<String>,
    /// What it is to be, as far as that may be shown; absent if it is not set.
    pub to: Option<String>,
    /// What it costs.
    pub cost: Cost,
    /// Why, for people. Never repeats a value.
    pub why: Cow<'static, str>,
}

impl Change {
    /// A change whose values are not shown.
    pub fn new(field: impl Into<String>, cost: Cost, why: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), from: None, to: None, cost, why: why.into() }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}
