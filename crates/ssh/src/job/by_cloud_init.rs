//! Executes cloud-config with the machine's own cloud-init, from a NoCloud seed. Pure.
//!
//! To cloud-init a claim is a new instance. For a new instance cloud-init does more than the data requests: new host
//! keys, another network configuration, a default user, other package sources. So the seed configures only the modules
//! that the data uses.

use serde_json::{Value, json};

use super::{Job, Repeat};
use crate::cloudconfig::{CloudConfig, Metadata};
use crate::script::quote;

const SEED: &str = "/var/lib/cloud/seed/nocloud";
/// Comes last, so that it counts.
const SETTINGS: &str = "/etc/cloud/cloud.cfg.d/99-zz-capstan.cfg";

/// What cloud-init keeps about the instance: put back when the claim is undone.
const STATE: [&str; 11] = [
    "/var/lib/cloud/instance",
    "/var/lib/cloud/data/instance-id",
    "/var/lib/cloud/data/previous-instance-id",
    "/var/lib/cloud/data/previous-datasource",
    "/run/cloud-init/.instance-id",
    "/run/cloud-init/instance-data.json",
    "/run/cloud-init/instance-data-sensitive.json",
    "/run/cloud-init/combined-cloud-config.json",
    "/run/cloud-init/cloud.cfg",
    "/run/cloud-init/result.json",
    "/run/cloud-init/status.json",
];

/// Keys, the module of cloud-init that reads each, and the stage that runs it.
const MODULES: [(&str, &str, &str); 14] = [
    ("bootcmd", "bootcmd", "init"),
    ("write_files", "write_files", "init"),
    ("disk_setup", "disk_setup", "init"),
    ("fs_setup", "disk_setup", "init"),
    ("mounts", "mounts", "init"),
    ("groups", "users_groups", "init"),
    ("users", "users_groups", "init"),
    ("ntp", "ntp", "config"),
    ("runcmd", "runcmd", "config"),
    ("packages", "package_update_upgrade_install", "final"),
    ("package_update", "package_update_upgrade_install", "final"),
    ("package_upgrade", "package_update_upgrade_install", "final"),
    ("write_files", "write_files_deferred", "final"),
    ("runcmd", "scripts_user", "final"),
];

/// What cannot be undone, as it is said when the host is given back.
const LASTING: [(&str, &str); 5] = [
    ("package_upgrade", "packages, which the key package_upgrade of the bootstrap data has upgraded"),
    ("disk_setup", "partitions, which the key disk_setup of the bootstrap data has made"),
    ("fs_setup", "file systems, which the key fs_setup of the bootstrap data has made"),
    ("mounts", "mounts, which the key mounts of the bootstrap data has made"),
    ("groups", "groups, which the key groups of the bootstrap data has made"),
];

/// Adds the steps.
pub(super) fn steps(job: &mut Job, program: &str, data: &[u8], config: &CloudConfig, metadata: &Metadata) {
    job.add("cloud-init", "");
    let lasting: Vec<&str> =
        LASTING.iter().filter(|(key, _)| has(config, key)).map(|(_, what)| *what).collect();
    if !lasting.is_empty() {
        job.add("lasting", format!("{}\n", lasting.join("\n")));
    }
    job.step(Repeat::Again, "remember what is there", &remember(config));

    let instance = json!({
        "instance-id": metadata.instance_id,
        "local-hostname": metadata.hostname,
        "provider-id": metadata.provider_id,
    });
    job.add("files/settings", format!("# Made by Capstan.\n{}\n", settings(config)));
    job.add("files/meta-data", format!("{instance}\n"));
    job.add("files/user-data", data);
    // Without the link, cloud-init takes nothing that it remembers of another instance for this one.
    let seed = format!(
        "write_file {SETTINGS} 0644 root:root \"$dir/files/settings\" '' &&\n\
         \twrite_file {SEED}/meta-data 0600 root:root \"$dir/files/meta-data\" '' &&\n\
         \twrite_file {SEED}/user-data 0600 root:root \"$dir/files/user-data\" '' &&\n\
         \trm -f \"$root/var/lib/cloud/instance\""
    );
    job.step(Repeat::Again, "cloud-init's seed", &seed);
    job.step(Repeat::of(data), "cloud-init", &run(program));
}

