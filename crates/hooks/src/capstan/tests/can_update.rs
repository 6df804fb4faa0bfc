//! Which changes are covered by patches, which are refused, and what is said then.

use super::*;
use capstan_api::runtime::hooks::{MachineObjects, MachineSetObjects, ResponseStatus};
use proptest::prelude::*;

const OLD: &str = "v1.36.0+k3s1";
const NEW: &str = "v1.36.1+k3s1";

fn set(version: &str, change: impl FnOnce(&mut Value)) -> MachineSetObjects {
    let mut objects = json!({
        "machineSet": {
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
            "metadata": {"name": "workers-abcde", "namespace": "n",
                "labels": {"cluster.x-k8s.io/deployment-name": "workers"},
                "annotations": {DESIRED_REPLICAS: "3", MAX_REPLICAS: "3"}},
            "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {
                "clusterName": "c", "version": version,
                "bootstrap": {"configRef":
                    {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "CapstanConfigTemplate", "name": "setup"}},
                "infrastructureRef":
                    {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachineTemplate", "name": "hosts"},
            }}},
        },
        "bootstrapConfigTemplate": {
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfigTemplate",
            "metadata": {"name": "setup", "namespace": "n"},
            "spec": {"template": {"spec": {"distro": "k3s", "settings": {"debug": false}}}},
        },
        "infrastructureMachineTemplate": {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostMachineTemplate",
            "metadata": {"name": "hosts", "namespace": "n"}, "spec": {"template": {"spec": {}}},
        },
    });
    change(&mut objects);
    serde_json::from_value(objects).expect("objects")
}

fn config(change: impl FnOnce(&mut Value)) -> impl FnOnce(&mut Value) {
    |objects: &mut Value| change(&mut objects["bootstrapConfigTemplate"]["spec"]["template"]["spec"])
}

fn asked(current: MachineSetObjects, desired: MachineSetObjects) -> CanUpdateMachineSetRequest {
    CanUpdateMachineSetRequest {
        common: capstan_api::runtime::hooks::CommonRequest::default(),
        current,
        desired,
    }
}

/// The object after the patch, as core would see it.
fn patched(object: &Value, patch: Option<&Patch>) -> Value {
    let mut object = object.clone();
    match patch {
        None => {}
        Some(Patch { patch_type: PatchType::JSONPatch, patch }) => {
            let patch: json_patch::Patch = serde_json::from_slice(&patch.0).expect("a patch");
            json_patch::patch(&mut object, &patch).expect("fits");
        }
        Some(Patch { patch_type: PatchType::JSONMergePatch, patch }) => {
            json_patch::merge(&mut object, &serde_json::from_slice(&patch.0).expect("a patch"));
        }
    }
    object
}

fn template(objects: &MachineSetObjects) -> Value {
    objects.bootstrap_config_template.clone().expect("a template")
}

/// Whether the patches of an answer lead from the one side to the other.
fn leads_there(request: &CanUpdateMachineSetRequest, answer: &CanUpdateMachineSetResponse) -> bool {
    let spec = |object: &Value| object.pointer("/spec/template/spec").cloned();
    let config = patched(&template(&request.current), answer.bootstrap_config_template_patch.as_ref());
    let set = |objects: &MachineSetObjects| serde_json::to_value(&objects.machine_set).expect("JSON");
    let machine = patched(&set(&request.current), answer.machine_set_patch.as_ref());
    let version = |object: &Value| object.pointer("/spec/template/spec/version").cloned();
    spec(&config) == spec(&template(&request.desired)) && version(&machine) == version(&set(&request.desired))
}

#[test]
fn what_can_be_made_in_place_is_covered() {
    for (case, desired) in [
        ("nothing", set(OLD, |_| {})),
        ("another version", set(NEW, |_| {})),
        ("a setting", set(OLD, config(|config| config["settings"]["debug"] = json!(true)))),
        ("a setting less", set(OLD, config(|config| config["settings"] = json!({})))),
        (
            "a file",
            set(OLD, config(|config| config["files"] = json!([{"path": "/etc/motd", "content": "hi"}]))),
        ),
        (
            "no setup at all",
            set(OLD, |objects| {
                objects["bootstrapConfigTemplate"]["spec"]["template"]["spec"] = json!({});
            }),
        ),
        (
            "both, under other names",
            set(NEW, |objects| {
                objects["bootstrapConfigTemplate"]["metadata"]["name"] = json!("setup-2");
                objects["bootstrapConfigTemplate"]["spec"]["template"]["spec"]["settings"] =
                    json!({"x": [1]});
            }),
        ),
    ] {
        let request = asked(set(OLD, |_| {}), desired);
        let answer = machine_set(&request);
        assert_eq!(answer.common, CommonResponse::success(), "{case}");
        assert!(leads_there(&request, &answer), "{case}: {answer:?}");
    }
}

