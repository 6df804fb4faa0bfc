//! Plans of upgrades, and whole upgrades step by step.

use super::*;
use crate::fixtures::World;
use proptest::prelude::*;
use serde_json::json;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn plans_go_through_the_last_version_of_each_minor() {
    let class = texts(&[
        "v1.29.1",
        "v1.30.0",
        "v1.30.4",
        "v1.31.0+k3s1",
        "v1.31.0+k3s2",
        "v1.32.1",
        "v1.32.2",
        "v1.33.0",
    ]);
    for (wanted, from, expected) in [
        ("v1.30.0", "v1.30.0", texts(&[])),
        ("v1.30.4", "v1.30.0", texts(&["v1.30.4"])),
        ("v1.32.1", "v1.29.1", texts(&["v1.30.4", "v1.31.0+k3s2", "v1.32.1"])),
        ("v1.33.0", "v1.30.0", texts(&["v1.31.0+k3s2", "v1.32.2", "v1.33.0"])),
        ("v1.31.0+k3s1", "v1.30.4", texts(&["v1.31.0+k3s1"])),
    ] {
        assert_eq!(from_class_versions(&class, wanted, from), Ok(expected), "{from} to {wanted}");
    }
    assert_eq!(one_minor("v1.31.0", "v1.30.0"), Ok(texts(&["v1.31.0"])));
    assert_eq!(one_minor("v1.31.0", "v1.31.0"), Ok(texts(&[])));
    assert!(matches!(one_minor("v1.32.0", "v1.30.0"), Err(UpgradeError::TooFar { .. })));
}

#[test]
fn workers_get_as_few_steps_as_version_skew_allows() {
    let control_plane = texts(&["v1.31.0", "v1.32.0", "v1.33.0", "v1.34.0", "v1.35.0"]);
    for (oldest, expected) in [
        (Some("v1.30.0"), texts(&["v1.33.0", "v1.35.0"])),
        (Some("v1.29.0"), texts(&["v1.32.0", "v1.35.0"])),
        (Some("v1.28.0"), texts(&["v1.31.0", "v1.34.0", "v1.35.0"])),
        (Some("v1.27.0"), texts(&["v1.30.0", "v1.33.0", "v1.35.0"])),
        (Some("v1.35.0"), texts(&[])),
        (None, texts(&[])),
    ] {
        let plans = Plans { control_plane: control_plane.clone(), workers: Vec::new() };
        let plans = complete(plans, "v1.35.0", "v1.30.0", oldest).expect("valid plans");
        assert_eq!(plans.workers, expected, "{oldest:?}");
        assert_eq!(plans.control_plane, control_plane);
    }
    // The control plane is done, the workers are not.
    let plans = complete(Plans::default(), "v1.31.0", "v1.31.0", Some("v1.30.0")).expect("valid plans");
    assert_eq!(plans, Plans { control_plane: Vec::new(), workers: texts(&["v1.31.0"]) });
}

#[test]
fn plans_of_runtime_extensions_are_validated() {
    let check = |control_plane: &[&str], workers: &[&str]| {
        let plans = Plans { control_plane: texts(control_plane), workers: texts(workers) };
        complete(plans, "v1.32.0", "v1.30.0", Some("v1.30.0")).map(|plans| plans.workers)
    };
    assert_eq!(check(&["v1.31.0", "v1.32.0"], &["v1.31.0", "v1.32.0"]), Ok(texts(&["v1.31.0", "v1.32.0"])));
    assert_eq!(check(&["v1.31.0", "v1.32.0"], &[]), Ok(texts(&["v1.32.0"])));
    for (control_plane, workers, expected) in [
        (&["v1.31.0"][..], &[][..], "must end with version v1.32.0, but ends with v1.31.0"),
        (&["v1.32.0"], &[], "expected minor version 30 or 31, found version v1.32.0"),
        (&["v1.31.0", "v1.30.5", "v1.32.0"], &[], "item 1: version v1.30.5 must be greater than v1.31.0"),
        (&["v1.31.0", "latest"], &[], "\"latest\" is not a semantic version"),
        (
            &["v1.31.0", "v1.32.0"],
            &["v1.31.5", "v1.32.0"],
            "version v1.31.5 is neither in the plan of the control plane",
        ),
        (&["v1.31.0", "v1.32.0"], &["v1.31.0"], "workers: it must end with version v1.32.0"),
        (
            &["v1.31.0", "v1.32.0"],
            &["v1.32.0", "v1.31.0"],
            "item 1: version v1.31.0 must be greater than v1.32.0",
        ),
    ] {
        let error = check(control_plane, workers).expect_err("an invalid plan").to_string();
        assert!(error.contains(expected), "{error}");
    }
    let done = Plans { control_plane: texts(&["v1.32.0"]), workers: Vec::new() };
    assert!(complete(done.clone(), "v1.32.0", "v1.32.0", None).is_err());
    let none = Plans { control_plane: Vec::new(), workers: texts(&["v1.32.0"]) };
    assert!(complete(none, "v1.32.0", "v1.32.0", None).is_err());
    let far = Plans { control_plane: Vec::new(), workers: texts(&["v1.32.0"]) };
    assert!(complete(far, "v1.32.0", "v1.32.0", Some("v1.28.0")).is_err());
}

