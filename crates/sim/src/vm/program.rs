//! The programs that a virtual machine supports. Pure: parses command lines and does not run them.

/// Path of the script in every k3s plan, for actions that are more than a file or a unit.
pub const SCRIPT: &str = "/opt/capstan/lib/k3s.sh";
/// Path of the agent program.
pub const AGENT: &str = "/opt/capstan/capstan-agent";
/// Path of the script that installs and enrols the agent. On a simulated machine the agent is already installed.
pub const INSTALL_AGENT: &str = "/etc/capstan/install-agent";

/// The meaning of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// Run a systemctl command.
    Systemctl(Systemctl),
    /// Create the folders of k3s.
    Room,
    /// Remove all files that k3s wrote.
    Clean,
    /// Check whether the API server is ready.
    Ready,
    /// Check whether the kubelet runs.
    Joined,
    /// Save or prune snapshots of etcd.
    Snapshot,
    /// Save a snapshot of etcd if the server is up.
    SnapshotIfUp,
    /// Reboot the machine, if its boot ID is still this one.
    Reboot(String),
    /// Check whether the boot ID of the machine differs from this one.
    Rebooted(String),
    /// Start the agent.
    Enroll,
    /// Exit at once with this code.
    Exit(i32),
    /// Exit with this code and this output.
    Complain(i32, String),
}

/// A systemctl command. Unit names include their suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Systemctl {
    /// Reload all unit files.
    Reload,
    /// Enable the unit.
    Enable(String),
    /// Disable the unit.
    Disable(String),
    /// Start the unit, unless it is active.
    Start(String),
    /// Restart the unit.
    Restart(String),
    /// Stop the unit.
    Stop(String),
    /// Check whether the unit is active.
    IsActive(String),
    /// Show the state of the unit and which run of it this is.
    Show(String),
    /// Reset the failed state of the unit.
    ResetFailed(String),
}

impl Program {
    /// Parses a command line.
    pub fn parse(words: &[String]) -> Self {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [AGENT, "enroll"] | ["sh", INSTALL_AGENT] => Self::Enroll,
            ["systemctl" | "/usr/bin/systemctl" | "/bin/systemctl", ref rest @ ..] => Self::systemctl(rest),
            ["sh" | "/bin/sh", SCRIPT, "vacant" | "stop"] => Self::Exit(0),
            ["sh" | "/bin/sh", SCRIPT, "room"] => Self::Room,
            ["sh" | "/bin/sh", SCRIPT, "clean"] => Self::Clean,
            ["sh" | "/bin/sh", SCRIPT, "ready", "server", ..] => Self::Ready,
            ["sh" | "/bin/sh", SCRIPT, "ready", "agent", ..] => Self::Joined,
            ["sh" | "/bin/sh", SCRIPT, "reboot", boot_id] => Self::Reboot(boot_id.to_owned()),
            ["sh" | "/bin/sh", SCRIPT, "rebooted", boot_id] => Self::Rebooted(boot_id.to_owned()),
            [k3s, "etcd-snapshot", "save" | "prune", ..] if k3s.ends_with("/k3s") => Self::Snapshot,
            // The words of a plan that does not know whether the server is up.
            ["/bin/sh", "-c", _, "sh", k3s, "etcd-snapshot", "save", ..] if k3s.ends_with("/k3s") => {
                Self::SnapshotIfUp
            }
            ["true" | "/bin/true" | "/usr/bin/true", ..] => Self::Exit(0),
            ["false" | "/bin/false" | "/usr/bin/false", ..] => Self::Exit(1),
            ["sh" | "/bin/sh" | "bash" | "/bin/bash", ..] => Self::complain(
                126,
                "a simulated machine has no shell: there is nothing a script could work on",
            ),
            [program, ..] => Self::complain(
                127,
                &format!("{program}: not found: simulated machines know k3s and little else"),
            ),
            [] => Self::complain(127, "no command"),
        }
    }

    fn systemctl(words: &[&str]) -> Self {
        let words: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with("--")).collect();
        let (order, name) = match words[..] {
            ["daemon-reload"] => return Self::Systemctl(Systemctl::Reload),
            [order, name] => {
                (order, if name.contains('.') { name.to_owned() } else { format!("{name}.service") })
            }
            _ => ("", String::new()),
        };
        Self::Systemctl(match order {
            "enable" => Systemctl::Enable(name),
            "disable" => Systemctl::Disable(name),
            "start" => Systemctl::Start(name),
            "restart" => Systemctl::Restart(name),
            "stop" => Systemctl::Stop(name),
            "is-active" => Systemctl::IsActive(name),
            "show" => Systemctl::Show(name),
            "reset-failed" => Systemctl::ResetFailed(name),
            _ => {
                let words = words.join(" ");
                return Self::complain(1, &format!("simulated systemctl does not know: {words}"));
            }
        })
    }

    fn complain(code: i32, text: &str) -> Self {
        Self::Complain(code, text.to_owned())
    }

    /// Whether the program only reads state. Such a program takes no simulated time.
    pub const fn is_question(&self) -> bool {
        matches!(
            self,
            Self::Systemctl(Systemctl::IsActive(_) | Systemctl::Show(_))
                | Self::Ready
                | Self::Joined
                | Self::Rebooted(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Program {
        Program::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn code(program: &Program) -> i32 {
        match program {
            Program::Exit(code) | Program::Complain(code, _) => *code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_lines_of_k3s_plans_are_known() {
        for (line, program) in [
            ("/opt/capstan/capstan-agent enroll", Program::Enroll),
            ("sh /etc/capstan/install-agent", Program::Enroll),
            ("systemctl restart k3s", Program::Systemctl(Systemctl::Restart("k3s.service".to_owned()))),
            ("systemctl stop -- a.timer", Program::Systemctl(Systemctl::Stop("a.timer".to_owned()))),
            (
                "systemctl show --property=ActiveState,InvocationID -- k3s-agent.service",
                Program::Systemctl(Systemctl::Show("k3s-agent.service".to_owned())),
            ),
            ("systemctl daemon-reload", Program::Systemctl(Systemctl::Reload)),
            ("/bin/sh /opt/capstan/lib/k3s.sh clean", Program::Clean),
            ("/bin/sh /opt/capstan/lib/k3s.sh ready agent /opt/k3s web-0", Program::Joined),
            ("/opt/capstan/k3s/v1/bin/k3s etcd-snapshot save --name a", Program::Snapshot),
            ("sh /opt/capstan/lib/k3s.sh ready server /opt/k3s web-0", Program::Ready),
            ("/bin/sh /opt/capstan/lib/k3s.sh reboot a-1", Program::Reboot("a-1".to_owned())),
            ("/bin/sh /opt/capstan/lib/k3s.sh rebooted a-1", Program::Rebooted("a-1".to_owned())),
        ] {
            assert_eq!(parse(line), program, "{line}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for (line, expected) in [
            ("true", 0),
            ("/bin/true swap.off", 0),
            ("false", 1),
            ("sh -c reboot", 126),
            ("sh /opt/capstan/lib/other.sh clean", 126),
            ("rm -rf /", 127),
            ("systemctl mask k3s", 1),
        ] {
            assert_eq!(code(&parse(line)), expected, "{line}");
        }
    }
}