#[test]
fn what_cannot_is_refused_by_name() {
    let annotated = |key: &'static str, value: &'static str| {
        move |objects: &mut Value| objects["machineSet"]["metadata"]["annotations"][key] = json!(value)
    };
    for (case, desired, field) in [
        (
            "a version back",
            set("v1.35.0+k3s1", |_| {}),
            "MachineDeployment workers spec.template.spec.version: ",
        ),
        (
            "another distribution",
            set(OLD, config(|config| config["distro"] = json!("rke2"))),
            "CapstanConfigTemplate setup spec.template.spec.distro: ",
        ),
        (
            "a file that cannot be",
            set(
                OLD,
                config(|config| {
                    config["files"] = json!([{"path": "/etc/rancher/k3s/config.yaml", "content": ""}]);
                }),
            ),
            "CapstanConfigTemplate setup spec.template.spec.files[/etc/rancher/k3s/config.yaml].path: ",
        ),
        (
            "other hosts",
            set(OLD, |objects| {
                objects["infrastructureMachineTemplate"]["spec"]["template"]["spec"] =
                    json!({"hostSelector": {"matchLabels": {"size": "large"}}});
            }),
            "HostMachineTemplate hosts spec.template.spec.hostSelector: ",
        ),
        (
            "another failure domain",
            set(OLD, |objects| {
                objects["machineSet"]["spec"]["template"]["spec"]["failureDomain"] = json!("b");
            }),
            "MachineDeployment workers spec.template.spec.failureDomain: ",
        ),
        (
            "another bootstrap provider",
            set(OLD, |objects| objects["bootstrapConfigTemplate"]["kind"] = json!("KubeadmConfigTemplate")),
            "MachineDeployment workers spec.template.spec.bootstrap.configRef: ",
        ),
        (
            "a surge",
            set(NEW, annotated(MAX_REPLICAS, "4")),
            "MachineDeployment workers spec.rollout.strategy.rollingUpdate.maxSurge: ",
        ),
        (
            "a policy that nobody knows",
            set(NEW, annotated(REPLACE_POLICY, "Always")),
            "MachineDeployment workers annotation capstan.dev/replace-policy: ",
        ),
    ] {
        let answer = machine_set(&asked(set(OLD, |_| {}), desired));
        let message = answer.common.message.clone().unwrap_or_default();
        assert_eq!(answer.common.status, ResponseStatus::Failure, "{case}");
        assert!(message.contains(field), "{case}: {message}");
        assert!(
            answer.machine_set_patch.is_none() && answer.bootstrap_config_template_patch.is_none(),
            "{case}"
        );
    }
}

#[test]
fn no_secret_is_repeated() {
    let with = |content: &'static str| {
        set(
            OLD,
            config(move |config| {
                config["distro"] = json!(if content == "swordfish" { "rke2" } else { "k3s" });
                config["settings"] = json!({"token": content});
                config["files"] = json!([{"path": "/etc/rancher/k3s/config.yaml", "content": content}]);
            }),
        )
    };
    let answer = machine_set(&asked(with("herring"), with("swordfish")));
    let message = answer.common.message.unwrap_or_default();
    assert!(answer.common.status == ResponseStatus::Failure && !message.contains("swordfish"), "{message}");
}

#[test]
fn a_machine_may_be_replaced_where_somebody_asked_for_it() {
    let asks = |version: &str, change: fn(&mut Value)| {
        set(version, |objects| {
            objects["machineSet"]["metadata"]["annotations"][REPLACE_POLICY] = json!("WhenNeeded");
            objects["machineSet"]["metadata"]["annotations"][MAX_REPLICAS] = json!("4");
            change(objects);
        })
    };
    // Other hosts need other machines; the rest could be made in place, and is covered.
    let request = asked(
        set(OLD, |_| {}),
        asks(NEW, |objects| {
            objects["infrastructureMachineTemplate"]["spec"]["template"]["spec"] =
                json!({"hostSelector": {}});
        }),
    );
    let answer = machine_set(&request);
    assert_eq!(answer.common, CommonResponse::success());
    assert!(answer.infrastructure_machine_template_patch.is_none(), "core sees a difference and replaces");
    assert!(leads_there(&request, &answer));
    // In place is still preferred.
    let request = asked(set(OLD, |_| {}), asks(NEW, |_| {}));
    assert!(leads_there(&request, &machine_set(&request)));
    // What cannot be at all is refused all the same.
    let request = asked(set(OLD, |_| {}), asks("v1.35.0+k3s1", |_| {}));
    assert_eq!(machine_set(&request).common.status, ResponseStatus::Failure);
}

