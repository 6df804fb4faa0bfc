//! The systemd unit of k3s.

use crate::Role;

/// A member that was removed from etcd leaves this mark, and k3s would join anew when it is started with it. Who is a
/// member is Capstan's to decide.
const REMOVED: &str = "/var/lib/rancher/k3s/server/db/etcd/tombstone";

/// Name of the unit, without its ending.
pub(super) const fn name(role: Role) -> &'static str {
    if role.is_server() { "k3s" } else { "k3s-agent" }
}

/// The word that tells k3s what to be.
pub(super) const fn kind(role: Role) -> &'static str {
    if role.is_server() { "server" } else { "agent" }
}

/// The unit file. k3s says itself when it is up, so that nobody has to ask; pods outlive a restart, because only the
/// main process is ended.
/// Of two files with the environment, the later one counts.
pub(super) fn content(role: Role, program: &str, environment: Option<&str>) -> String {
    let (name, kind) = (name(role), kind(role));
    let environment = environment.map(|path| format!("EnvironmentFile=-{path}\n")).unwrap_or_default();
    let condition =
        if role.is_server() { format!("ConditionPathExists=!{REMOVED}\n") } else { String::new() };
    format!(
        "# Written by Capstan.\n\
         [Unit]\n\
         Description=Kubernetes ({name})\n\
         Documentation=https://k3s.io\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         {condition}\n\
         [Service]\n\
         Type=notify\n\
         TimeoutStartSec=0\n\
         EnvironmentFile=-/etc/default/{name}\n\
         {environment}\
         ExecStartPre=-/sbin/modprobe br_netfilter\n\
         ExecStartPre=-/sbin/modprobe overlay\n\
         ExecStart={program} {kind}\n\
         KillMode=process\n\
         Delegate=yes\n\
         LimitNOFILE=1048576\n\
         LimitNPROC=infinity\n\
         LimitCORE=infinity\n\
         TasksMax=infinity\n\
         Restart=always\n\
         RestartSec=5s\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}