fn has(config: &CloudConfig, key: &str) -> bool {
    config.keys.iter().any(|found| found == key)
}

/// Everything that is known to change, as it is before.
fn remember(config: &CloudConfig) -> String {
    let files = config.write_files.iter().map(|file| file.path.as_str());
    let of_key = |key: &str, paths: &'static [&'static str]| -> &'static [&'static str] {
        if has(config, key) { paths } else { &[] }
    };
    let others = [
        of_key("users", &["/etc/sudoers.d/90-cloud-init-users"]),
        of_key("mounts", &["/etc/fstab"]),
        of_key(
            "ntp",
            &[
                "/etc/systemd/timesyncd.conf.d/cloud-init.conf",
                "/etc/chrony/chrony.conf",
                "/etc/ntp.conf",
                "/etc/ntpsec/ntp.conf",
            ],
        ),
    ];
    // It has never run here: all it will keep is this claim's.
    let mut body = String::from("[ -e \"$root/var/lib/cloud\" ] || : >\"$dir/cloud-init.new\" || exit\n");
    for path in files.chain(others.into_iter().flatten().copied()) {
        body.push_str(&format!("make_folders_later {0} && remember {0} || exit\n", quote(path)));
    }
    for path in STATE {
        body.push_str(&format!("remember {path} || exit\n"));
    }
    // Whoever needs a package may bring it along, an NTP client too.
    if ["ntp", "packages"].iter().any(|key| has(config, key)) {
        body.push_str("[ -e \"$dir/packages\" ] || list_packages >\"$dir/packages\"\n");
    }
    for user in &config.users {
        body.push_str(&format!("remember_user {} || :\n", quote(&user.name)));
    }
    body.push(':');
    body
}

fn settings(config: &CloudConfig) -> Value {
    let of_stage = |stage: &str| {
        let mut modules: Vec<&str> = Vec::new();
        for (key, module, at) in MODULES {
            if at == stage && has(config, key) && !modules.contains(&module) {
                modules.push(module);
            }
        }
        modules
    };
    json!({
        "datasource_list": ["NoCloud"],
        "network": {"config": "disabled"},
        "preserve_hostname": true,
        "manage_etc_hosts": false,
        "ssh_deletekeys": false,
        "warnings": {"dsid_missing_source": false},
        "disable_root": false,
        "users": [],
        "cloud_init_modules": of_stage("init"),
        "cloud_config_modules": of_stage("config"),
        "cloud_final_modules": of_stage("final"),
    })
}

fn run(program: &str) -> String {
    format!(
        "cloud_init={}\n{}",
        quote(program),
        r#"# The machine may still be in its first boot, and cloud-init with it.
tries=0
while [ -z "$root" ] && has systemctl && [ "$tries" -lt 600 ]; do
	systemctl list-jobs --no-legend --plain 2>/dev/null | grep -q 'cloud-' || break
	sleep 1
	tries=$((tries + 1))
done
result=$root/run/cloud-init/result.json
record=$root/var/log/cloud-init.log
size=0
[ ! -e "$record" ] || size=$(wc -c <"$record")
rm -f "$result"
# What it began for this claim when the machine stopped, it would take for done.
rm -rf "$root/var/lib/cloud/instances/${dir##*/}/sem"
"$cloud_init" init --local
"$cloud_init" init
"$cloud_init" modules --mode=config
"$cloud_init" modules --mode=final
if [ ! -e "$result" ]; then
	complain 'cloud-init did not come to its end'
	judge 1
fi
# How its script of commands ended, it says in its log only.
code=$(tail -c "+$((size + 1))" "$record" 2>/dev/null | grep -A 1 "^Command: .*/scripts/runcmd'" |
	sed -n 's/^Exit code: //p' | tail -n 1)
[ -z "$code" ] || printf 'cloud-init.runcmd %s\n' "$code" >>"$dir/items"
tr -d '\n' <"$result" | sed 's/.*"errors"/cloud-init: errors/'
echo
if tr -d '[:space:]' <"$result" | grep -q '"errors":\[\]'; then judge 0; else judge 1; fi"#
    )
}