#[test]
fn what_capstan_did_not_set_up_is_left_to_others() {
    let foreign = |version: &str| {
        set(version, |objects| objects["bootstrapConfigTemplate"]["kind"] = json!("KubeadmConfigTemplate"))
    };
    let none = |version: &str| {
        set(version, |objects| {
            objects.as_object_mut().expect("objects").remove("bootstrapConfigTemplate");
        })
    };
    for (current, desired) in
        [(foreign(OLD), foreign(NEW)), (none(OLD), none(NEW)), (foreign(OLD), set(NEW, |_| {}))]
    {
        let answer = machine_set(&asked(current, desired));
        assert_eq!(answer.common, CommonResponse::success());
        assert!(answer.machine_set_patch.is_none() && answer.bootstrap_config_template_patch.is_none());
    }
}

#[test]
fn a_single_machine_is_answered_alike() {
    let objects = |version: &str, selector: Value| -> MachineObjects {
        serde_json::from_value(json!({
            "machine": {
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m"},
                "spec": {"clusterName": "c", "version": version, "bootstrap": {}, "infrastructureRef":
                    {"apiGroup": "i", "kind": "HostMachine", "name": "m"}},
            },
            "bootstrapConfig": {
                "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig",
                "metadata": {"name": "m"}, "spec": {"distro": "k3s"},
            },
            "infrastructureMachine": {"kind": "HostMachine", "metadata": {"name": "m"},
                "spec": {"providerID": "host:///a", "hostSelector": selector}},
        }))
        .expect("objects")
    };
    let ask = |current, desired| {
        machine(&CanUpdateMachineRequest {
            common: capstan_api::runtime::hooks::CommonRequest::default(),
            current,
            desired,
        })
    };
    let answer = ask(objects(OLD, json!({})), objects(NEW, json!({})));
    assert_eq!(answer.common, CommonResponse::success());
    let covered = answer.machine_patch.expect("a patch");
    assert_eq!(covered.patch.0, json!({"spec": {"version": NEW}}).to_string().into_bytes());
    let answer = ask(objects(OLD, json!({})), objects(OLD, json!({"matchLabels": {"a": "b"}})));
    let message = answer.common.message.unwrap_or_default();
    assert!(message.contains("HostMachine m spec.hostSelector: "), "{message}");
}

#[test]
fn fields_that_stay_are_not_covered() {
    let before = json!({"distro": "k3s", "settings": {"a": 1, "b": 1}, "files": [1]});
    let after =
        json!({"distro": "rke2", "settings": {"a": 2, "b": 2, "c": 2}, "files": [1, 2], "after": [3]});
    for (stuck, expected) in [
        (vec![], after.clone()),
        (
            vec!["distro"],
            json!({"distro": "k3s", "settings": {"a": 2, "b": 2, "c": 2}, "files": [1, 2], "after": [3]}),
        ),
        (
            vec!["settings.a", "settings.c"],
            json!({"distro": "rke2", "settings": {"a": 1, "b": 2}, "files": [1, 2], "after": [3]}),
        ),
        (
            vec!["files[/x]", "after[y]"],
            json!({"distro": "rke2", "settings": {"a": 2, "b": 2, "c": 2}, "files": [1]}),
        ),
    ] {
        assert_eq!(reachable(&before, &after, stuck.iter().copied()), expected, "{stuck:?}");
    }
    let bare = json!({"distro": "k3s"});
    assert_eq!(reachable(&before, &bare, ["settings.a"].into_iter())["settings"], json!({"a": 1}));
}

prop_compose! {
    fn a_config()(
        settings in prop::collection::btree_map("[a-c]", 0..3_u8, 0..3),
        files in prop::collection::btree_map("/[a-c]", "[x-z]{0,2}", 0..3),
        before in prop::collection::btree_map("[a-c]", "[x-z]{1,2}", 0..3),
        distro in prop::sample::select(vec!["k3s", "k3s", "k3s", "rke2"]),
        is_bare in any::<bool>(),
    ) -> Value {
        let files: Vec<Value> = files.iter().map(|(path, content)| json!({"path": path, "content": content})).collect();
        let before: Vec<Value> = before.iter().map(|(name, word)| json!({"name": name, "command": [word]})).collect();
        let mut config = json!({"settings": settings, "files": files, "before": before});
        if distro != "k3s" || !is_bare {
            config["distro"] = json!(distro);
        }
        config
    }
}

proptest! {
    /// Either the answer is no, with a reason, or the patches lead exactly there. Under `Never` there is nothing between.
    #[test]
    fn an_answer_is_no_or_leads_there(
        old in a_config(),
        new in a_config(),
        old_minor in 33..37_u8,
        new_minor in 33..37_u8,
    ) {
        let side = |config_is: Value, minor: u8| {
            set(&format!("v1.{minor}.0+k3s1"), config(move |config| *config = config_is))
        };
        let request = asked(side(old, old_minor), side(new, new_minor));
        let answer = machine_set(&request);
        match answer.common.status {
            ResponseStatus::Success => prop_assert!(leads_there(&request, &answer), "{answer:?}"),
            ResponseStatus::Failure => {
                prop_assert!(answer.common.message.is_some_and(|message| message.contains(" spec.template.spec.")));
                prop_assert!(answer.machine_set_patch.is_none());
            }
        }
    }
}
