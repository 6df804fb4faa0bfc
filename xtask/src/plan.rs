//! Which suites there are, and in what order: the quick ones first, the slow ones last.

use anyhow::{Result, bail};

use crate::suite::{Suite, Tests};
use crate::{cargo, licences, release, tidy};

/// What to run before every commit.
pub(crate) fn check() -> Vec<Suite> {
    vec![
        suite("format", || cargo::succeed(&["fmt", "--all", "--check"])),
        suite("tidy", || tidy::check().map(|()| Tests::ONE)),
        suite("licences", || licences::check().map(|()| Tests::ONE)),
        suite("lints", || {
            cargo::succeed(&[
                "clippy",
                "--quiet",
                "--locked",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "--deny=warnings",
            ])
        }),
        suite("unit", || cargo::test(&["test", "--locked", "--workspace", "--no-fail-fast"])),
    ]
}

/// What decides whether a change lands.
pub(crate) fn test() -> Vec<Suite> {
    tests("500")
}

fn tests(lives: &'static str) -> Vec<Suite> {
    let mut suites = check();
    suites.push(simulation(lives));
    suites.push(suite("packing", || release::check_packing().map(|()| Tests::ONE)));
    suites.push(suite("tools", || {
        capstan_tools::build_all(&capstan_tools::to_stderr)?;
        Ok(Tests::ONE)
    }));
    suites.extend([
        real("real_plane"),
        real("crds"),
        real("access"),
        real("clients"),
        real("differential"),
        real("agent"),
        real("upstream_managers"),
        real("keel"),
        real("kept"),
        real("in_place"),
        real("plan"),
        real("browser"),
        real("quick_start"),
        real("dialect"),
        real("install"),
        real("movement"),
        real("follow"),
        real("clusterctl"),
        real("pods"),
        suite("machines", || {
            capstan_tools::build_machines(&capstan_tools::to_stderr)?;
            Ok(Tests::ONE)
        }),
        on_machines("e2e_small"),
    ]);
    suites
}

/// Every test there is: also what each crate proves against real programs by itself, and a death at every write.
pub(crate) fn test_all() -> Vec<Suite> {
    let mut suites = tests("10000");
    suites.extend([
        durability("200"),
        nonsense("30000"),
        differential("3000"),
        Suite { needs: Some("machines"), ..of_crate("nspawn", "capstan-nspawn") },
        on_machines("real_k3s"),
        on_machines("e2e"),
        on_machines("e2e_kept"),
        on_machines("e2e_follow"),
        on_machines("e2e_upstream"),
        on_machines("e2e_kubeadm"),
        on_machines("e2e_hosts"),
        on_machines("e2e_quick_start"),
        on_machines("e2e_pivot"),
        of_crate("core", "capstan-core"),
        of_crate("infrastructure", "capstan-infrastructure"),
        of_crate("ssh", "capstan-ssh"),
        of_crate("cli", "capstan"),
        of_crate("sim", "capstan-sim"),
        of_crate("bootstrap", "capstan-bootstrap"),
        of_crate("controlplane", "capstan-controlplane"),
        suite("release", || release::check_twice().map(|()| Tests::ONE)),
    ]);
    suites
}

/// Some suites out of all, by name. What they need is taken to be there.
pub(crate) fn only(names: &[&str]) -> Result<Vec<Suite>> {
    let all = test_all();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|suite| suite.name != **name)) {
        let known: Vec<&str> = all.iter().map(|suite| suite.name).collect();
        bail!("there is no suite {unknown}: take some of {}", known.join(", "));
    }
    let named = all.into_iter().filter(|suite| names.contains(&suite.name));
    Ok(named
        .map(|suite| Suite { needs: suite.needs.filter(|needed| names.contains(needed)), ..suite })
        .collect())
}

/// So many seeded lives of control planes; among the unit tests there are only a few.
fn simulation(lives: &'static str) -> Suite {
    let run = move || {
        cargo::test_with(
            &["test", "--locked", "--workspace", "--test", "simulation"],
            &[("CAPSTAN_SIMULATIONS", lives)],
        )
    };
    suite("simulation", run)
}

/// The embedded API server is killed so many times; among the unit tests it is a dozen.
fn durability(times: &'static str) -> Suite {
    let run = move || {
        cargo::test_with(
            &["test", "--locked", "--workspace", "--test", "durability"],
            &[("CAPSTAN_KILLS", times)],
        )
    };
    suite("durability", run)
}

/// The embedded API server is sent so many inputs that make no sense; among the unit tests it is a few.
fn nonsense(inputs: &'static str) -> Suite {
    let run = move || {
        cargo::test_with(&["test", "--locked", "--workspace", "--test", "fuzz"], &[("CAPSTAN_FUZZ", inputs)])
    };
    suite("nonsense", run)
}

/// The embedded API server and a real one are compared by so many sequences of requests, others than in the short form.
fn differential(sequences: &'static str) -> Suite {
    let run = move || {
        let test =
            ["test", "--locked", "--workspace", "--features", "capstan-tests/real", "--test", "differential"];
        cargo::test_with(&test, &[("CAPSTAN_SEQUENCES", sequences), ("CAPSTAN_SEED", "2")])
    };
    Suite { needs: Some("tools"), ..suite("differential_long", run) }
}

/// All tests of one crate, with those that need the programs that `tools` builds.
fn of_crate(name: &'static str, package: &'static str) -> Suite {
    let run = move || cargo::test(&["test", "--locked", "--package", package, "--features", "real"]);
    Suite { needs: Some("tools"), ..suite(name, run) }
}

fn suite(name: &'static str, run: impl Fn() -> Result<Tests> + 'static) -> Suite {
    Suite { name, needs: None, run: Box::new(run) }
}

/// A suite of the `tests` package, which runs against the programs that `tools` builds. The whole workspace is
/// named, so that dependencies have the same features as for the unit tests and are not compiled once more.
fn real(name: &'static str) -> Suite {
    let run = move || {
        cargo::test(&["test", "--locked", "--workspace", "--features", "capstan-tests/real", "--test", name])
    };
    Suite { needs: Some("tools"), ..suite(name, run) }
}

/// The same on real machines.
fn on_machines(name: &'static str) -> Suite {
    Suite { needs: Some("machines"), ..real(name) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn suites_are_found_by_name_and_need_only_each_other() {
        let suites = only(&["e2e", "machines"]).unwrap();
        let found: Vec<_> = suites.iter().map(|suite| (suite.name, suite.needs)).collect();
        assert_eq!(found, [("machines", None), ("e2e", Some("machines"))]);
        assert_eq!(only(&["e2e"]).unwrap()[0].needs, None);
        assert!(only(&["e3e"]).err().unwrap().to_string().contains("no suite e3e"));
    }
}
