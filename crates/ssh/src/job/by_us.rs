//! Executes cloud-config with Capstan's own scripts, in cloud-init's order. Pure.

use super::{Job, Repeat, SENTINEL};
use crate::cloudconfig::{CloudConfig, Command, Encoding, Ntp, User, WriteFile, shell_script};
use crate::script::quote;

/// Adds the steps.
pub(super) fn steps(job: &mut Job, config: &CloudConfig, repeat: Repeat) {
    commands(job, repeat, "bootcmd", &config.bootcmd, "exit \"$code\"");
    let mut number = 0;
    let mut write = |job: &mut Job, deferred: bool| {
        for file in config.write_files.iter().filter(|file| file.defer == deferred) {
            write_file(job, number, file);
            number += 1;
        }
    };
    write(job, false);
    for user in &config.users {
        add_user(job, user);
    }
    if let Some(ntp) = config.ntp.as_ref().filter(|ntp| ntp.enabled) {
        set_time_servers(job, ntp);
    }
    write(job, true);
    commands(job, repeat, "runcmd", &config.runcmd, "judge \"$code\"");
}

fn commands(job: &mut Job, repeat: Repeat, key: &str, commands: &[Command], end: &str) {
    if commands.is_empty() {
        return;
    }
    job.add(&format!("files/{key}"), shell_script(key, commands));
    for (number, command) in commands.iter().enumerate() {
        let id = format!("{key}.{number}");
        job.name(&id, &format!("{key}[{number}] ({})", command.program()));
        if command.mentions(SENTINEL) {
            job.name("sentinel", &id);
        }
    }
    job.step(
        repeat,
        key,
        &format!(
            "CAPSTAN_ITEMS=$dir/items\nexport CAPSTAN_ITEMS\n/bin/sh \"$dir/files/{key}\"\ncode=$?\n\
             printf '{key}.end %s\\n' \"$code\" >>\"$dir/items\"\n{end}"
        ),
    );
}

fn write_file(job: &mut Job, number: usize, file: &WriteFile) {
    let content = format!("files/write-{number}");
    job.add(&content, file.content.clone());
    let how = format!(
        "{}{}",
        if file.append { "append " } else { "" },
        if file.encoding == Encoding::Gzip { "gzip" } else { "" }
    );
    let body = format!(
        "write_file {} {:04o} {} \"$dir/{content}\" {}",
        quote(&file.path),
        file.mode,
        quote(&file.owner),
        quote(how.trim())
    );
    job.step(Repeat::Again, &format!("write_files {}", file.path), &body);
}

fn add_user(job: &mut Job, user: &User) {
    let name = quote(&user.name);
    let option = |flag: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!(" {flag} {}", quote(value))).unwrap_or_default()
    };
    let mut body = format!(
        "if remember_user {name}; then\n\tuseradd -m{}{}{}{} {name} || exit\nfi\n",
        option("-c", &user.gecos),
        option("-d", &user.home),
        option("-s", &user.shell),
        option("-g", &user.primary_group)
    );
    if !user.groups.is_empty() {
        body.push_str(&format!("usermod -a -G {} {name} || exit\n", quote(&user.groups.join(","))));
    }
    if let Some(hash) = &user.password {
        // Through standard input: arguments are for everybody to see.
        body.push_str(&format!("printf '%s:%s\\n' {name} {} | chpasswd -e || exit\n", quote(hash)));
    }
    if user.lock_password {
        body.push_str(&format!("usermod -L {name} || exit\n"));
    }
    let number = job.steps;
    if !user.sudo.is_empty() {
        let rules: String = user.sudo.iter().map(|rule| format!("{} {rule}\n", user.name)).collect();
        let content = format!("files/sudo-{number}");
        job.add(&content, rules);
        body.push_str(&format!(
            "write_file {} 0440 root:root \"$dir/{content}\" '' || exit\n",
            quote(&format!("/etc/sudoers.d/90-capstan-{}", user.name.replace('.', "_")))
        ));
    }
    if !user.keys.is_empty() {
        let content = format!("files/keys-{number}");
        job.add(&content, user.keys.iter().map(|key| format!("{key}\n")).collect::<String>());
        body.push_str(&format!("authorize {name} \"$dir/{content}\" || exit\n"));
    }
    job.step(Repeat::Again, &format!("users {}", user.name), &body);
}

fn set_time_servers(job: &mut Job, ntp: &Ntp) {
    let all: Vec<&str> = ntp.servers.iter().chain(&ntp.pools).map(String::as_str).collect();
    job.add("files/timesyncd", format!("[Time]\nNTP={}\n", all.join(" ")));
    let servers = ntp.servers.iter().map(|name| format!("server {name} iburst\n"));
    let pools = ntp.pools.iter().map(|name| format!("pool {name} iburst\n"));
    let chrony: String = servers.chain(pools).collect();
    job.add("files/chrony", chrony);
    let body = "\
if [ -d \"$root/etc/chrony/sources.d\" ] && has chronyc; then
	write_file /etc/chrony/sources.d/capstan.sources 0644 root:root \"$dir/files/chrony\" '' && chronyc reload sources
elif [ -e \"$root/lib/systemd/systemd-timesyncd\" ]; then
	write_file /etc/systemd/timesyncd.conf.d/capstan.conf 0644 root:root \"$dir/files/timesyncd\" '' || exit
	[ -n \"$root\" ] || { systemctl enable systemd-timesyncd && systemctl restart systemd-timesyncd; }
else
	complain 'neither systemd-timesyncd nor chrony is there to be told'
	exit 1
fi";
    job.step(Repeat::Again, "ntp", body);
}
