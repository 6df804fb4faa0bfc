//! Which suites there are, what each needs and how much of the machine it takes. Quick ones come first.

use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::process::Command;

use crate::log::Log;
use crate::suite::{Load, Suite, Tests};
use crate::{cargo, claims, fuzz, install, licences, paths, release, tidy, words};

/// What to run before every commit.
pub(crate) fn check() -> Vec<Suite> {
    let mut suites = rules();
    suites.extend([lints(), unit(&[])]);
    suites
}

/// What decides whether a change lands.
pub(crate) fn test() -> Vec<Suite> {
    let mut suites = rules();
    // What needs the machine for itself comes before what shares it: a place would be empty while it waits.
    suites.extend([lints(), compile(), differential(), unit(&[(LIVES, "1")])]);
    let (waiting, others): (Vec<Suite>, Vec<Suite>) =
        real_suites().into_iter().partition(|suite| MOSTLY_WAIT.contains(&suite.name));
    suites.extend(waiting);
    suites.extend([simulation(), packing(), complexity(), fuzz_short()]);
    suites.extend(builds());
    suites.extend(others);
    suites
}

/// Long suites that wait for upstream's pauses most of the time. They start before those that compute, which use what they leave.
const MOSTLY_WAIT: [&str; 2] = ["upstream_managers", "in_place"];

/// Every suite there is.
pub(crate) fn test_all() -> Vec<Suite> {
    let mut suites = test();
    suites.extend(nightly());
    suites
}

/// Some suites out of all, by name. What they need is taken to be there.
pub(crate) fn only(names: &[&str]) -> Result<Vec<Suite>> {
    let all = test_all();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|suite| suite.name != **name)) {
        let known: Vec<&str> = all.iter().map(|suite| suite.name).collect();
        bail!("there is no suite {unknown}: use some of {}", known.join(", "));
    }
    let mut named: Vec<Suite> = all.into_iter().filter(|suite| names.contains(&suite.name)).collect();
    for suite in &mut named {
        suite.needs.retain(|needed| names.contains(needed));
    }
    Ok(named)
}

/// What `make test` leaves to `make test-all`, for the end of a run.
pub(crate) fn not_covered() -> String {
    let suites = nightly();
    let width = suites.iter().map(|suite| suite.name.len()).max().unwrap_or_default();
    let lines = suites.iter().map(|suite| format!("  {:<width$}  {}\n", suite.name, suite.about));
    let readme = paths::root().ok().and_then(|root| std::fs::read_to_string(root.join("README.md")).ok());
    let features = features_of_the_night(&readme.unwrap_or_default());
    let features =
        features.iter().map(|(suite, features)| format!("  {suite:<width$}  {}\n", features.join("; ")));
    format!(
        "\nnot covered by `make test`, only by `make test-all`:\n{}\nfeatures of the README that only these show:\n{}",
        lines.collect::<String>(),
        features.collect::<String>()
    )
}

/// The features of the README that no suite of `make test` shows, by the suite that does.
fn features_of_the_night(readme: &str) -> BTreeMap<String, Vec<String>> {
    let nightly = nightly();
    claims::only_nightly(readme, &|name| nightly.iter().any(|suite| suite.name == name))
}

/// Checks of files and of metadata: seconds.
fn rules() -> Vec<Suite> {
    vec![
        Suite::new("format", "rustfmt", |log| cargo::succeed(&["fmt", "--all", "--check"], log)),
        Suite::new(
            "tidy",
            "repository rules, links in the documentation, dependencies between crates",
            |log| tidy::check(log).map(|()| Tests::ONE),
        ),
        Suite::new("words", "words that hide the meaning of texts for users", |log| {
            words::check(log).map(|()| Tests::ONE)
        }),
        Suite::new("licences", "licences of all dependencies", |log| {
            licences::check(log).map(|()| Tests::ONE)
        }),
    ]
}

fn lints() -> Suite {
    let run = |log: &Log| {
        // "All" leaves out the suites that plain `cargo test` leaves out.
        for targets in ["--all-targets", "--test=*"] {
            let words = ["clippy", "--locked", "--workspace", "--all-features", targets];
            cargo::succeed(&[&words[..], &["--", "--deny=warnings"]].concat(), log)?;
        }
        Ok(Tests::ONE)
    };
    Suite::new("lints", "clippy on every target with every feature", run).alone()
}

