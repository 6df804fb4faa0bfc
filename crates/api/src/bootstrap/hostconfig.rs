//! Configuration that depends on the Host of a machine.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use super::{File, Setting};
use crate::core::TaintEffect;
use crate::schema::{DNS_LABEL, LABEL_VALUE, TAINT_KEY};

/// Configuration of the machines on some Hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostConfigEntry {
    /// Name of the entry, which is used in messages and in `capstan plan`. Unique in the list.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,

    /// Label selector of the Hosts. An empty selector selects every Host.
    #[schemars(with = "crate::schema::LabelSelectorSchema")]
    pub selector: LabelSelector,

    /// The configuration.
    pub config: HostConfig,
}

/// Configuration of the machine on a Host. It takes precedence over the configuration of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct HostConfig {
    /// Settings of the distribution that may differ from machine to machine, such as `node-ip`, `flannel-iface` and
    /// `kubelet-arg` of k3s. A setting replaces the same setting of the machine. Of arguments, such as those in `kubelet-arg`,
    /// each replaces the argument with the same name. Capstan refuses settings that count for the whole cluster, and settings
    /// that cannot be changed in place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "x-kubernetes-preserve-unknown-fields" = true))]
    pub settings: BTreeMap<String, Setting>,

    /// Files on the machine, such as `/etc/rancher/k3s/registries.yaml`. A file replaces the file of the machine with the same
    /// path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"])
    )]
    pub files: Vec<File>,

    /// Labels of the Node. Capstan keeps them on the Node, and removes them from it when you remove them here. Labels of the
    /// Machine take precedence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,

    /// Taints of the Node. Capstan keeps them on the Node, and removes them from it when you remove them here. Taints of the
    /// Machine take precedence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<HostTaint>,
}

/// A taint of the Node of a Host.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostTaint {
    /// Key of the taint.
    #[schemars(length(min = 1, max = 317), regex(pattern = TAINT_KEY))]
    pub key: String,

    /// Value of the taint.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_VALUE))]
    pub value: Option<String>,

    /// Effect on pods that do not tolerate the taint: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: TaintEffect,
}
