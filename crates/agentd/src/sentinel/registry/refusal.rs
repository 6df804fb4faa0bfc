//! Why a server does not provide an image. Texts have neither credentials nor queries of URLs.

use capstan_agent::machine::MachineError;

/// Why a server, or all of them, do not provide an image.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It may do so later.
    Passing(String),
    /// It will not.
    Lasting(String),
    /// This machine cannot store it.
    Disk(MachineError),
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
impl Refusal {
    pub(super) fn passing(reason: impl ToString) -> Self {
        Self::Passing(reason.to_string())
    }

    pub(super) fn lasting(reason: impl ToString) -> Self {
        Self::Lasting(reason.to_string())
    }

    /// Names the server.
    pub(super) fn of(self, server: &str) -> Self {
        match self {
            Self::Passing(reason) => Self::Passing(format!("{server}: {reason}")),
            Self::Lasting(reason) => Self::Lasting(format!("{server}: {reason}")),
            disk @ Self::Disk(_) => disk,
        }
    }

    /// The refusals of several servers as one. It is passing if one of them is.
    pub(super) fn all(refusals: Vec<Self>) -> Self {
        let is_passing = refusals.iter().any(Self::is_passing);
        let reasons: Vec<String> = refusals.into_iter().map(Self::into_reason).collect();
        let reasons = reasons.join("; ");
        if is_passing { Self::Passing(reasons) } else { Self::Lasting(reasons) }
    }

    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Passing(_) => true,
            Self::Lasting(_) => false,
            Self::Disk(error) => error.is_transient(),
        }
    }

    /// Whether there is no room on the disk of this machine.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Disk(error) if error.is_full())
    }

    fn into_reason(self) -> String {
        match self {
            Self::Passing(reason) | Self::Lasting(reason) => reason,
            Self::Disk(error) => error.to_string(),
        }
    }

    pub(super) fn into_error(self) -> MachineError {
        let transient = self.is_passing();
        match self {
            Self::Disk(error) => error,
            Self::Passing(reasons) | Self::Lasting(reasons) => {
                MachineError::NotFetched { reasons, transient, is_full: false }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn one_server_that_may_answer_later_is_enough_to_try_again() {
        let (later, never) = (|| Refusal::passing("later"), || Refusal::lasting("never"));
        let disk = |kind| Refusal::Disk(MachineError::io("write", io::Error::from(kind)));
        for (refusals, is_passing, text) in [
            (vec![never().of("a"), later().of("b")], true, "a: never; b: later"),
            (vec![never(), never()], false, "never; never"),
            (vec![disk(io::ErrorKind::PermissionDenied)], false, "cannot write: permission denied"),
        ] {
            let all = Refusal::all(refusals);
            assert_eq!(all.is_passing(), is_passing);
            let error = all.into_error();
            assert_eq!(
                (error.is_transient(), error.to_string()),
                (is_passing, format!("cannot fetch it: {text}"))
            );
        }
        assert!(disk(io::ErrorKind::StorageFull).of("a").is_full() && !later().is_full());
        assert!(disk(io::ErrorKind::StorageFull).into_error().is_full());
    }
}
