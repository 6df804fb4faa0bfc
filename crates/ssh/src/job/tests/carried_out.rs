//! Bootstrap data is executed once, continues where it stopped, and reports errors.

use capstan_infrastructure::BootstrapState;

use super::world::{World, cloud_config, script};

#[tokio::test]
async fn a_script_runs_once_however_often_it_is_asked_for() {
    let world = World::new();
    let data = script(&format!("#!/bin/sh\necho run >> {}/count\nseq 1 700\n", world.root()));
    assert_eq!(world.ask(&data).await, BootstrapState::Running);
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    assert_eq!(world.read("/count").as_deref(), Some("run\n"));
    // What may be secret is gone as soon as it is not needed.
    assert!(!world.claim().join("data").exists() && !world.claim().join("steps").exists());
}

#[tokio::test]
async fn a_script_that_fails_shows_code_and_last_lines() {
    let world = World::new();
    // Assembled by the script: a line of the data itself would be taken out.
    let failure =
        world.failure(&script("for n in 1 2 3; do echo line $n; done\nfalse && true\nexit 7\n")).await;
    assert_eq!((failure.step.as_str(), failure.exit_code), ("script", Some(7)));
    assert_eq!(failure.last_lines, ["line 1", "line 2", "line 3"]);
}

#[tokio::test]
async fn files_are_written_as_the_data_says() {
    let world = World::new();
    world.write("/etc/motd", "hello\n");
    let data = cloud_config(&format!(
        "write_files:\n\
         - {{path: /etc/deep/er/secret, permissions: '0600', content: 'a: b'}}\n\
         - {{path: /etc/motd, append: true, content: 'one '}}\n\
         - {{path: /etc/motd, append: true, content: two, permissions: '0640'}}\n\
         - {{path: /etc/packed, encoding: gz+b64, content: H4sIAAAAAAACA0tMSgYAwkEkNQMAAAA=}}\n\
         - {{path: /etc/late, defer: true, content: late}}\n\
         bootcmd: [[sh, -c, 'echo boot >> {root}/order']]\n\
         runcmd:\n\
         - cd /\n\
         - shared=yes\n\
         - echo run $shared $(cat {root}/etc/late) >> {root}/order\n\
         - [sh, -c, 'exit 3']\n\
         - '[ $? -eq 3 ] && echo saw it >> {root}/order'\n",
        root = world.root()
    ));
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    assert_eq!(world.read("/etc/deep/er/secret").as_deref(), Some("a: b"));
    assert_eq!((world.mode("/etc/deep/er/secret"), world.mode("/etc/deep")), (0o600, 0o755));
    assert_eq!(world.read("/etc/motd").as_deref(), Some("hello\none two"));
    assert_eq!(world.mode("/etc/motd"), 0o640);
    assert_eq!(world.read("/etc/packed").as_deref(), Some("abc"));
    // Files come before commands, late files too; items share a shell; and as with cloud-init, only the last counts.
    assert_eq!(world.read("/order").as_deref(), Some("boot\nrun yes late\nsaw it\n"));
}

#[tokio::test]
async fn the_command_that_failed_is_named_by_number_and_program() {
    let world = World::new();
    let data = cloud_config(
        "runcmd:\n- echo fine\n- [sh, -c, 'echo \"token is $0\"; exit 9', s3cr3t-value-0123456789ab]\n",
    );
    let failure = world.failure(&data).await;
    assert_eq!((failure.step.as_str(), failure.exit_code), ("runcmd[1] (sh)", Some(9)));
    assert_eq!(failure.last_lines, ["fine", "token is [redacted]"]);
}

#[tokio::test]
async fn an_early_exit_is_where_it_happened() {
    let world = World::new();
    let failure = world.failure(&cloud_config("runcmd:\n- set -e\n- 'false'\n- echo never\n")).await;
    assert_eq!((failure.step.as_str(), failure.exit_code), ("runcmd[1] (false)", Some(1)));
}

