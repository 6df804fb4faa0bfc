//! When a machine may be drained and restarted for a planned change: the windows of its cluster, or those that its Machine has in
//! place of them, and the windows of its Host. Both must be open.

use jiff::Timestamp;
use std::sync::Arc;

pub use capstan_plan::windows::{Opening, Together, WindowError, Windows, together};

use crate::text::rfc3339;
use crate::wait::{self, Wait};

/// When a machine may be drained and restarted for a planned change. The default is at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// The windows of its cluster or of its Machine; none if they do not limit it.
    pub cluster: Option<Schedule>,
    /// The windows of its Host; none if they do not limit it.
    pub host: Option<Schedule>,
}

/// Windows of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The field that they are in, for users, with the object if that is not the control plane.
    field: String,
    /// The windows, or why they cannot be read, so that they are never open.
    windows: Result<Arc<Windows>, String>,
}

/// Why a machine waits for a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// For users. It names the fields whose windows are closed.
    pub why: Wait,
    /// When all windows of the machine are open; not known if they cannot be read, or are not open together for two weeks.
    pub opens: Option<Timestamp>,
}

impl Schedule {
    /// Reads the windows of a field; `None` if there are none.
    pub fn read<'a>(field: impl Into<String>, texts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let windows = Windows::parse(texts).transpose()?;
        Some(Self { field: field.into(), windows: windows.map(Arc::new).map_err(|error| error.to_string()) })
    }

    /// Windows that are not known. They are never open.
    pub fn unknown(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), windows: Err(why.into()) }
    }

    /// The windows; `None` if they cannot be read.
    pub fn windows(&self) -> Option<&Windows> {
        self.windows.as_deref().ok()
    }

    /// One clause about it, for users.
    fn clause(&self, now: Timestamp) -> String {
        let field = &self.field;
        match self.windows.as_ref().map(|windows| windows.at(now)) {
            Err(why) => format!("{field} cannot be read, so that none is open: {why}"),
            Ok(Opening::Open { closes }) => format!("{field} has one open until {}", rfc3339(closes)),
            Ok(Opening::Closed { opens }) => format!("the next one of {field} opens at {}", rfc3339(opens)),
        }
    }
}

impl Maintenance {
    /// No windows limit the machine.
    pub const ANY_TIME: Self = Self { cluster: None, host: None };

    /// The windows that limit it.
    pub fn schedules(&self) -> impl Iterator<Item = &Schedule> {
        self.cluster.iter().chain(&self.host)
    }

    /// Why the machine waits; nothing if all windows are open.
    pub fn closed(&self, now: Timestamp) -> Option<Closed> {
        let mut sets = Vec::new();
        for schedule in self.schedules() {
            match &schedule.windows {
                Ok(windows) => sets.push(windows.as_ref()),
                Err(why) => {
                    return Some(Closed {
                        why: wait::readable_windows(&format!("{}: {why}", schedule.field)),
                        opens: None,
                    });
                }
            }
        }
        let Together::Closed { opens } = together(&sets, now) else { return None };
        let fields = self.schedules().map(|schedule| schedule.field.as_str());
        let why = match opens {
            Some(opens) => {
                let is_closed = |windows: &Windows| matches!(windows.at(now), Opening::Closed { .. });
                let closed = fields.zip(sets).filter(|(_, windows)| is_closed(windows));
                wait::window(opens, &closed.map(|(field, _)| field).collect::<Vec<_>>())
            }
            None => wait::windows_apart(&fields.collect::<Vec<_>>()),
        };
        Some(Closed { why, opens })
    }

    /// Whether no window of the Host is open, which says nothing about other machines.
    pub(crate) fn is_host_closed(&self, now: Timestamp) -> bool {
        let is_open = |windows: &Windows| matches!(windows.at(now), Opening::Open { .. });
        self.host.as_ref().is_some_and(|host| !host.windows().is_some_and(is_open))
    }

