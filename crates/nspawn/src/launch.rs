//! The command line and environment of systemd-nspawn. Pure.

use std::ffi::OsString;
use std::path::Path;

/// Runs a machine for as long as it should: joins its cgroups, starts it again when it reboots, and passes the
/// wish to stop on to it. `$1` is where its id is written, `$2` how many cgroups follow; the rest is the command.
///
/// systemd-nspawn ends with 133 when the machine inside wants to be started again.
pub(crate) const SUPERVISOR: &str = r#"
set -u
pid=$1; process_files=$2; shift 2
while [ "$process_files" -gt 0 ]; do
	echo $$ > "$1" || exit 1
	shift; process_files=$((process_files - 1))
done
echo $$ > "$pid"
child=
trap 'kill -TERM "$child" 2>/dev/null' TERM
while :; do
	"$@" &
	child=$!
	while :; do
		wait "$child"; code=$?
		kill -0 "$child" 2>/dev/null || break
	done
	[ "$code" -eq 133 ] || exit "$code"
done
"#;

/// What systemd-nspawn is told.
pub(crate) struct Launch<'a> {
    /// Its name among all machines of this machine.
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) root: &'a Path,
    pub(crate) bridge: &'a str,
    /// Whether there is cgroup v2 and nothing else.
    pub(crate) unified: bool,
}

impl Launch<'_> {
    /// The environment it needs.
    pub(crate) fn environment(&self) -> [(&'static str, &'static str); 2] {
        [
            // A kubelet sets kernel parameters.
            ("SYSTEMD_NSPAWN_API_VFS_WRITABLE", "1"),
            ("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", if self.unified { "1" } else { "0" }),
        ]
    }

    /// The command, word by word.
    pub(crate) fn command(&self) -> Vec<OsString> {
        let mut directory = OsString::from("--directory=");
        directory.push(self.root);
        let plain = |word: &str| OsString::from(word);
        vec![
            plain("systemd-nspawn"),
            plain("--quiet"),
            // The one beside the root file system is nobody's business.
            plain("--settings=no"),
            // There need not be a systemd on this machine.
            plain("--register=no"),
            plain("--keep-unit"),
            OsString::from(format!("--machine={}", self.id)),
            OsString::from(format!("--hostname={}", self.name)),
            directory,
            OsString::from(format!("--network-bridge={}", self.bridge)),
            // A machine, not a container: it runs containers of its own.
            plain("--capability=all"),
            plain("--system-call-filter=@known"),
            // A kubelet reads it.
            plain("--bind=/dev/kmsg"),
            plain("--resolv-conf=off"),
            plain("--timezone=off"),
            plain("--link-journal=no"),
            plain("--console=read-only"),
            plain("--boot"),
            // All that the machine logs, on its console.
            plain("systemd.journald.forward_to_console=1"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn launch(unified: bool) -> Launch<'static> {
        Launch { id: "capstan-1-m", name: "m", root: Path::new("/sets/1/m/root"), bridge: "cap-1", unified }
    }

    #[test]
    fn the_command_names_the_machine() {
        let words = launch(false).command();
        for expected in [
            "--machine=capstan-1-m",
            "--hostname=m",
            "--directory=/sets/1/m/root",
            "--network-bridge=cap-1",
            "--boot",
        ] {
            assert!(words.contains(&expected.into()), "{words:?}");
        }
        assert_eq!(launch(false).environment()[1].1, "0");
        assert_eq!(launch(true).environment()[1].1, "1");
    }

    /// Runs `script` as a machine and gives how often it was started, and the exit code.
    fn supervise(script: &str) -> (usize, Option<i32>) {
        let folder = tempfile::tempdir().expect("a folder");
        let (pid, process_file, starts) =
            (folder.path().join("pid"), folder.path().join("cgroup.procs"), folder.path().join("starts"));
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISOR, "supervisor"]).arg(&pid).arg("1").arg(&process_file);
        supervisor.args(["sh", "-c", script, "machine"]).arg(&starts).arg(&pid);
        let status = supervisor.status().expect("runs");
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(read(&pid), read(&process_file));
        assert!(!read(&pid).is_empty());
        (read(&starts).lines().count(), status.code())
    }

    #[test]
    fn a_machine_that_reboots_is_started_again() {
        let twice = r#"echo x >> "$1"; [ "$(wc -l < "$1")" -gt 2 ] || exit 133"#;
        assert_eq!(supervise(twice), (3, Some(0)));
        assert_eq!(supervise(r#"echo x >> "$1"; exit 1"#), (1, Some(1)));
    }

    #[test]
    fn the_wish_to_stop_reaches_the_machine() {
        let until_told =
            r#"echo x >> "$1"; trap 'exit 7' TERM; kill -TERM "$(cat "$2")"; while :; do sleep 0.01; done"#;
        assert_eq!(supervise(until_told), (1, Some(7)));
    }
}