#[tokio::test]
async fn what_the_sentinel_says_counts() {
    let sentinel = "/run/cluster-api/bootstrap-success.complete";
    let data = |world: &World, init: &str, after: &str| {
        cloud_config(&format!(
            "write_files:\n- {{path: /run/cluster-api/placeholder, content: x}}\nruncmd:\n\
             - {init} && echo success > {}{sentinel}\n- {after}\n",
            world.root()
        ))
    };
    let world = World::new();
    assert_eq!(world.carried_out(&data(&world, "true", "exit 5")).await, BootstrapState::Done);

    let world = World::new();
    // Left by a machine before: it must not count.
    world.write(sentinel, "success\n");
    let failure = world.failure(&data(&world, "sh -c 'echo no route; exit 4'", "echo after")).await;
    assert_eq!((failure.step.as_str(), failure.exit_code), ("runcmd[0] (sh)", Some(4)));
    assert_eq!(
        failure.last_lines,
        [
            "no route",
            "after",
            "capstan: all commands ended, and /run/cluster-api/bootstrap-success.complete is not there"
        ]
    );

    // As soon as it is there, whatever still runs.
    let world = World::new();
    let slow = data(&world, "true", &format!("while [ ! -e {}/go ]; do sleep 0.05; done", world.root()));
    assert_eq!(world.carried_out(&slow).await, BootstrapState::Done);
    world.write("/go", "");
    world.until("the end", || world.claim().join("run.result").exists()).await;
}

#[tokio::test]
async fn work_that_died_goes_on_where_it_stopped_but_no_command_runs_twice() {
    let world = World::new();
    let wait = format!("while [ ! -e {}/go ]; do sleep 0.05; done", world.root());
    let data = cloud_config(&format!(
        "bootcmd:\n- echo boot >> {root}/order\nwrite_files:\n- {{path: /etc/a, content: a}}\nruncmd:\n\
         - echo run >> {root}/order\n- {wait}\n",
        root = world.root()
    ));
    assert_eq!(world.ask(&data).await, BootstrapState::Running);
    world.until("the command", || world.read("/order").is_some_and(|order| order.contains("run"))).await;
    world.cut_power();
    let failure = world.failure(&data).await;
    assert_eq!((failure.step.as_str(), failure.exit_code), ("runcmd[1] (while)", None));
    assert!(failure.last_lines[0].contains("not run a second time"), "{failure:?}");
    assert_eq!(world.read("/order").as_deref(), Some("boot\nrun\n"));
}

#[tokio::test]
async fn data_that_says_it_may_be_repeated_is() {
    let world = World::new();
    let root = world.root();
    // The first run never ends.
    let body = format!("echo run >> {root}/order; [ -e {root}/again ] || while :; do sleep 1; done");
    let as_script = script(&format!("#!/bin/sh\n# capstan.dev/repeatable\n{body}\n"));
    assert_eq!(world.ask(&as_script).await, BootstrapState::Running);
    world.until("the command", || world.read("/order").is_some()).await;
    world.cut_power();
    world.write("/again", "");
    assert_eq!(world.carried_out(&as_script).await, BootstrapState::Done);
    assert_eq!(world.read("/order").as_deref(), Some("run\nrun\n"));
}

#[test]
fn only_the_head_of_data_says_that_it_may_be_repeated() {
    use super::super::Repeat;
    for (data, repeat) in [
        ("#!/bin/sh\n# capstan.dev/repeatable\ntrue\n", Repeat::Again),
        ("#cloud-config\n# capstan.dev/repeatable\nruncmd: []\n", Repeat::Again),
        ("#!/bin/sh\ntrue\n# capstan.dev/repeatable\n", Repeat::Once),
        ("#!/bin/sh\n# not capstan.dev/repeatable\n", Repeat::Once),
        ("", Repeat::Once),
    ] {
        assert_eq!(Repeat::of(data.as_bytes()), repeat, "{data}");
    }
}

#[tokio::test]
async fn work_that_died_between_steps_is_finished() {
    let world = World::new();
    let data = cloud_config(&format!(
        "write_files:\n- {{path: /etc/a, content: a, append: true}}\nruncmd:\n- echo run >> {}/order\n",
        world.root()
    ));
    // As if the power went after the first file was written and before that was noted.
    let host = super::super::HostView::default();
    let job = super::super::compile(&data, super::world::CLAIM, super::world::PROVIDER_ID, &host).unwrap();
    let claim = world.claim();
    for (name, content) in job.files.iter().chain([&("names".to_owned(), job.names.clone().into_bytes())]) {
        std::fs::create_dir_all(claim.join(name).parent().unwrap()).unwrap();
        std::fs::write(claim.join(name), content).unwrap();
    }
    for folder in ["begun", "ended", "ledger"] {
        std::fs::create_dir_all(claim.join(folder)).unwrap();
    }
    std::fs::write(claim.join("lock"), "").unwrap();
    std::fs::write(claim.join("begun/001"), "0\n").unwrap();
    std::fs::write(claim.join("files/write-0.before"), "").unwrap();
    std::fs::write(claim.join("ledger/index"), "0 /etc/a\n").unwrap();
    world.write("/etc/a", "a");
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    assert_eq!(world.read("/etc/a").as_deref(), Some("a"), "appended once");
    assert_eq!(world.read("/order").as_deref(), Some("run\n"));
}

