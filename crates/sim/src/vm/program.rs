//! The programs a virtual machine knows. Pure: what a command line means, not what comes of it.

use super::state::Kind;

/// The installer that stands in for artifacts by digest.
pub const INSTALL: &str = "/opt/capstan/install-k3s";
/// Its opposite.
pub const UNINSTALL: &str = "/opt/capstan/uninstall-k3s";
/// What makes the agent start.
pub const AGENT: &str = "/opt/capstan/capstan-agent";
/// What puts the agent there and then makes it start: here it is there already.
pub const INSTALL_AGENT: &str = "/etc/capstan/install-agent";

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// Install this version of k3s.
    Install {
        /// The version.
        version: String,
        /// As what.
        kind: Kind,
    },
    /// Take k3s off the machine.
    Uninstall,
    /// Start k3s, again if it runs.
    Restart(Kind),
    /// Stop k3s.
    Stop(Kind),
    /// Ask whether k3s runs.
    IsActive(Kind),
    /// Ask the API server whether it is ready.
    Ready,
    /// Start the agent.
    Enroll,
    /// End at once, with this code.
    Exit(i32),
    /// End with this code and these words.
    Complain(i32, String),
}

impl Program {
    /// What a command line means on a virtual machine.
    pub fn parse(words: &[String]) -> Self {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [INSTALL, version, "server"] => Self::install(version, Kind::Server),
            [INSTALL, version, "agent"] => Self::install(version, Kind::Agent),
            [INSTALL, ..] => Self::complain(2, "usage: install-k3s VERSION server|agent"),
            [UNINSTALL] => Self::Uninstall,
            [AGENT, "enroll"] | ["sh", INSTALL_AGENT] => Self::Enroll,
            ["systemctl" | "/usr/bin/systemctl" | "/bin/systemctl", ref rest @ ..] => Self::systemctl(rest),
            ["/usr/local/bin/k3s", "kubectl", "get", "--raw", "/readyz"] => Self::Ready,
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

    fn install(version: &str, kind: Kind) -> Self {
        let number = version.strip_prefix('v').unwrap_or_default();
        match number.starts_with(|first: char| first.is_ascii_digit()) {
            true => Self::Install { version: version.to_owned(), kind },
            false => Self::complain(1, &format!("there is no k3s {version}")),
        }
    }

    fn systemctl(words: &[&str]) -> Self {
        let unit = |name: &str| match name.strip_suffix(".service").unwrap_or(name) {
            "k3s" => Some(Kind::Server),
            "k3s-agent" => Some(Kind::Agent),
            _ => None,
        };
        match words {
            ["daemon-reload"] => Self::Exit(0),
            ["restart" | "start", name] => unit(name).map_or_else(|| Self::no_unit(5, name), Self::Restart),
            ["stop", name] => unit(name).map_or_else(|| Self::no_unit(5, name), Self::Stop),
            ["is-active", name] => unit(name).map_or_else(|| Self::complain(3, "inactive"), Self::IsActive),
            _ => Self::complain(1, &format!("simulated systemctl does not know: {}", words.join(" "))),
        }
    }

    fn no_unit(code: i32, name: &str) -> Self {
        Self::complain(code, &format!("Unit {name} not found."))
    }

    fn complain(code: i32, text: &str) -> Self {
        Self::Complain(code, text.to_owned())
    }

    /// Whether it only asks. Asking takes no time.
    pub const fn is_question(&self) -> bool {
        matches!(self, Self::IsActive(_) | Self::Ready)
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
        let version = "v1.33.4+k3s1".to_owned();
        for (line, program) in [
            (
                "/opt/capstan/install-k3s v1.33.4+k3s1 server",
                Program::Install { version: version.clone(), kind: Kind::Server },
            ),
            ("/opt/capstan/install-k3s v1.33.4+k3s1 agent", Program::Install { version, kind: Kind::Agent }),
            ("/opt/capstan/uninstall-k3s", Program::Uninstall),
            ("/opt/capstan/capstan-agent enroll", Program::Enroll),
            ("sh /etc/capstan/install-agent", Program::Enroll),
            ("systemctl restart k3s", Program::Restart(Kind::Server)),
            ("systemctl restart k3s-agent.service", Program::Restart(Kind::Agent)),
            ("systemctl stop k3s", Program::Stop(Kind::Server)),
            ("systemctl is-active k3s-agent", Program::IsActive(Kind::Agent)),
            ("/usr/local/bin/k3s kubectl get --raw /readyz", Program::Ready),
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
            ("rm -rf /", 127),
            ("/opt/capstan/install-k3s latest server", 1),
            ("/opt/capstan/install-k3s v1.33.4+k3s1 sideways", 2),
            ("systemctl restart sshd", 5),
            ("systemctl mask k3s", 1),
        ] {
            assert_eq!(code(&parse(line)), expected, "{line}");
        }
    }
}
