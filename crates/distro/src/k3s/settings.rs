//! The table of k3s settings: which machines have a setting, and the cost of a change. The rest of the crate uses it.

use crate::cost::Cost;

/// One key of `config.yaml`.
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    /// Whether workers have it, too.
    pub(crate) on: On,
    pub(crate) cost: Cost,
    pub(crate) why: &'static str,
}

/// Which machines have a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Servers,
    All,
}

const READ_AT_START: &str = "k3s reads it when it starts";
const PODS: &str = "pods must not run while it changes";
const BEGUN: &str = "it is decided when the cluster begins and cannot be changed afterwards";

/// What is said of a key that is not in the table: a newer k3s may know it, and k3s itself says so if it does not.
const UNKNOWN: Setting = Setting { key: "*", on: On::All, cost: Cost::Restart, why: READ_AT_START };

const fn restart(key: &'static str, on: On) -> Setting {
    Setting { key, on, cost: Cost::Restart, why: READ_AT_START }
}

const fn drain(key: &'static str, on: On) -> Setting {
    Setting { key, on, cost: Cost::DrainAndRestart, why: PODS }
}

const fn begun(key: &'static str, on: On) -> Setting {
    Setting { key, on, cost: Cost::Refused, why: BEGUN }
}

const fn decided(key: &'static str, why: &'static str) -> Setting {
    Setting { key, on: On::All, cost: Cost::Refused, why }
}

/// What Capstan decides by itself. These are refused as settings, whoever sets them and whenever.
pub(crate) const DECIDED: &[Setting] = &[
    decided("server", "it is the cluster's endpoint"),
    decided("token", "it is made with the cluster"),
    decided("token-file", "the token is made with the cluster"),
    decided("agent-token", "the token is made with the cluster"),
    decided("agent-token-file", "the token is made with the cluster"),
    decided("cluster-init", "it is set on the machine that begins the cluster"),
    decided("cluster-reset", "it would begin another cluster"),
    decided("cluster-reset-restore-path", "it would begin another cluster"),
    decided("cluster-cidr", "it is spec.clusterNetwork.pods of the Cluster"),
    decided("service-cidr", "it is spec.clusterNetwork.services of the Cluster"),
    decided("cluster-domain", "it is spec.clusterNetwork.serviceDomain of the Cluster"),
    decided("datastore-endpoint", "the servers keep their data in etcd"),
    decided("datastore-cafile", "the servers keep their data in etcd"),
    decided("datastore-certfile", "the servers keep their data in etcd"),
    decided("datastore-keyfile", "the servers keep their data in etcd"),
    decided("disable-etcd", "the servers keep their data in etcd"),
    decided("disable-apiserver", "every machine of the control plane serves the API"),
    decided("disable-controller-manager", "every machine of the control plane is one"),
    decided("disable-agent", "every machine has a Node"),
    decided("rootless", "the agent looks after k3s as a service of the system"),
    decided("node-name", "it is the name of the Machine"),
    decided("with-node-id", "the Node's name is the name of the Machine"),
    decided(
        "https-listen-port",
        "it is the Cluster's spec.clusterNetwork.apiServerPort, or else the endpoint's port",
    ),
    decided("supervisor-port", "machines join at the cluster's endpoint"),
    decided("apiserver-port", "it is the port of the cluster's endpoint"),
    decided("data-dir", "certificates are put there before the first start"),
    decided("config", "Capstan writes that file"),
];

