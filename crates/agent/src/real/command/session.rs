//! The processes of a command: those in the session that its supervisor leads.
//!
//! The kernel reuses process IDs, so a process is identified by its ID, its start time and the boot. The ID of a
//! session is not reused while the session has members.

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use std::{fs, io};

/// A process that leads a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Supervisor {
    pid: i32,
    /// When it started, in ticks of the kernel since the boot.
    start: u64,
    boot: String,
}

/// A process of a command.
pub(super) struct Member {
    pub(super) pid: i32,
}

/// The state of a process in `/proc`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    is_alive: bool,
    session: i32,
    start: u64,
}

impl Supervisor {
    /// This process.
    pub(super) fn this() -> io::Result<Self> {
        let pid = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let stat = stat(pid)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { pid, start: stat.start, boot: boot()? })
    }

    /// How long ago it started, by the monotonic clock of the kernel. `None` if that was before the last boot.
    pub(super) fn age(&self) -> Option<Duration> {
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
        let start = self.start as f64 / rustix::param::clock_ticks_per_second() as f64;
        (boot().ok()? == self.boot).then(|| Duration::try_from_secs_f64(uptime - start).unwrap_or_default())
    }

    /// The other processes of its session. None if they are of another session with the same ID.
    pub(super) fn members(&self) -> io::Result<Vec<Member>> {
        if boot()? != self.boot || stat(self.pid)?.is_some_and(|stat| stat.start != self.start) {
            return Ok(Vec::new());
        }
        let mut members = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if pid != self.pid
                && let Some(stat) = stat(pid)?
                && stat.is_alive
                && stat.session == self.pid
                && stat.start >= self.start
            {
                members.push(Member { pid });
            }
        }
        Ok(members)
    }

    /// Kills the supervisor itself, if it is still the same process.
    pub(super) fn kill(&self) {
        if boot().is_ok_and(|boot| boot == self.boot)
            && stat(self.pid).is_ok_and(|stat| stat.is_some_and(|stat| stat.start == self.start))
        {
            signal(self.pid, Signal::KILL);
        }
    }
}

impl Member {
    pub(super) fn ask_to_end(&self) {
        signal(self.pid, Signal::TERM);
    }

    pub(super) fn kill(&self) {
        signal(self.pid, Signal::KILL);
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may be gone by now, which is what we want.
        let _ = kill_process(pid, signal);
    }
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn stat(pid: i32) -> io::Result<Option<Stat>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => parse(&text).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        // A process that ends between two system calls.
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NO_PROCESS) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// `ESRCH`.
const NO_PROCESS: i32 = rustix::io::Errno::SRCH.raw_os_error();

/// The name of the program is in parentheses and may itself contain parentheses.
fn parse(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    Some(Stat {
        is_alive: !matches!(*fields.first()?, "Z" | "X"),
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_kernel_is_read_whatever_the_program_is_called() {
        let line = "77 (a) Z 1 (b) S 1 70 66 0 -1 4194368 96 0 0 0 1 2 3 4 20 0 1 0 100318 5124096 625\n";
        assert_eq!(parse(line), Some(Stat { is_alive: true, session: 66, start: 100_318 }));
        let ended = parse(&line.replace(") S", ") Z")).expect("a line");
        assert!(!ended.is_alive);
        assert_eq!(parse("77 (a"), None);
    }

    #[test]
    fn this_process_is_as_old_as_it_is_and_another_one_has_no_members() {
        let this = Supervisor::this().expect("a process");
        assert!(this.age().expect("of this boot") < Duration::from_secs(3600));
        assert_eq!(Supervisor { boot: "other".to_owned(), ..this.clone() }.age(), None);
        for other in [
            Supervisor { boot: "other".to_owned(), ..this.clone() },
            Supervisor { start: this.start + 1, ..this },
        ] {
            assert_eq!(other.members().expect("a list").len(), 0);
        }
    }
}