/// A cluster with its objects, all of version v1.30.0.
fn running() -> World {
    let mut world = World::new();
    let computed = world.computed();
    world.apply(&computed, "v1.30.0");
    world.settle();
    world
}

/// Computes and writes; the control plane has its version at once. Returns the versions of control plane, a, b and p.
fn step(world: &mut World) -> Vec<String> {
    let computed = world.computed();
    let version =
        computed.desired.control_plane.object["spec"]["version"].as_str().expect("a version").to_string();
    world.apply(&computed, &version);
    world.versions()
}

#[test]
fn an_upgrade_starts_with_the_control_plane_and_takes_one_group_at_a_time() {
    let mut world = running();
    world.set_version("v1.31.0");
    let first = world.computed();
    assert!(first.progress.control_plane.is_starting);
    assert_eq!(
        first.desired.cluster.annotations["topology.internal.cluster.x-k8s.io/upgrade-step"],
        "v1.31.0"
    );
    world.apply(&first, "v1.30.0");
    assert_eq!(world.versions(), ["v1.31.0", "v1.30.0", "v1.30.0", "v1.30.0"]);
    // The control plane is upgrading: workers wait, and a new group is not created.
    let waiting = world.computed().progress;
    assert!(waiting.control_plane.is_upgrading);
    assert_eq!(waiting.machine_deployments.pending.len(), 2);
    let mut with_new = world.clone();
    with_new.change_cluster(|cluster| {
        let groups = &mut cluster["spec"]["topology"]["workers"]["machineDeployments"];
        groups.as_array_mut().expect("a list").push(json!({"class": "small", "name": "new"}));
    });
    assert!(with_new.computed().progress.machine_deployments.pending_create.contains("new"));
    let plane = world.current.control_plane.as_mut().expect("it exists");
    plane["status"] = json!({"versions": [{"version": "v1.31.0"}]});
    assert_eq!(step(&mut world), ["v1.31.0", "v1.31.0", "v1.30.0", "v1.31.0"]);
    assert_eq!(step(&mut world), ["v1.31.0", "v1.31.0", "v1.30.0", "v1.31.0"], "a is still upgrading");
    world.settle();
    assert_eq!(step(&mut world), ["v1.31.0", "v1.31.0", "v1.31.0", "v1.31.0"]);
    world.settle();
    let last = world.computed();
    assert!(
        !last.desired.cluster.annotations.contains_key("topology.internal.cluster.x-k8s.io/upgrade-step")
    );
    assert_eq!(last.progress.machine_deployments.plan, [] as [String; 0]);
    assert_eq!(world.compute(), Ok(last));
}