/// What is left to the user.
pub(crate) const SETTINGS: &[Setting] = &[
    // The cluster as a whole.
    begun("cluster-dns", On::Servers),
    begun("secrets-encryption", On::Servers),
    begun("secrets-encryption-provider", On::Servers),
    drain("flannel-backend", On::Servers),
    restart("service-node-port-range", On::Servers),
    restart("flannel-ipv6-masq", On::Servers),
    restart("flannel-external-ip", On::Servers),
    restart("egress-selector-mode", On::Servers),
    restart("servicelb-namespace", On::Servers),
    restart("disable", On::Servers),
    restart("disable-scheduler", On::Servers),
    restart("disable-cloud-controller", On::Servers),
    restart("disable-kube-proxy", On::Servers),
    restart("disable-network-policy", On::Servers),
    restart("disable-helm-controller", On::Servers),
    restart("embedded-registry", On::Servers),
    restart("supervisor-metrics", On::Servers),
    restart("system-default-registry", On::Servers),
    restart("default-local-storage-path", On::Servers),
    restart("helm-job-image", On::Servers),
    // Parts of the control plane.
    restart("kube-apiserver-arg", On::Servers),
    restart("kube-controller-manager-arg", On::Servers),
    restart("kube-scheduler-arg", On::Servers),
    restart("kube-cloud-controller-manager-arg", On::Servers),
    restart("helm-controller-arg", On::Servers),
    restart("etcd-arg", On::Servers),
    restart("etcd-expose-metrics", On::Servers),
    restart("etcd-disable-snapshots", On::Servers),
    restart("etcd-snapshot-name", On::Servers),
    restart("etcd-snapshot-schedule-cron", On::Servers),
    restart("etcd-snapshot-reconcile-interval", On::Servers),
    restart("etcd-snapshot-retention", On::Servers),
    restart("etcd-snapshot-dir", On::Servers),
    restart("etcd-snapshot-compress", On::Servers),
    restart("etcd-s3", On::Servers),
    restart("etcd-s3-endpoint", On::Servers),
    restart("etcd-s3-endpoint-ca", On::Servers),
    restart("etcd-s3-skip-ssl-verify", On::Servers),
    restart("etcd-s3-access-key", On::Servers),
    restart("etcd-s3-secret-key", On::Servers),
    restart("etcd-s3-session-token", On::Servers),
    restart("etcd-s3-bucket", On::Servers),
    restart("etcd-s3-bucket-lookup-type", On::Servers),
    restart("etcd-s3-region", On::Servers),
    restart("etcd-s3-folder", On::Servers),
    restart("etcd-s3-retention", On::Servers),
    restart("etcd-s3-proxy", On::Servers),
    restart("etcd-s3-config-secret", On::Servers),
    restart("etcd-s3-insecure", On::Servers),
    restart("etcd-s3-timeout", On::Servers),
    // How the API server is reached.
    restart("tls-san", On::Servers),
    restart("tls-san-security", On::Servers),
    restart("apiserver-bind-address", On::Servers),
    restart("advertise-address", On::Servers),
    restart("advertise-port", On::Servers),
    restart("write-kubeconfig", On::Servers),
    restart("write-kubeconfig-mode", On::Servers),
    restart("write-kubeconfig-group", On::Servers),
    // The Node.
    drain("node-ip", On::All),
    drain("selinux", On::All),
    drain("docker", On::All),
    drain("container-runtime-endpoint", On::All),
    drain("image-service-endpoint", On::All),
    drain("default-runtime", On::All),
    drain("snapshotter", On::All),
    drain("flannel-iface", On::All),
    drain("flannel-conf", On::All),
    drain("flannel-cni-conf", On::All),
    drain("vpn-auth", On::All),
    drain("vpn-auth-file", On::All),
    restart("node-external-ip", On::All),
    restart("node-internal-dns", On::All),
    restart("node-external-dns", On::All),
    restart("node-label", On::All),
    restart("node-taint", On::All),
    restart("kubelet-arg", On::All),
    restart("kube-proxy-arg", On::All),
    restart("protect-kernel-defaults", On::All),
    restart("private-registry", On::All),
    restart("airgap-extra-registry", On::All),
    restart("pause-image", On::All),
    restart("resolv-conf", On::All),
    restart("image-credential-provider-bin-dir", On::All),
    restart("image-credential-provider-config", On::All),
    restart("disable-default-registry-endpoint", On::All),
    restart("disable-apiserver-lb", On::All),
    restart("nonroot-devices", On::All),
    restart("lb-server-port", On::All),
    restart("bind-address", On::All),
    restart("enable-pprof", On::All),
    restart("debug", On::All),
    restart("v", On::All),
    restart("vmodule", On::All),
    restart("log", On::All),
    restart("alsologtostderr", On::All),
    restart("prefer-bundled-bin", On::All),
];