/// Once for all suites that follow, so that none of them waits for the compiler of another.
fn compile() -> Suite {
    let run = |log: &Log| {
        let words = ["test", "--no-run", "--locked", "--workspace"];
        cargo::succeed(&words, log)?;
        let suites: Vec<String> =
            real_suites().iter().map(|suite| format!("--test={}", suite.name)).collect();
        let suites: Vec<&str> = suites.iter().map(String::as_str).collect();
        cargo::succeed(&[&words[..], &suites, &["--test=differential"]].concat(), log)?;
        fuzz::build(log).map(|_| Tests::ONE)
    };
    Suite::new("compile", "every test program, and the fuzzer", run).alone()
}

/// How many lives the test `simulation` tries.
const LIVES: &str = "CAPSTAN_SIMULATIONS";

/// With some lives of control planes, or few, if the suite `simulation` tries them.
fn unit(environment: &'static [(&'static str, &'static str)]) -> Suite {
    let run = move |log: &Log| {
        cargo::test_with(&["test", "--locked", "--workspace", "--no-fail-fast"], environment, log)
    };
    // Not alone: its programs run one after the other, and most of them wait for something most of the time.
    Suite::new("unit", "unit tests, and tests of crates that need no third-party program", run)
}

fn packing() -> Suite {
    let run = |log: &Log| release::check_packing(log).map(|()| Tests::ONE);
    Suite::new("packing", "release archive, image and SBOM, packed twice from stand-ins and compared", run)
}

/// Builds at low priority, while suites run that do not need them.
fn builds() -> Vec<Suite> {
    vec![
        Suite::new("tools", "third-party programs: etcd, Kubernetes, Cluster API", |log| {
            own_chore(&["tools", "programs"], log)
        })
        .background(),
        Suite::new("agent_build", "the agent as machines get it: static and small", |log| {
            own_chore(&["agent"], log)
        })
        .background(),
        Suite::new("machines", "root file system of machines, and k3s for them", |log| {
            own_chore(&["tools", "machines"], log)
        })
        .background(),
    ]
}

/// Suites against real programs, the long ones first: a long one that starts last would run alone at the end.
fn real_suites() -> Vec<Suite> {
    vec![
        real("lifecycle", "life of a cluster on simulated hosts, also with the process killed"),
        real("upstream_managers", "upstream's four managers with our CRDs"),
        real("in_place", "workers changed in place through hooks, by upstream's core and by ours"),
        real("topology", "a cluster of a ClusterClass on simulated hosts: changed, upgraded, deleted"),
        real("kept", "health checks that never delete a machine unasked"),
        real("pods", "managers as Deployments run them: replicas, rights, scopes"),
        real("clusterctl", "release installed, upgraded and removed by the real clusterctl"),
        real("follow", "the real clusterctl move, and agents that follow it"),
        real("movement", "capstan move between planes and through a folder"),
        real("plan", "capstan plan, compared with what the controllers then do"),
        real("browser", "the web view in Chromium: pages, live updates, actions, hostile text, a phone"),
        real("clients", "kubectl and Python's client, on the embedded plane and a real one"),
        real("access", "authentication, RBAC and enrolment, on the embedded plane and a real one"),
        real("agent", "the agent's binary against the embedded plane and a real API server"),
        real("sentinel", "the contract of rancher/system-agent: our agent on the embedded plane"),
        real("install", "capstan init and delete, interchangeable with clusterctl"),
        real("quick_start", "the quick start on simulated hosts, as printed"),
        real("crds", "our CRDs on a real API server"),
        real(
            "admission",
            "defaults and rules of admission, on the embedded plane and a real one, and upstream's",
        ),
        real("dialect", "templates, compared with the real clusterctl"),
        real("real_plane", "the test plane itself"),
        on_machines(
            "e2e_small",
            "real cluster of one server and one worker: created, changed in place, deleted",
        ),
    ]
}

/// With one seed: what another seed finds is rarely about the change that lands. Each night has a fresh one.
fn differential() -> Suite {
    let run = |log: &Log| {
        let test = ["test", "--locked", "--workspace", "--test", "differential"];
        cargo::test_with(&test, &[("CAPSTAN_SEED", "1")], log)
    };
    let about = "generated requests, answered alike by the embedded plane and a real one";
    Suite::new("differential", about, run).needs(&["tools", "compile"]).alone()
}

