//! Decisions about all MachineSets of a MachineDeployment.

use super::super::question::{Side, request};
use super::*;
use crate::machinedeployment::fixtures::deployment;
use crate::machinedeployment::names::REVISION;
use crate::machineset::fixtures::machine;
use crate::runtime::fixtures::handler;
use crate::runtime::response_cache::{CacheKey, ResponseCache};
use capstan_api::meta::annotations;
use capstan_api::runtime::hooks::CanUpdateMachineSet;
use serde_json::{Value, json};

/// Whether all that could be changed in place can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extension {
    None,
    Willing,
}
use Extension::{None as AlwaysReplace, Willing as AlwaysInPlace};

fn decided(fields: &Value, sets: &[MachineSet], machines: &[Machine], extension: Extension) -> Decision {
    let deployment = deployment(fields);
    let observed = Observed {
        deployment: &deployment,
        sets,
        others: &[],
        machines,
        templates_exist: true,
        now: Timestamp::now(),
    };
    let draft = draft(&observed).expect("a test value");
    let candidates = draft.candidates().map(|(_, old)| old).unwrap_or_default();
    let willing = candidates.into_iter().filter(|_| extension == AlwaysInPlace);
    let movable = willing.map(kube::ResourceExt::name_any).collect();
    draft.decide(&movable)
}

/// What the server would hold after a decision was carried out in full.
fn stored(mut decision: Decision) -> Vec<MachineSet> {
    for set in &mut decision.sets {
        set.metadata
            .uid
            .get_or_insert_with(|| format!("uid-{}", set.metadata.name.as_deref().unwrap_or_default()));
        let status = set.status.get_or_insert_default();
        status.replicas = set.spec.replicas;
        status.available_replicas = set.spec.replicas;
    }
    decision.sets
}

fn replicas_of(decision: &Decision) -> Vec<i32> {
    decision.sets.iter().map(|set| set.spec.replicas.expect("a test value")).collect()
}

#[test]
fn the_first_set_gets_all_machines_at_once() {
    let decision = decided(&json!({}), &[], &[], AlwaysReplace);
    assert_eq!(replicas_of(&decision), [3]);
    assert_eq!(decision.revision.as_deref(), Some("1"));
    assert_eq!(decision.sets[0].annotations()[REVISION], "1");
    assert_eq!(decision.sets[0].annotations()[annotations::DISABLE_MACHINE_CREATE], "false");
}

#[test]
fn without_templates_no_set_is_made() {
    let deployment = deployment(&json!({}));
    let now = Timestamp::now();
    let observed = Observed {
        deployment: &deployment,
        sets: &[],
        others: &[],
        machines: &[],
        templates_exist: false,
        now,
    };
    assert!(matches!(draft(&observed), Err(Problem::NoTemplates)));
}

#[test]
fn a_changed_template_starts_a_rollout() {
    let sets = stored(decided(&json!({}), &[], &[], AlwaysReplace));
    let same =
        decided(&json!({"spec": {"template": {"spec": {"minReadySeconds": 3}}}}), &sets, &[], AlwaysReplace);
    assert_eq!(replicas_of(&same), [3], "handed down in place");
    assert_eq!(same.sets[0].spec.template.spec.min_ready_seconds, Some(3));

    let version = json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}});
    let decision = decided(&version, &sets, &[], AlwaysReplace);
    assert_eq!(replicas_of(&decision), [1, 3]);
    assert_eq!(decision.revision.as_deref(), Some("2"));
    let next = decided(&version, &stored(decision), &[], AlwaysReplace);
    assert_eq!(replicas_of(&next), [1, 2]);
}

#[test]
fn on_delete_holds_old_sets_back() {
    let sets = stored(decided(&json!({}), &[], &[], AlwaysReplace));
    let fields = json!({"spec": {
        "rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": null}},
        "template": {"spec": {"version": "v1.35.0"}},
    }});
    let decision = decided(&fields, &sets, &[], AlwaysInPlace);
    assert_eq!(replicas_of(&decision), [0, 3]);
    let disabled: Vec<&str> = decision
        .sets
        .iter()
        .map(|set| set.annotations()[annotations::DISABLE_MACHINE_CREATE].as_str())
        .collect();
    assert_eq!(disabled, ["false", "true"]);
}

#[test]
fn a_pause_scales_and_rolls_nothing_out() {
    let sets = stored(decided(&json!({}), &[], &[], AlwaysReplace));
    let fields =
        json!({"spec": {"paused": true, "replicas": 5, "template": {"spec": {"version": "v1.35.0"}}}});
    let decision = decided(&fields, &sets, &[], AlwaysReplace);
    assert_eq!(replicas_of(&decision), [5]);
    assert_eq!(decision.revision, None);
}

