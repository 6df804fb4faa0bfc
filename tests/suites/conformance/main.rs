//! Kubernetes' own specs of the API, as far as they need no node, on a real plane and on the embedded one. The table `specs.txt`
//! says what passes where; every spec must do what it says. A spec that passes now although the table says otherwise is reported
//! too, so that the table stays true.
//!
//! `CAPSTAN_SPECS` is a word in the names of the specs to run; without it, all are run.

#![cfg(test)]

mod run;

use std::collections::BTreeSet;

use capstan_testkit::RealPlane;
use capstan_tests::Embedded;
use capstan_tests::conformance::{Passes, Spec, specs};

use run::Runner;

/// What a plane made of a spec, and what the table says.
struct Verdict<'a> {
    spec: &'a Spec,
    plane: &'static str,
    failure: Option<String>,
    passes: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn specs_pass_where_the_table_says() {
    let folder = tempfile::Builder::new().prefix("capstan-conformance-").tempdir().unwrap();
    let chosen = std::env::var("CAPSTAN_SPECS").unwrap_or_default();
    let all = specs().unwrap();
    let run: Vec<&Spec> =
        all.iter().filter(|spec| spec.passes != Passes::NotRun && spec.name.contains(&chosen)).collect();
    assert!(!run.is_empty(), "no spec with {chosen:?} in its name");

    let real = RealPlane::start().await.unwrap();
    let runner = Runner::new(real.kubeconfig(), &folder.path().join("real")).unwrap();
    // Without the controller that it needs, a spec would only wait for its deadline.
    let served: Vec<&Spec> = run.iter().copied().filter(|spec| spec.passes != Passes::OnEmbedded).collect();
    let mut verdicts = play(&runner, "a real plane", &served, &[Passes::OnBoth, Passes::OnReal]).await;
    drop(real);
    let embedded = Embedded::start().await.unwrap();
    let runner = Runner::new(&embedded.kubeconfig(), &folder.path().join("embedded")).unwrap();
    verdicts.extend(play(&runner, "the embedded plane", &run, &[Passes::OnBoth, Passes::OnEmbedded]).await);

    for plane in ["a real plane", "the embedded plane"] {
        let on_plane = verdicts.iter().filter(|verdict| verdict.plane == plane);
        let passed = on_plane.filter(|verdict| verdict.failure.is_none()).count();
        let played = verdicts.iter().filter(|verdict| verdict.plane == plane).count();
        println!("{passed} of {played} specs pass on {plane}");
    }
    let wrong: Vec<String> = verdicts.iter().filter_map(Verdict::complaint).collect();
    assert!(wrong.is_empty(), "{} differ from specs.txt:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn the_table_has_all_specs() {
    let folder = tempfile::Builder::new().prefix("capstan-conformance-").tempdir().unwrap();
    let listed: BTreeSet<String> = specs().unwrap().into_iter().map(|spec| spec.name).collect();
    let known = run::all_names(folder.path()).await.unwrap();
    let missing: Vec<&String> = known.difference(&listed).collect();
    let gone: Vec<&String> = listed.difference(&known).collect();
    assert!(missing.is_empty() && gone.is_empty(), "not in specs.txt: {missing:#?}\nno such spec: {gone:#?}");
}

/// Runs the specs on one plane: those that pass together, which is fast, and each of the others with a deadline of its own.
async fn play<'a>(
    runner: &Runner,
    plane: &'static str,
    specs: &[&'a Spec],
    passing: &[Passes],
) -> Vec<Verdict<'a>> {
    let (good, bad): (Vec<&Spec>, Vec<&Spec>) = specs.iter().partition(|spec| passing.contains(&spec.passes));
    let names: Vec<&str> = good.iter().map(|spec| spec.name.as_str()).collect();
    let together = runner.together(&names).await.unwrap();
    let mut verdicts = Vec::new();
    for spec in good {
        let failure = together.get(&spec.name).cloned().unwrap_or_else(|| Some("did not run".to_owned()));
        // Once more, alone: another spec may have been in its way.
        let failure = match failure {
            Some(_) => runner.alone(&spec.name).await.unwrap(),
            None => None,
        };
        verdicts.push(Verdict { spec, plane, failure, passes: true });
    }
    for spec in bad {
        let failure = runner.alone(&spec.name).await.unwrap();
        verdicts.push(Verdict { spec, plane, failure, passes: false });
    }
    verdicts
}

impl Verdict<'_> {
    fn complaint(&self) -> Option<String> {
        let (name, plane) = (&self.spec.name, self.plane);
        match (&self.failure, self.passes) {
            (Some(failure), true) => Some(format!("{name}\n    fails on {plane}: {failure}")),
            (None, false) => Some(format!("{name}\n    passes on {plane} now: change its line")),
            _ => None,
        }
    }
}