/// The long forms, and what takes hours.
fn nightly() -> Vec<Suite> {
    vec![
        simulation_long(),
        durability(),
        fuzz_long(),
        differential_long(),
        conformance(),
        sentinel_long(),
        real("absence", "an agent and its plane after 200 days apart, with a clock that is moved"),
        of_crate("nspawn", "capstan-nspawn", "machines of systemd-nspawn").needs(&["machines"]).alone(),
        on_machines("real_k3s", "k3s as the tests build it, installed by hand"),
        on_machines("e2e", "real clusters through their lives: scaled, upgraded, machines killed"),
        on_machines("e2e_agent", "agents that replace themselves on real machines, and go back"),
        on_machines("e2e_nat", "real machines behind a router that masquerades, from registration to reset"),
        on_machines("e2e_drift", "sabotage and full disks on real machines: repaired, or waited for"),
        on_machines("e2e_kept", "power and network cuts of real machines with a health check"),
        on_machines("e2e_follow", "a real machine that follows its cluster to another plane and back"),
        on_machines("e2e_upstream", "a real cluster under upstream's core"),
        on_machines("e2e_kubeadm", "real hosts under upstream's kubeadm providers"),
        on_machines("e2e_hosts", "hosts that cannot work or fail on the way, and pools"),
        on_machines("e2e_quick_start", "the quick start over SSH, as printed"),
        on_machines("e2e_pivot", "a management plane that moves into its own cluster"),
        of_crate("core", "capstan-core", "core's controllers on a real API server"),
        of_crate("infrastructure", "capstan-infrastructure", "infrastructure provider on a real API server"),
        of_crate("ssh", "capstan-ssh", "hosts over SSH, with a real sshd"),
        of_crate("cli", "capstan", "capstan host, with a real sshd"),
        of_crate("sim", "capstan-sim", "simulated hosts on a real API server"),
        of_crate("bootstrap", "capstan-bootstrap", "bootstrap provider and enrolment on a real API server"),
        of_crate(
            "controlplane",
            "capstan-controlplane",
            "control plane provider on a real API server and etcd, killed at every write",
        ),
        Suite::new("release", "make release, twice from nothing, compared byte by byte", |log| {
            release::check_twice(log).map(|()| Tests::ONE)
        })
        .alone(),
        Suite::new("cargo_install", "cargo install, and the demo with what it installed", |log| {
            install::check(log).map(|()| Tests::ONE)
        })
        .alone(),
    ]
}

/// A chore of ours as a process of its own, at a slightly lower priority with everything it starts. Not at a low one: on a cold
/// machine most suites wait for it, while compilers and unit tests would take all processors.
fn own_chore(words: &[&str], log: &Log) -> Result<Tests> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let status = Command::new("nice")
        .args(["-n", "5"])
        .arg(own)
        .args(words)
        .stdout(log.stdio()?)
        .stderr(log.stdio()?)
        .status()
        .context("cannot run `nice`")?;
    ensure!(status.success(), "{}", log.last_line());
    Ok(Tests::ONE)
}

/// A test of the workspace that runs as long as its environment says; among the unit tests it is short.
fn long(
    name: &'static str,
    about: &'static str,
    test: &'static str,
    length: (&'static str, &'static str),
) -> Suite {
    let run = move |log: &Log| {
        cargo::test_with(&["test", "--locked", "--workspace", "--test", test], &[length], log)
    };
    Suite::new(name, about, run).alone()
}

fn simulation() -> Suite {
    long("simulation", "200 seeded lives of control planes", "simulation", (LIVES, "200")).load(Load::Shared)
}

fn simulation_long() -> Suite {
    let about = "10,000 seeded lives of control planes";
    long("simulation_long", about, "simulation", (LIVES, "10000"))
}

fn durability() -> Suite {
    let about = "the embedded API server, killed 200 times";
    long("durability", about, "durability", ("CAPSTAN_KILLS", "200"))
}

fn complexity() -> Suite {
    let run = |log: &Log| {
        let words = ["test", "--locked", "--workspace", "--test", "complexity"];
        cargo::test_with(&words, &[("CAPSTAN_COMPLEXITY", "1")], log)
    };
    let about = "instructions for requests of several lengths, counted by valgrind";
    Suite::new("complexity", about, run).needs(&["compile"])
}

fn fuzz_short() -> Suite {
    let pace = fuzz::Pace { seconds: 8, at_once: 1, seed: fuzz::Seed::Given(1) };
    let run = move |log: &Log| fuzz::suite(pace, log);
    let about = "every reader of bytes from outside, fuzzed for seconds each";
    Suite::new("fuzz", about, run).needs(&["compile"])
}

fn fuzz_long() -> Suite {
    let run = |log: &Log| {
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        fuzz::suite(fuzz::Pace { seconds: 600, at_once, seed: fuzz::Seed::Fresh }, log)
    };
    let about = "every reader of bytes from outside, fuzzed for ten minutes each";
    Suite::new("fuzz_long", about, run).needs(&["compile"]).alone()
}