/// Settings of servers that may differ from server to server.
const OF_ONE_SERVER: [&str; 4] =
    ["advertise-address", "apiserver-bind-address", "etcd-snapshot-dir", "tls-san"];

/// How the values of a setting in two layers of configuration become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merging {
    /// The upper value counts.
    Replace,
    /// Arguments of a component: an upper one replaces lower ones of the same name.
    Arguments,
    /// All entries count.
    Union,
}

/// How the values of a setting in two layers become one.
pub(crate) fn merging(key: &str) -> Merging {
    match key {
        "tls-san" => Merging::Union,
        key if key.ends_with("-arg") => Merging::Arguments,
        _ => Merging::Replace,
    }
}

/// Why a setting cannot be set for single machines, with the remedy.
pub(crate) fn not_for_one_machine(key: &str) -> Option<&'static str> {
    let is_known = |setting: &&Setting| setting.key == key;
    match key {
        key if key != plain(key) => Some("is merged with the setting below it anyway: take the + out"),
        "node-label" => Some("has a field of its own: use labels"),
        "node-taint" => Some("has a field of its own: use taints"),
        key if OF_ONE_SERVER.contains(&key) => None,
        _ => match SETTINGS.iter().find(is_known).map(|setting| setting.on) {
            Some(On::All) => None,
            Some(On::Servers) => {
                Some("counts for the whole cluster: set it in spec.settings of the CapstanConfig")
            }
            None => Some(
                "is not known as a setting that may differ from machine to machine: set it in spec.settings of the \
                 CapstanConfig",
            ),
        },
    }
}

/// What is known of a key. A `+` at its end tells k3s to add to what stands elsewhere.
pub(crate) fn find(key: &str) -> &'static Setting {
    let plain = plain(key);
    DECIDED.iter().chain(SETTINGS).find(|setting| setting.key == plain).unwrap_or(&UNKNOWN)
}

/// Why it is Capstan's to decide, if it is.
pub(crate) fn decided_because(key: &str) -> Option<&'static str> {
    let plain = plain(key);
    DECIDED.iter().find(|setting| setting.key == plain).map(|setting| setting.why)
}

/// The key without what only says how it is merged.
pub(crate) fn plain(key: &str) -> &str {
    key.trim_end_matches('+')
}

/// Words in a key, or in an argument, behind which a secret stands.
const SECRET_WORDS: [&str; 6] = ["token", "secret", "password", "auth", "access-key", "credential"];

/// Whether the value may be shown to people.
pub(crate) fn may_be_shown(key: &str, value: &serde_json::Value) -> bool {
    let hidden = |text: &str| SECRET_WORDS.iter().any(|word| text.to_lowercase().contains(word));
    !hidden(key) && !hidden(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn each_key_stands_there_once() {
        let keys: Vec<&str> = DECIDED.iter().chain(SETTINGS).map(|setting| setting.key).collect();
        let unique: BTreeSet<&&str> = keys.iter().collect();
        assert_eq!(keys.len(), unique.len());
        assert_eq!(find("kubelet-arg+").key, "kubelet-arg");
        assert_eq!(find("of-the-future").cost, Cost::Restart);
    }

    #[test]
    fn settings_of_single_machines_are_those_of_their_node() {
        for (key, is_allowed) in [
            ("node-ip", true),
            ("flannel-iface", true),
            ("kubelet-arg", true),
            ("tls-san", true),
            ("advertise-address", true),
            ("kubelet-arg+", false),
            ("node-label", false),
            ("disable", false),
            ("flannel-backend", false),
            ("of-the-future", false),
        ] {
            assert_eq!(not_for_one_machine(key).is_none(), is_allowed, "{key}");
        }
        assert!(
            OF_ONE_SERVER.iter().all(|key| find(key).on == On::Servers && find(key).cost < Cost::Refused)
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        assert!(may_be_shown("disable", &json!(["traefik"])));
        assert!(!may_be_shown("etcd-s3-secret-key", &json!("x")));
        assert!(!may_be_shown("vpn-auth", &json!("x")));
        assert!(!may_be_shown("kube-apiserver-arg", &json!(["oidc-client-SECRET=x"])));
    }
}