#[test]
fn concurrency_deferral_and_holds_are_annotations() {
    let base = "topology.cluster.x-k8s.io";
    for (on_cluster, on_a, on_b, expected, deferred) in [
        (None, None, None, ["v1.31.0", "v1.30.0"], 0),
        (Some("2"), None, None, ["v1.31.0", "v1.31.0"], 0),
        (Some("0"), None, None, ["v1.31.0", "v1.30.0"], 0),
        (Some("x"), None, None, ["v1.31.0", "v1.30.0"], 0),
        (Some("2"), Some("defer-upgrade"), None, ["v1.30.0", "v1.31.0"], 1),
        (Some("2"), Some("hold-upgrade-sequence"), None, ["v1.30.0", "v1.30.0"], 2),
        (Some("2"), None, Some("hold-upgrade-sequence"), ["v1.31.0", "v1.30.0"], 1),
    ] {
        let mut world = running();
        world.set_version("v1.31.0");
        world.change_cluster(|cluster| {
            if let Some(most) = on_cluster {
                cluster["metadata"]["annotations"] = json!({format!("{base}/upgrade-concurrency"): most});
            }
            for (i, annotation) in [on_a, on_b].into_iter().enumerate() {
                if let Some(annotation) = annotation {
                    let group = &mut cluster["spec"]["topology"]["workers"]["machineDeployments"][i];
                    group["metadata"]["annotations"] = json!({format!("{base}/{annotation}"): ""});
                }
            }
        });
        step(&mut world);
        let computed = world.computed();
        assert_eq!(computed.progress.machine_deployments.deferred.len(), deferred, "{on_a:?} {on_b:?}");
        world.apply(&computed, "v1.31.0");
        assert_eq!(world.versions()[1..3], expected, "{on_cluster:?} {on_a:?} {on_b:?}");
    }
}

#[test]
fn an_upgrade_over_several_minors_takes_workers_along() {
    let versions = ["v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0", "v1.34.0"];
    let mut world = running();
    world.class.spec.kubernetes_versions = texts(&versions);
    world.set_version("v1.34.0");
    let mut seen = Vec::new();
    for _ in 0..20 {
        let now = step(&mut world);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        world.settle();
    }
    let row = |control_plane: &str, a: &str, b: &str, p: &str| {
        [control_plane, a, b, p].map(|minor| format!("v1.{minor}.0")).to_vec()
    };
    assert_eq!(
        seen,
        [
            row("31", "30", "30", "30"),
            row("32", "30", "30", "30"),
            row("33", "30", "30", "30"),
            row("33", "33", "30", "33"),
            row("33", "33", "33", "33"),
            row("34", "33", "33", "33"),
            row("34", "34", "33", "34"),
            row("34", "34", "34", "34"),
        ]
    );
    let mut too_far = running();
    too_far.set_version("v1.32.0");
    assert!(too_far.compute().is_err());
}

#[test]
fn hooks_hold_an_upgrade() {
    let mut world = running();
    world.hooks.are_enabled = true;
    world.set_version("v1.31.0");
    let control_plane = |world: &mut World| {
        let computed = world.computed();
        (computed.desired.control_plane.object["spec"]["version"].clone(), computed.progress)
    };
    let mut annotated = world.clone();
    annotated.change_cluster(|cluster| {
        cluster["metadata"]["annotations"] = json!({"before-upgrade.hook.cluster.cluster.x-k8s.io/me": ""});
    });
    let (version, progress) = control_plane(&mut annotated);
    assert_eq!((version, progress.needs, progress.control_plane.is_pending), (json!("v1.30.0"), None, true));
    for hook in [Hook::BeforeClusterUpgrade, Hook::BeforeControlPlaneUpgrade] {
        let (version, progress) = control_plane(&mut world);
        assert_eq!((version, progress.needs), (json!("v1.30.0"), Some(hook)));
        world.hooks.answers.insert(hook, Answer::Block);
        let (version, progress) = control_plane(&mut world);
        assert_eq!((version, progress.needs), (json!("v1.30.0"), None));
        assert_eq!(progress.to_mark.contains(&Hook::AfterClusterUpgrade), hook != Hook::BeforeClusterUpgrade);
        world.hooks.answers.insert(hook, Answer::Continue);
    }
    let computed = world.computed();
    assert_eq!(computed.desired.control_plane.object["spec"]["version"], "v1.31.0");
    let marked = [
        Hook::AfterControlPlaneUpgrade,
        Hook::BeforeWorkersUpgrade,
        Hook::AfterWorkersUpgrade,
        Hook::AfterClusterUpgrade,
    ];
    assert_eq!(computed.progress.to_mark, marked.into());
    world.apply(&computed, "v1.31.0");
    world.hooks.pending = marked.into();
    world.hooks.answers.clear();
    for hook in [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade] {
        let progress = world.computed().progress;
        assert_eq!(progress.needs, Some(hook));
        assert_eq!(progress.machine_deployments.pending.len(), 2, "workers wait for {hook}");
        world.hooks.answers.insert(hook, Answer::Continue);
    }
    let computed = world.computed();
    assert_eq!(computed.progress.machine_deployments.upgrading.len(), 1);
    assert_eq!(computed.progress.done, [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade].into());
}

