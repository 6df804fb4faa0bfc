//! Taints that a Machine propagates to its Node.

use capstan_api::core::{Machine, MachineTaint, TaintEffect, TaintPropagation};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt as _;

use super::metadata::TAINTS_FROM_MACHINE;
use crate::names::node::UNINITIALIZED;

/// The Node will be replaced, so pods should prefer other Nodes.
const OUTDATED: (&str, &str) = ("node.cluster.x-k8s.io/outdated-revision", "PreferNoSchedule");

pub(super) struct Taints {
    /// All desired taints of the Node, if they differ from the current ones.
    pub(super) changed: Option<Vec<Taint>>,
    /// The taints that come from the Machine, as `key:effect`, for the annotation that records them.
    pub(super) from_machine: String,
}

pub(super) fn taints(node: &Node, machine: &Machine, outdated: bool) -> Taints {
    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let mut taints = present.clone();
    remove(&mut taints, UNINITIALIZED);

    let remembered = node.annotations().get(TAINTS_FROM_MACHINE);
    for taint in &machine.spec.taints {
        if taint.propagation == TaintPropagation::Always || remembered.is_none() {
            ensure(&mut taints, wanted(taint));
        }
    }
    let asked_for: Vec<String> = machine.spec.taints.iter().map(key).collect();
    for old in remembered.iter().flat_map(|list| list.split(',')) {
        if let (false, Some(old)) = (asked_for.iter().any(|key| key == old), old.split_once(':')) {
            remove(&mut taints, old);
        }
    }
    match outdated {
        true => ensure(&mut taints, taint(OUTDATED, None)),
        false => remove(&mut taints, OUTDATED),
    }

    let always = machine.spec.taints.iter().filter(|taint| taint.propagation == TaintPropagation::Always);
    let mut kept: Vec<String> = always.map(key).collect();
    kept.sort();
    Taints { changed: (taints != present).then_some(taints), from_machine: kept.join(",") }
}

fn remove(taints: &mut Vec<Taint>, (key, effect): (&str, &str)) {
    taints.retain(|taint| taint.key != key || taint.effect != effect);
}

fn ensure(taints: &mut Vec<Taint>, wanted: Taint) {
    match taints.iter_mut().find(|taint| taint.key == wanted.key && taint.effect == wanted.effect) {
        Some(taint)
            if taint.value.as_deref().unwrap_or_default() == wanted.value.as_deref().unwrap_or_default() => {}
        Some(taint) => *taint = wanted,
        None => taints.push(wanted),
    }
}

fn wanted(from: &MachineTaint) -> Taint {
    taint((&from.key, effect(from.effect)), from.value.clone())
}

fn taint((key, effect): (&str, &str), value: Option<String>) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), value, time_added: None }
}

fn key(taint: &MachineTaint) -> String {
    format!("{}:{}", taint.key, effect(taint.effect))
}

fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}