#[test]
fn in_place_both_sets_are_informed_and_machines_are_counted() {
    let sets = stored(decided(&json!({}), &[], &[], AlwaysReplace));
    let version = json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}});
    let decision = decided(&version, &sets, &[], AlwaysInPlace);
    assert_eq!(replicas_of(&decision), [0, 2]);
    let (new, old) = (&decision.sets[0], &decision.sets[1]);
    assert_eq!(new.annotations()[in_place::RECEIVE_MACHINES_FROM], old.name_any());
    assert_eq!(old.annotations()[in_place::MOVE_MACHINES_TO], new.name_any());

    // The old set has handed one over.
    let sets = stored(decision);
    let moved = machine("m1")
        .annotated(in_place::PENDING_ACKNOWLEDGE_MOVE)
        .change(|machine| {
            machine.metadata.owner_references =
                crate::machineset::desired::controller(&sets[0]).map(|owner| vec![owner]);
        })
        .done();
    let counted = decided(&version, &sets, std::slice::from_ref(&moved), AlwaysInPlace);
    assert_eq!(replicas_of(&counted), [1, 2]);
    assert_eq!(counted.sets[0].annotations()[in_place::ACKNOWLEDGED_MOVE], "m1");

    // Counted once, however often it is looked at.
    let mut sets = stored(counted);
    sets[0].status.get_or_insert_default().available_replicas = Some(0);
    let again = decided(&version, &sets, &[moved], AlwaysInPlace);
    assert_eq!(replicas_of(&again), [1, 2]);
    let acknowledged = decided(&version, &sets, &[], AlwaysInPlace);
    assert!(!acknowledged.sets[0].annotations().contains_key(in_place::ACKNOWLEDGED_MOVE));
}

#[test]
fn only_machines_that_have_to_move_are_asked_about() {
    let sets = stored(decided(&json!({}), &[], &[], AlwaysReplace));
    let version = |mut fields: Value| {
        crate::machineset::fixtures::merge(
            &mut fields,
            &json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}}),
        );
        fields
    };
    let asked = |fields: &Value, sets: &[MachineSet]| {
        let deployment = deployment(fields);
        let now = Timestamp::now();
        let observed = Observed {
            deployment: &deployment,
            sets,
            others: &[],
            machines: &[],
            templates_exist: true,
            now,
        };
        let draft = draft(&observed).expect("a test value");
        let candidates = draft.candidates();
        candidates.map(|(new, old)| (new.metadata.uid.is_some(), old.len()))
    };
    let on_delete = json!({"spec": {"rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": null}}}});
    for (case, fields, expected) in [
        ("nothing changes", json!({}), None),
        ("what is handed down", json!({"spec": {"template": {"spec": {"minReadySeconds": 3}}}}), None),
        ("the version changes", version(json!({})), Some((false, 1))),
        ("paused", version(json!({"spec": {"paused": true}})), None),
        ("on delete", version(on_delete), None),
        ("no machine is wanted", version(json!({"spec": {"replicas": 0}})), None),
        ("asked for anew", json!({"spec": {"rollout": {"after": "2020-01-01T00:00:00Z"}}}), None),
    ] {
        let mut sets = sets.clone();
        sets[0].metadata.creation_timestamp = Some(crate::machineset::fixtures::at(1));
        assert_eq!(asked(&fields, &sets), expected, "{case}");
    }
    let mut empty = sets;
    empty[0].status.get_or_insert_default().replicas = Some(0);
    assert_eq!(asked(&version(json!({})), &empty), None, "there is no machine to change");
}

#[test]
fn a_rollout_that_is_held_asks_the_same_question_at_every_look() {
    let sets = stored(decided(&json!({}), &[], &[], AlwaysReplace));
    let deployment = deployment(&json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}}));
    let asked = |others: &[String], second: i64| {
        let now = Timestamp::from_second(second).expect("a time");
        let (sets, deployment) = (&sets, &deployment);
        let observed = Observed { deployment, sets, others, machines: &[], templates_exist: true, now };
        let draft = draft(&observed).expect("a test value");
        let (new, old) = draft.candidates().expect("a Machine has to move");
        let template = |kind: &str| {
            serde_json::from_value::<kube::api::DynamicObject>(
                json!({"kind": kind, "metadata": {"name": "t"}}),
            )
            .expect("a template")
        };
        let side =
            |set: &MachineSet| Side { set: set.clone(), infrastructure: template("Infra"), bootstrap: None };
        (new.name_any(), request(&side(old[0]), &side(new), draft.limits()).expect("something to ask"))
    };
    let (name, first) = asked(&[], 1);
    let (again, second) = asked(&["other-abcde".to_owned()], 1_000);
    assert_eq!(name, again);
    assert_eq!(json!(first), json!(second));
    // With the same question there is one call: the answer is kept.
    let key = |request| {
        CacheKey::new::<CanUpdateMachineSet>(&handler("e", "https://e", 1), request).expect("a key")
    };
    let cache = ResponseCache::default();
    cache.put(key(first), "no", Timestamp::UNIX_EPOCH);
    assert_eq!(cache.get(&key(second), Timestamp::UNIX_EPOCH), Some("no"));
    // A MachineSet of others that has the name is left alone.
    let (other, _) = asked(std::slice::from_ref(&name), 1);
    assert_ne!(name, other);
    assert_eq!(name.len(), other.len());
}