#[test]
fn the_plan_of_a_runtime_extension_is_needed_if_the_class_names_one() {
    let mut world = running();
    world.class.spec.upgrade =
        serde_json::from_value(json!({"external": {"generateUpgradePlanExtension": "ext"}}))
            .expect("settings");
    assert!(world.compute().is_ok(), "nothing to upgrade");
    world.set_version("v1.31.0");
    assert_eq!(
        world.compute().expect_err("there is no plan").to_string(),
        "the upgrade plan comes from runtime extension \"ext\""
    );
    world.upgrade_plan = Some(Plans { control_plane: texts(&["v1.30.5", "v1.31.0"]), workers: Vec::new() });
    assert_eq!(step(&mut world)[0], "v1.30.5");
}

#[test]
fn machines_say_whether_their_group_is_upgrading() {
    let group = json!({"spec": {"template": {"spec": {"version": "v1.31.0"}}}});
    let machine = |version: &str, kubelet: &str| json!({"metadata": {"name": "m"}, "spec": {"version": version}, "status": {"nodeInfo": {"kubeletVersion": kubelet}}});
    for (machines, expected) in [
        (vec![], Ok(false)),
        (vec![machine("v1.31.0", "v1.31.0"), machine("v1.31.0", "")], Ok(false)),
        (vec![machine("v1.30.0", "v1.31.0")], Ok(true)),
        (vec![machine("v1.31.0", "v1.30.0")], Ok(true)),
        (vec![machine("", "")], Err("m".to_string())),
    ] {
        assert_eq!(machine_deployment_is_upgrading(&group, &machines), expected, "{machines:?}");
    }
    assert!(machine_pool_is_upgrading(&group, ["v1.31.0", "v1.30.0"]));
    assert!(!machine_pool_is_upgrading(&group, ["v1.31.0"]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the versions: workers are never ahead of the control plane nor too far behind, nothing goes back, and the
    /// upgrade ends.
    #[test]
    fn upgrades_keep_version_skew_and_end(minors in 1_u64..9, most in 1_usize..3, delays in prop::collection::vec(any::<bool>(), 80)) {
        let versions: Vec<String> = (30..=30 + minors).map(|minor| format!("v1.{minor}.0")).collect();
        let wanted = versions.last().cloned().expect("a version");
        let mut world = running();
        world.class.spec.kubernetes_versions = versions;
        world.set_version(&wanted);
        world.change_cluster(|cluster| {
            cluster["metadata"]["annotations"] = json!({"topology.cluster.x-k8s.io/upgrade-concurrency": most.to_string()});
        });
        let minor = |text: &String| parse(text).expect("a version").minor;
        let mut before: Vec<u64> = world.versions().iter().map(minor).collect();
        for is_slow in delays {
            let now: Vec<u64> = step(&mut world).iter().map(minor).collect();
            prop_assert!(now.iter().zip(&before).all(|(now, before)| now >= before), "{before:?} {now:?}");
            prop_assert!(now[0] - before[0] <= 1);
            prop_assert!(now[1..].iter().all(|worker| *worker <= now[0] && now[0] - worker <= 3), "{now:?}");
            before = now;
            if !is_slow {
                world.settle();
            }
        }
        for _ in 0..60 {
            step(&mut world);
            world.settle();
        }
        prop_assert!(world.versions().iter().all(|version| *version == wanted), "{:?}", world.versions());
    }
}