    /// What is said about the windows of a machine before a change; nothing if it has none.
    pub fn forecast(&self, now: Timestamp) -> Option<String> {
        let clauses: Vec<String> = self.schedules().map(|schedule| schedule.clause(now)).collect();
        let text = clauses.join("; ");
        let apart = self.closed(now).is_some_and(|closed| {
            closed.opens.is_none() && self.schedules().all(|schedule| schedule.windows.is_ok())
        });
        let apart = if apart { "; they are not open at the same time in the next two weeks" } else { "" };
        (!text.is_empty()).then(|| format!("{text}{apart}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn limited(cluster: &[&str], host: &[&str]) -> Maintenance {
        Maintenance {
            cluster: Schedule::read("spec.rollout.windows", cluster.iter().copied()),
            host: Schedule::read("Host h spec.windows", host.iter().copied()),
        }
    }

    /// 2026-11-21 is a Saturday.
    #[test]
    fn a_machine_waits_until_the_windows_of_its_cluster_and_of_its_host_are_open() {
        let (cluster, host) = ("spec.rollout.windows", "Host h spec.windows");
        let (night, weekend) = (&["daily 01:00-05:00"][..], &["Sat,Sun 03:00-09:00"][..]);
        for (cluster_windows, host_windows, now, expected) in [
            (&[][..], &[][..], "2026-11-20T12:00:00Z", None),
            (night, &[], "2026-11-20T02:00:00Z", None),
            (night, &[], "2026-11-20T12:00:00Z", Some(("2026-11-21T01:00:00Z", vec![cluster]))),
            (&[], weekend, "2026-11-20T12:00:00Z", Some(("2026-11-21T03:00:00Z", vec![host]))),
            (night, weekend, "2026-11-20T12:00:00Z", Some(("2026-11-21T03:00:00Z", vec![cluster, host]))),
            // The window of the cluster is open, and that of the Host is not.
            (night, weekend, "2026-11-21T02:00:00Z", Some(("2026-11-21T03:00:00Z", vec![host]))),
            (night, weekend, "2026-11-21T03:00:00Z", None),
            (night, weekend, "2026-11-21T05:00:00Z", Some(("2026-11-22T03:00:00Z", vec![cluster]))),
        ] {
            let case = format!("{cluster_windows:?} {host_windows:?} {now}");
            let closed = limited(cluster_windows, host_windows).closed(at(now));
            let Some((opens, fields)) = expected else {
                assert_eq!(closed, None, "{case}");
                continue;
            };
            let closed = closed.expect(&case);
            assert_eq!(closed.opens, Some(at(opens)), "{case}");
            let verb = if fields.len() == 1 { "is" } else { "are" };
            let why = format!(
                "waits for its maintenance window, which opens at {opens}; now {} {verb} closed",
                fields.join(" and ")
            );
            assert_eq!(closed.why, why, "{case}");
        }
    }

    #[test]
    fn windows_that_are_never_open_together_are_named() {
        let apart = limited(&["Sat 01:00-05:00"], &["Sun 01:00-05:00"]);
        let closed = apart.closed(at("2026-11-21T02:00:00Z")).expect("closed");
        assert_eq!(
            closed.why,
            "waits for maintenance windows that are not open at the same time in the next two weeks: change \
             spec.rollout.windows and Host h spec.windows so that they overlap"
        );
        assert_eq!(closed.opens, None);
        let forecast = apart.forecast(at("2026-11-21T02:00:00Z")).expect("a forecast");
        assert_eq!(
            forecast,
            "spec.rollout.windows has one open until 2026-11-21T05:00:00Z; the next one of Host h spec.windows opens at \
             2026-11-22T01:00:00Z; they are not open at the same time in the next two weeks"
        );
    }

    #[test]
    fn windows_that_cannot_be_read_are_never_open() {
        let now = at("2026-11-21T02:00:00Z");
        let unreadable = limited(&["daily 00:00-00:00"], &["sometimes"]).closed(now).expect("closed");
        assert!(
            unreadable.why.starts_with(
                "waits until its maintenance windows can be read: Host h spec.windows: \"sometimes\""
            ),
            "{unreadable:?}"
        );
        assert_eq!(unreadable.opens, None);
        let unknown = Maintenance {
            host: Some(Schedule::unknown("Host h spec.windows", "no answer")),
            ..Maintenance::ANY_TIME
        };
        assert_eq!(
            unknown.closed(now).map(|closed| closed.why),
            Some(
                "waits until its maintenance windows can be read: Host h spec.windows: no answer".to_owned()
            )
        );
        assert_eq!(Maintenance::ANY_TIME.forecast(now), None);
    }
}