fn conformance() -> Suite {
    let run = |log: &Log| {
        own_chore(&["tools", "conformance"], log)?;
        let test = ["test", "--locked", "--workspace", "--test", "conformance"];
        cargo::test(&test, log)
    };
    let about = "Kubernetes' own conformance specs of the API, on the embedded plane and a real one";
    Suite::new("conformance", about, run).needs(&["tools", "compile"]).alone()
}

fn sentinel_long() -> Suite {
    let run = |log: &Log| {
        own_chore(&["tools", "system-agent"], log)?;
        let theirs = capstan_tools::locate(capstan_tools::Program::SystemAgent)?;
        let theirs = theirs.to_str().context("the path of system-agent is not text")?;
        let test = ["test", "--locked", "--workspace", "--test", "sentinel"];
        cargo::test_with(&test, &[("CAPSTAN_SYSTEM_AGENT", theirs)], log)
    };
    let about = "the same contract: our agent and rancher/system-agent, on the embedded plane and a real one";
    Suite::new("sentinel_long", about, run).needs(&["tools", "compile"])
}

fn differential_long() -> Suite {
    let run = |log: &Log| {
        let test = ["test", "--locked", "--workspace", "--test", "differential"];
        cargo::test_with(&test, &[("CAPSTAN_SEQUENCES", "3000")], log)
    };
    let about = "3,000 sequences of requests to the embedded plane and a real one";
    Suite::new("differential_long", about, run).needs(&["tools", "compile"]).alone()
}

/// All tests of one crate, with those that need the programs that `tools` builds.
fn of_crate(name: &'static str, package: &'static str, about: &'static str) -> Suite {
    let run =
        move |log: &Log| cargo::test(&["test", "--locked", "--package", package, "--features", "real"], log);
    Suite::new(name, about, run).needs(&["tools"])
}

/// A suite of the `tests` package, which runs against the programs that `tools` builds. The whole workspace is
/// named, so that dependencies have the same features as for the unit tests and are not compiled once more.
fn real(name: &'static str, about: &'static str) -> Suite {
    let run = move |log: &Log| {
        let words = ["test", "--locked", "--workspace", "--test", name];
        cargo::test(&words, log)
    };
    Suite::new(name, about, run).needs(&["tools", "compile"])
}

/// The same on real machines, which share this machine's cores with the planes that look after them.
fn on_machines(name: &'static str, about: &'static str) -> Suite {
    real(name, about).needs(&["tools", "compile", "agent_build", "machines"]).alone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn suites_are_found_by_name_and_need_only_each_other() {
        let suites = only(&["e2e", "machines"]).unwrap();
        let found: Vec<_> = suites.iter().map(|suite| (suite.name, suite.needs.clone())).collect();
        assert_eq!(found, [("machines", vec![]), ("e2e", vec!["machines"])]);
        assert!(only(&["e2e"]).unwrap()[0].needs.is_empty());
        assert!(only(&["e3e"]).err().unwrap().to_string().contains("no suite e3e"));
    }

    #[test]
    fn names_differ_and_needs_exist() {
        let suites = test_all();
        let names: BTreeSet<&str> = suites.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), suites.len());
        for suite in &suites {
            assert!(suite.needs.iter().all(|needed| names.contains(needed)), "{}", suite.name);
        }
    }

    #[test]
    fn the_documentation_lists_every_suite() {
        let path = paths::root().unwrap().join("docs/contributing/testing.md");
        let text = fs::read_to_string(path).unwrap();
        let (_, lists) = text.split_once("## Suites of `make test`").unwrap();
        let (short, long) = lists.split_once("## What only `make test-all` covers").unwrap();
        let (long, _) = long.split_once("\n## ").unwrap();
        for (section, suites) in [(short, test()), (long, nightly())] {
            let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
            let expected: Vec<String> =
                suites.iter().map(|suite| format!("| `{}` | {} |", suite.name, suite.about)).collect();
            assert_eq!(rows, expected, "the rows should be:\n{}", expected.join("\n"));
        }
    }

    /// So that everybody knows what `make test` says nothing about.
    #[test]
    fn the_documentation_lists_features_that_are_checked_at_night() {
        let root = paths::root().unwrap();
        let text = fs::read_to_string(root.join("docs/contributing/testing.md")).unwrap();
        let (_, section) = text.split_once("## Features that only `make test-all` checks").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let readme = fs::read_to_string(root.join("README.md")).unwrap();
        let expected: Vec<String> = features_of_the_night(&readme)
            .into_iter()
            .map(|(suite, features)| format!("| `{suite}` | {} |", features.join("; ")))
            .collect();
        assert_eq!(rows, expected, "the rows should be:\n{}", expected.join("\n"));
    }
}