#[tokio::test]
async fn users_and_time_servers_are_configured_in_the_system() {
    let world = World::new();
    let log = format!("{}/log", world.root());
    for program in ["useradd", "usermod"] {
        world.program(&format!("/usr/local/bin/{program}"), &format!("echo {program} \"$@\" >> {log}"));
    }
    world.program("/usr/local/bin/chpasswd", &format!("echo chpasswd \"$@\" >> {log}; cat >> {log}"));
    world.program(
        "/usr/local/bin/id",
        &format!(
            "case $* in *nobody-yet*) grep -q useradd {log} 2>/dev/null && echo 1 && exit; exit 1 ;; esac\nexec /usr/bin/id \"$@\""
        ),
    );
    world.program("/usr/local/bin/setpriv", "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"");
    std::fs::create_dir_all(world.at("/home/n")).unwrap();
    world.program("/usr/local/bin/getent", "echo 'nobody-yet:x:1:1::/home/n:/bin/sh'");
    world.program("/usr/local/bin/chown", ":");
    world.program("/lib/systemd/systemd-timesyncd", "");
    let data = cloud_config(
        "users:\n- {name: nobody-yet, gecos: A B, groups: 'adm, sudo', passwd: $6$x, sudo: 'ALL=(ALL) ALL', ssh_authorized_keys: [ssh-ed25519 AAAA me]}\n\
         ntp: {servers: [time.example.com]}\n",
    );
    assert_eq!(world.carried_out(&data).await, BootstrapState::Done);
    let log = world.read("/log").unwrap();
    let expected = "useradd -m -c A B nobody-yet\nusermod -a -G adm,sudo nobody-yet\nchpasswd -e\nnobody-yet:$6$x\nusermod -L nobody-yet\n";
    assert_eq!(log, expected);
    assert_eq!(world.read("/home/n/.ssh/authorized_keys").as_deref(), Some("ssh-ed25519 AAAA me\n"));
    assert_eq!((world.mode("/home/n/.ssh/authorized_keys"), world.mode("/home/n/.ssh")), (0o600, 0o700));
    assert_eq!(
        world.read("/etc/sudoers.d/90-capstan-nobody-yet").as_deref(),
        Some("nobody-yet ALL=(ALL) ALL\n")
    );
    assert_eq!(world.mode("/etc/sudoers.d/90-capstan-nobody-yet"), 0o440);
    assert_eq!(
        world.read("/etc/systemd/timesyncd.conf.d/capstan.conf").as_deref(),
        Some("[Time]\nNTP=time.example.com\n")
    );
}

#[tokio::test]
async fn data_that_is_not_understood_touches_nothing() {
    let world = World::new();
    let before = world.listing();
    for (data, expected) in [
        (cloud_config("packages: [s3cret]\n"), "packages of cloud-config needs cloud-init"),
        (cloud_config("rsyslog: s3cret\n"), "the key rsyslog"),
    ] {
        let failure = world.failure(&data).await;
        assert_eq!(failure.step, "read the bootstrap data");
        assert!(
            failure.last_lines[0].contains(expected) && !failure.last_lines[0].contains("s3cret"),
            "{failure:?}"
        );
    }
    let mut ignition = cloud_config("");
    ignition.format = "ignition".to_owned();
    assert!(world.failure(&ignition).await.last_lines[0].contains("format ignition"));
    assert_eq!(world.listing(), before);
}

#[tokio::test]
async fn a_host_with_an_older_claim_on_it_is_not_used() {
    let world = World::new();
    world.write("/var/lib/capstan-claims/older/run.result", "done\n");
    let failure = world.failure(&script("true")).await;
    assert!(failure.last_lines[0].contains("/var/lib/capstan-claims/older is on the host"), "{failure:?}");
}
