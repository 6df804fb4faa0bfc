//! Plans in a folder.

use std::fs;
use std::path::PathBuf;

use anyhow::ensure;
use capstan_testkit::eventually;
use serde_json::{Value, json};

use crate::heart::Heart;
use crate::stage::{DEADLINE, Stage, bytes, plan, sh, sum, text_of, unpacked, write};
use crate::{Case, cases};

pub(crate) const CASES: &[Case] = cases![
    plans_of_a_folder_are_applied_in_order,
    an_applied_plan_of_a_folder_is_left_alone_until_it_changes,
    probes_and_periodic_instructions_of_a_folder,
];

/// Configures a folder of plans, and returns it.
pub(crate) fn folder(stage: &Stage) -> PathBuf {
    let plans = stage.at("plans");
    fs::create_dir_all(plans.join("sub")).unwrap();
    stage.configure(&json!({"localEnabled": true, "localPlanDirectory": plans}));
    plans
}

/// The position file of a plan; null if there is none.
pub(crate) fn position(stage: &Stage, name: &str) -> Value {
    serde_json::from_str(&stage.read(&format!("plans/{name}.pos"))).unwrap_or_default()
}

pub(crate) async fn is_applied(stage: &Stage, name: &str, plan: &str) {
    let what = format!("the position of {name}");
    let applied = eventually(DEADLINE, &what, async || {
        let position = position(stage, name);
        ensure!(position["appliedChecksum"] == sum(plan), "{position}");
        Ok(())
    });
    applied.await.unwrap();
}

async fn plans_of_a_folder_are_applied_in_order(stage: &Stage) {
    let plans = folder(stage);
    let log = stage.at("ran").display().to_string();
    let says = |word: &str| plan(&json!([sh("i", &format!("echo {word} >> {log}; echo {word}"))]));
    for (name, word) in [
        ("b.plan", "b"),
        ("a.plan", "a"),
        ("sub/c.plan", "c"),
        ("skipped.plan", "skipped"),
        (".hidden.plan", "hidden"),
        ("text.txt", "text"),
    ] {
        write(&plans.join(name), &says(word));
    }
    write(&plans.join("skipped.plan.skip"), "");
    write(&plans.join("no.plan"), "{");
    let _agent = stage.start();
    is_applied(stage, "sub/c", &says("c")).await;
    assert_eq!(stage.read("ran"), "a\nb\nc\n");
    let output = unpacked(&bytes(&position(stage, "a")["output"]));
    assert_eq!(text_of(&output["i"]), "a\n");
}

async fn an_applied_plan_of_a_folder_is_left_alone_until_it_changes(stage: &Stage) {
    let plans = folder(stage);
    let log = stage.at("ran").display().to_string();
    let says = |word: &str| plan(&json!([sh("i", &format!("echo {word} >> {log}"))]));
    write(&plans.join("a.plan"), &says("first"));
    let mut agent = stage.start();
    is_applied(stage, "a", &says("first")).await;
    agent.kill();
    // Another process goes on from the position.
    write(&plans.join("z.plan"), &says("last"));
    let _agent = stage.start();
    is_applied(stage, "z", &says("last")).await;
    assert_eq!(stage.read("ran"), "first\nlast\n");
    write(&plans.join("a.plan"), &says("changed"));
    is_applied(stage, "a", &says("changed")).await;
    assert_eq!(stage.read("ran"), "first\nlast\nchanged\n");
    // Without its position it is a new plan.
    fs::remove_file(plans.join("a.pos")).unwrap();
    is_applied(stage, "a", &says("changed")).await;
    assert_eq!(stage.read("ran"), "first\nlast\nchanged\nchanged\n");
}

async fn probes_and_periodic_instructions_of_a_folder(stage: &Stage) {
    let (plans, heart) = (folder(stage), Heart::start());
    let log = stage.at("ran").display().to_string();
    let periodic = json!({"name": "p", "command": "sh", "args": ["-c", format!("echo x >> {log}; echo out")], "periodSeconds": 1});
    let plan = json!({"periodicInstructions": [periodic], "probes": heart.probes()}).to_string();
    write(&plans.join("a.plan"), &plan);
    let _agent = stage.start();
    is_applied(stage, "a", &plan).await;
    let ran = eventually(DEADLINE, "the second run, and a healthy probe", async || {
        let (runs, position) = (stage.read("ran"), position(stage, "a"));
        ensure!(
            runs.len() >= 4 && position["probeStatus"]["heart"]["healthy"] == true,
            "{runs:?} {position}"
        );
        Ok(position)
    });
    let output = unpacked(&bytes(&ran.await.unwrap()["periodicOutput"]));
    assert_eq!((text_of(&output["p"]["stdout"]), &output["p"]["exitCode"]), ("out\n".to_owned(), &json!(0)));
}
