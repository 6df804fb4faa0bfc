//! Real agent processes that are killed and started again while commands of their plan run.

#![cfg(test)]

mod support;

use capstan_agent::Machine as _;
use capstan_agent::machine::{CommandKey, Exit, Invocation, Resumed};
use capstan_plan::{Argv, Digest, EnvVar, Excerpt, Phase};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::slice;
use std::time::Duration;
use support::Verbs;
use support::process::{self, Yard, eventually, is_running, kill, session, start_time};

#[test]
fn agent() {
    process::agent(false);
}

#[test]
fn resetting_agent() {
    process::agent(true);
}

#[test]
fn supervisor() {
    process::supervisor();
}

fn head(excerpt: Option<&Excerpt>) -> &str {
    excerpt.and_then(|excerpt| excerpt.head.as_deref()).unwrap_or_default()
}

#[test]
fn a_killed_agent_waits_for_the_command_that_it_had_started() {
    let yard = Yard::new();
    yard.plan(1, vec![yard.gated("slow"), yard.script("next", "echo next >> log")]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    agent.kill();
    let agent = yard.start();
    // Long enough for a second command to begin beside the first, if anything started one.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(yard.read("log"), "begin\n");
    yard.touch("go");
    let progress = yard.progress(agent);
    assert_eq!(progress.phase, Phase::Applied, "{progress:?}");
    assert_eq!(yard.read("log"), "begin\nend\nnext\n");
    assert!(yard.records().is_empty(), "what was journaled is not kept");
}

#[test]
fn the_result_of_a_command_that_ended_meanwhile_is_taken() {
    let yard = Yard::new();
    let script = "echo begin >> log; while [ ! -e go ]; do sleep 0.02; done; echo out; echo err >&2; touch over; exit 7";
    yard.plan(1, vec![yard.script("slow", script)]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    agent.kill();
    yard.touch("go");
    yard.wait_for("over");
    let progress = yard.progress(yard.start());
    assert_eq!(progress.phase, Phase::Failed, "{progress:?}");
    assert_eq!(progress.message.as_deref(), Some("step slow: the command exited with 7"));
    assert_eq!(progress.step.unwrap().exit_code, Some(7));
    assert_eq!(head(progress.output.stdout.as_ref()), "out\n");
    assert_eq!(head(progress.output.stderr.as_ref()), "err\n");
    assert_eq!((yard.read("log").as_str(), progress.attempts), ("begin\n", Some(1)));
}

#[test]
fn a_terminated_agent_ends_at_once_and_leaves_the_command_running() {
    let yard = Yard::new();
    // Neither a signal nor the end of a pipe is heard of.
    let script = "trap 'echo signal >> log' TERM HUP INT PIPE; echo begin >> log; \
        while [ ! -e go ]; do sleep 0.02; echo noise; done; echo end >> log";
    yard.plan(1, vec![yard.script("snapshot", script).once()]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    let took = agent.terminate();
    assert!(took < Duration::from_secs(5), "{took:?}");
    std::thread::sleep(Duration::from_millis(200));
    let agent = yard.start();
    yard.touch("go");
    let progress = yard.progress(agent);
    assert_eq!(progress.phase, Phase::Applied, "{progress:?}");
    assert_eq!(yard.read("log"), "begin\nend\n");
}

#[test]
fn killed_at_any_moment_every_command_runs_once() {
    let yard = Yard::new();
    let step = |i: usize| yard.script(&format!("s{i}"), &format!("echo {i} >> log; sleep 0.05"));
    yard.plan(1, (0..12).map(step).collect());
    let mut random = 7_u64;
    let mut kills = 0;
    loop {
        let agent = yard.start();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis((random >> 33) % 200));
        if yard.at("progress").exists() {
            assert_eq!(yard.progress(agent).phase, Phase::Applied);
            break;
        }
        agent.kill();
        kills += 1;
        assert!(kills < 500);
    }
    assert_eq!(
        yard.read("log"),
        (0..12).map(|i| format!("{i}\n")).collect::<String>(),
        "after {kills} kills"
    );
    assert!(kills > 3, "{kills} kills");
}

#[test]
fn a_command_is_ended_in_time_while_the_agent_is_away() {
    let yard = Yard::new();
    let script = "echo $$ > pid; trap 'echo grace >> log; exit 3' TERM; echo begin >> log; while :; do sleep 0.02; done";
    yard.plan(1, vec![yard.script("slow", script).edit(|step| step.timeout_seconds = 2)]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    let pid: i32 = yard.read("pid").trim().parse().unwrap();
    agent.kill();
    yard.wait_until("log", "begin\ngrace\n");
    eventually("the command to end", || (!is_running(pid)).then_some(()));
    let progress = yard.progress(yard.start());
    assert_eq!(progress.message.as_deref(), Some("step slow: the command took too long and was ended"));
    assert_eq!(yard.read("log"), "begin\ngrace\n", "it ran once");
}

/// Says so in `log` if two of it run at the same time.
fn alone(yard: &Yard, name: &str) -> capstan_plan::Step {
    let script = "exec 9> lock; flock -n 9 || echo beside >> log; echo $$ > runs; echo begin >> log; \
        while [ ! -e go ]; do sleep 0.02; done";
    yard.script(name, script)
}

#[test]
fn a_command_whose_supervisor_was_killed_is_ended_before_it_is_run_again() {
    let yard = Yard::new();
    yard.plan(1, vec![alone(&yard, "slow")]);
    for agent_is_there in [true, false] {
        fs::write(yard.at("log"), "").unwrap();
        let agent = yard.start();
        yard.wait_until("log", "begin\n");
        let first: i32 = yard.read("runs").trim().parse().unwrap();
        let agent = if agent_is_there {
            kill(yard.supervisor(), Signal::KILL);
            agent
        } else {
            let supervisor = yard.supervisor();
            agent.kill();
            kill(supervisor, Signal::KILL);
            yard.start()
        };
        yard.wait_until("log", "begin\nbegin\n");
        assert!(!is_running(first));
        yard.touch("go");
        assert_eq!(yard.progress(agent).phase, Phase::Applied);
        fs::remove_file(yard.at("go")).unwrap();
        yard.plan(2, vec![alone(&yard, "slow").always()]);
    }
}

#[test]
fn a_command_to_run_once_is_not_repeated_when_its_result_is_lost() {
    let yard = Yard::new();
    yard.plan(1, vec![yard.gated("init").once()]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    kill(yard.supervisor(), Signal::KILL);
    let progress = yard.progress(agent);
    assert_eq!(progress.phase, Phase::Failed);
    assert!(progress.message.as_deref().unwrap().contains("may have had its effect"), "{progress:?}");
    assert_eq!(yard.read("log"), "begin\n");
}

#[test]
fn a_shutdown_is_not_a_failure_of_the_command() {
    let yard = Yard::new();
    yard.plan(1, vec![yard.gated("slow")]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    agent.terminate();
    // As systemd ends a scope: every process of it gets the signal, in any order.
    let supervisor = yard.supervisor();
    for pid in session(supervisor).into_iter().chain([supervisor]) {
        kill(pid, Signal::TERM);
    }
    eventually("the supervisor to end", || (!is_running(supervisor)).then_some(()));
    yard.touch("go");
    let progress = yard.progress(yard.start());
    assert_eq!(progress.phase, Phase::Applied, "{progress:?}");
    assert_eq!(yard.read("log"), "begin\nbegin\nend\n");
}

#[test]
fn a_command_may_use_the_time_that_a_shutdown_gives_it() {
    let yard = Yard::new();
    let script =
        "trap 'sleep 0.5; echo end >> log; exit 0' TERM; echo begin >> log; while :; do sleep 0.02; done";
    yard.plan(1, vec![yard.script("snapshot", script).once()]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    let supervisor = yard.supervisor();
    agent.terminate();
    for pid in session(supervisor).into_iter().chain([supervisor]) {
        kill(pid, Signal::TERM);
    }
    eventually("the supervisor to end", || (!is_running(supervisor)).then_some(()));
    let progress = yard.progress(yard.start());
    assert_eq!(progress.phase, Phase::Applied, "{progress:?}");
    assert_eq!(yard.read("log"), "begin\nend\n");
}

#[test]
fn a_newer_plan_ends_a_command_that_it_does_not_have_before_it_begins() {
    let yard = Yard::new();
    let script = "trap 'sleep 0.3; [ ! -e config ] || echo beside >> log; echo grace >> log; exit 1' TERM; \
        echo begin >> log; while :; do sleep 0.02; done";
    yard.plan(1, vec![yard.script("old", script)]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    agent.kill();
    let config = support::file("config", yard.at("config").to_str().unwrap(), "a");
    yard.plan(2, vec![config, yard.script("new", "echo new >> log")]);
    let progress = yard.progress(yard.start());
    assert_eq!(progress.phase, Phase::Applied, "{progress:?}");
    assert_eq!(yard.read("log"), "begin\ngrace\nnew\n");
}

/// Whatever the engine decides: the machine has one command at a time.
#[tokio::test]
async fn the_machine_starts_no_command_beside_another() {
    let yard = Yard::new();
    let linux = process::supervising(&yard.commands());
    let key = |name: &str| CommandKey::Undo { step: support::name(name), undo: Digest::of(b"") };
    let script =
        |text: &str| Argv::new(["sh", "-c", &format!("cd {}; {text}", yard.at("").display())]).unwrap();
    let timeout = Duration::from_secs(60);
    let (first, second) = (script("echo begin >> log; sleep 300"), script("echo second >> log"));
    let (a, b) = (key("a"), key("b"));
    let running = linux.run(Invocation { argv: &first, env: &[], timeout, key: Some(&a) });
    // The future is dropped when the command has begun, and the command goes on.
    let has_begun = async {
        while yard.read("log") != "begin\n" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ran = running => panic!("{ran:?}"),
        () = has_begun => {}
    }
    let members = session(yard.supervisor());
    assert!(members.iter().any(|pid| is_running(*pid)));
    assert_eq!(linux.commands().await.unwrap(), slice::from_ref(&a));
    let ran = linux.run(Invocation { argv: &second, env: &[], timeout, key: Some(&b) }).await.unwrap();
    assert_eq!(ran.exit, Exit::Code(0));
    assert!(!members.iter().any(|pid| is_running(*pid)));
    assert!(matches!(linux.resume(&a).await.unwrap(), Resumed::Nothing));
    // A result stays until it is dismissed.
    for _ in 0..2 {
        assert!(matches!(linux.resume(&b).await.unwrap(), Resumed::Ended(ran) if ran.exit == Exit::Code(0)));
    }
    linux.dismiss(&b).await.unwrap();
    linux.dismiss(&b).await.unwrap();
    assert!(linux.commands().await.unwrap().is_empty());
}

#[test]
fn a_newer_plan_with_the_same_step_takes_its_command_over() {
    let yard = Yard::new();
    yard.plan(1, vec![yard.gated("init").once()]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    agent.kill();
    yard.plan(2, vec![yard.gated("init").once(), yard.script("new", "echo new >> log")]);
    let agent = yard.start();
    yard.touch("go");
    let progress = yard.progress(agent);
    assert_eq!(progress.phase, Phase::Applied, "{progress:?}");
    assert_eq!(yard.read("log"), "begin\nend\nnew\n");
}

#[test]
fn a_reset_ends_the_command_and_an_undo_is_not_run_twice() {
    let yard = Yard::new();
    let undo = format!(
        "cd {}; echo undo >> log; while [ ! -e go ]; do sleep 0.02; done; echo undone >> log",
        yard.at("").display()
    );
    let step = yard.script("slow", "echo begin >> log; sleep 300; echo end >> log").command(|command| {
        let argv = Argv::new(["sh", "-c", &undo]).unwrap();
        command.undo = Some(capstan_plan::Undo { argv, env: Vec::new() });
    });
    yard.plan(1, vec![step]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    let command = session(yard.supervisor());
    agent.kill();
    let reset = yard.start_reset();
    yard.wait_until("log", "begin\nundo\n");
    assert!(!command.iter().any(|pid| is_running(*pid)), "the command ended before its undo began");
    reset.kill();
    let reset = yard.start_reset();
    yard.touch("go");
    assert_eq!(yard.said(reset), "clean");
    assert_eq!(yard.read("log"), "begin\nundo\nundone\n");
    assert!(yard.records().is_empty());
}

#[test]
fn a_process_that_got_the_number_of_a_supervisor_is_left_alone() {
    let yard = Yard::new();
    yard.plan(1, vec![yard.gated("slow")]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    let (record, supervisor) = (yard.records().remove(0), yard.supervisor());
    let members = session(supervisor);
    agent.kill();
    kill(supervisor, Signal::KILL);
    members.iter().for_each(|pid| kill(*pid, Signal::KILL));
    // Another program leads a session with that number by now, and has a child.
    let file = record.join("supervisor");
    let mut said: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    // Times of start are told in hundredths of a second: one that began in the same is another test.
    let mut other = eventually("a later start", || {
        let mut other =
            std::process::Command::new("setsid").args(["sh", "-c", "sleep 300; :"]).spawn().unwrap();
        let pid = i32::try_from(other.id()).unwrap();
        if said["start"] == start_time(pid) {
            other.kill().unwrap();
            other.wait().unwrap();
            return None;
        }
        Some(other)
    });
    let pid = i32::try_from(other.id()).unwrap();
    let child = eventually("a session", || session(pid).first().copied());
    said["pid"] = pid.into();
    fs::write(&file, said.to_string()).unwrap();
    yard.touch("go");
    let progress = yard.progress(yard.start());
    assert_eq!(progress.phase, Phase::Applied);
    assert_eq!(yard.read("log"), "begin\nbegin\nend\n");
    assert!(is_running(pid) && is_running(child));
    kill(child, Signal::KILL);
    kill(pid, Signal::KILL);
    other.wait().unwrap();
}

#[test]
fn a_stale_record_is_no_result_of_another_plan() {
    let yard = Yard::new();
    let script = "echo a >> log; while [ ! -e go ]; do sleep 0.02; done; exit 5";
    yard.plan(1, vec![yard.script("a", script)]);
    let agent = yard.start();
    yard.wait_until("log", "a\n");
    agent.kill();
    yard.touch("go");
    let record = yard.records().remove(0);
    eventually("a result", || record.join("result").exists().then_some(()));
    // Kept as if the agent had been killed right after it had journaled the result.
    fs::create_dir(yard.at("kept")).unwrap();
    for file in fs::read_dir(&record).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), yard.at("kept").join(file.file_name())).unwrap();
    }
    assert_eq!(yard.progress(yard.start()).phase, Phase::Failed);
    fs::rename(yard.at("kept"), &record).unwrap();

    yard.plan(2, vec![yard.script("a", script).retried(2), yard.script("b", "echo b >> log")]);
    let progress = yard.progress(yard.start());
    assert_eq!((progress.phase, progress.attempts), (Phase::Failed, Some(2)), "{progress:?}");
    assert_eq!(yard.read("log"), "a\na\na\n");
    assert!(yard.records().is_empty());
}

#[test]
fn secrets_are_neither_in_arguments_nor_on_the_disk() {
    let yard = Yard::new();
    yard.plan(1, vec![yard.gated("slow").env(EnvVar::secret("TOKEN", "hunter2hunter2"))]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    let has = |bytes: Vec<u8>| bytes.windows(14).any(|window| window == b"hunter2hunter2");
    for entry in fs::read_dir("/proc").unwrap() {
        let arguments = fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
        assert!(!has(arguments));
    }
    let mut folders = vec![yard.at("state")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", folder.display());
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files += 1;
                assert_eq!(
                    fs::metadata(&path).unwrap().permissions().mode() & 0o077,
                    0,
                    "{}",
                    path.display()
                );
                assert!(!has(fs::read(&path).unwrap()), "{}", path.display());
            }
        }
    }
    assert!(files >= 4, "journal, command, lock and supervisor");
    yard.touch("go");
    assert_eq!(yard.progress(agent).phase, Phase::Applied);
}

/// The cgroup of a command decides whether a stop of the agent's service reaches it. Without systemd there is no service.
#[test]
fn where_systemd_runs_a_command_has_a_scope_of_its_own() {
    let yard = Yard::new();
    yard.plan(1, vec![yard.gated("slow")]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    let scope = |pid: i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        text.lines().any(|line| line.contains("/capstan-step-slow-") && line.ends_with(".scope"))
    };
    let supervisor = yard.supervisor();
    let is_expected = std::path::Path::new("/run/systemd/system").exists();
    for pid in session(supervisor).into_iter().chain([supervisor]) {
        // What the script starts ends again within moments.
        assert!(scope(pid) == is_expected || !is_running(pid), "process {pid}");
    }
    assert!(!scope(i32::try_from(agent.id()).unwrap()));
    yard.touch("go");
    assert_eq!(yard.progress(agent).phase, Phase::Applied);
}

#[test]
fn a_chatty_command_neither_waits_nor_fills_the_disk() {
    let yard = Yard::new();
    let script = "echo begin >> log; while [ ! -e go ]; do sleep 0.02; done; echo first; \
        head -c 30000000 /dev/zero | tr '\\0' x; echo last; touch over";
    yard.plan(1, vec![yard.script("loud", script)]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    agent.kill();
    yard.touch("go");
    yard.wait_for("over");
    let record = yard.records().remove(0);
    eventually("a result", || record.join("result").exists().then_some(()));
    let size: u64 = fs::read_dir(&record).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(size < 64 * 1024, "{size}");
    let progress = yard.progress(yard.start());
    let stdout = progress.output.stdout.unwrap();
    assert!(stdout.head.unwrap().starts_with("first\nxxx") && stdout.tail.unwrap().ends_with("xxxlast\n"));
    assert_eq!(stdout.omitted_bytes, Some(30_000_011 - 8192));
}

#[test]
fn a_service_that_a_command_left_behind_outlives_the_agent_and_its_restart() {
    let yard = Yard::new();
    let script = "(while :; do echo noise; sleep 0.02; done) & echo $! > service";
    yard.plan(1, vec![yard.script("leave", script), yard.gated("slow")]);
    let agent = yard.start();
    yard.wait_until("log", "begin\n");
    let service: i32 = yard.read("service").trim().parse().unwrap();
    agent.kill();
    yard.touch("go");
    assert_eq!(yard.progress(yard.start()).phase, Phase::Applied);
    std::thread::sleep(Duration::from_millis(200));
    assert!(is_running(service), "it was ended by its output");
    kill(service, Signal::KILL);
}

#[test]
fn a_program_that_cannot_be_started_is_reported_as_such() {
    let yard = Yard::new();
    let step = support::run("missing", "/no/such/program").retried(5);
    yard.plan(1, vec![step]);
    let progress = yard.progress(yard.start());
    let message = progress.message.as_deref().unwrap();
    assert!(message.starts_with("step missing: cannot start /no/such/program"), "{message}");
    assert_eq!(progress.attempts, Some(1), "it does not pass by itself");
}
