//! Where our CRDs differ from upstream's on purpose, and why.

/// One difference that is meant.
pub(crate) struct Divergence {
    /// Name of the CRD, or `*` for all.
    pub(crate) crd: &'static str,
    /// Where: a path with the keyword that differs, as the test prints it.
    pub(crate) place: &'static str,
    /// Why it differs.
    #[allow(dead_code, reason = "read by people, not by the test")]
    pub(crate) why: &'static str,
}

const fn differs(crd: &'static str, place: &'static str, why: &'static str) -> Divergence {
    Divergence { crd, place, why }
}

const WEBHOOK_IMMUTABLE: &str = "upstream's webhook refuses the change; Capstan installs without webhooks";
const WEBHOOK_VERSION: &str =
    "upstream's webhook adds the v and checks the version; Capstan asks for it in the schema";
const WEBHOOK_TEMPLATE: &str =
    "upstream's webhook asks for the same cluster name twice, and for bootstrap data";

pub(crate) const DIVERGENCES: &[Divergence] = &[
    differs(
        "*",
        "served",
        "older versions need a conversion webhook to be served; Capstan installs without one, and every \
         upstream manager of v1.14 reads and writes the storage version only",
    ),
    differs("*", ".spec.clusterName cel", WEBHOOK_IMMUTABLE),
    differs("*", ".spec.template.spec.clusterName cel", WEBHOOK_IMMUTABLE),
    differs("*", ".spec.version cel", WEBHOOK_VERSION),
    differs("*", ".spec.template.spec.version cel", WEBHOOK_VERSION),
    differs("machinesets.cluster.x-k8s.io", ".spec cel", WEBHOOK_TEMPLATE),
    differs("machinedeployments.cluster.x-k8s.io", ".spec cel", WEBHOOK_TEMPLATE),
    differs("machinepools.cluster.x-k8s.io", ".spec cel", WEBHOOK_TEMPLATE),
    differs(
        "machinehealthchecks.cluster.x-k8s.io",
        ".spec cel",
        "upstream's webhook refuses an empty selector",
    ),
    differs(
        "machinehealthchecks.cluster.x-k8s.io",
        ".spec.checks.nodeStartupTimeoutSeconds cel",
        "upstream's webhook refuses 1 to 29",
    ),
    differs("clusterresourcesets.addons.cluster.x-k8s.io", ".spec cel", WEBHOOK_CLUSTER_SELECTOR),
    differs("clusterresourcesets.addons.cluster.x-k8s.io", ".spec.strategy cel", WEBHOOK_IMMUTABLE),
    differs(
        "clusterresourcesets.addons.cluster.x-k8s.io",
        ".spec.strategy default",
        "upstream's webhook fills in the same; its controller does not work without",
    ),
    differs("ipaddresses.ipam.cluster.x-k8s.io", ".spec cel", WEBHOOK_ADDRESS),
    differs("ipaddresses.ipam.cluster.x-k8s.io", ".spec.address cel", WEBHOOK_ADDRESS),
    differs("ipaddresses.ipam.cluster.x-k8s.io", ".spec.gateway cel", WEBHOOK_ADDRESS),
    differs("ipaddressclaims.ipam.cluster.x-k8s.io", ".spec cel", WEBHOOK_IMMUTABLE),
    differs(
        "extensionconfigs.runtime.cluster.x-k8s.io",
        ". cel",
        "upstream's webhook wants a name without dots, since handlers are called handler.name",
    ),
    differs(
        "extensionconfigs.runtime.cluster.x-k8s.io",
        ".spec cel",
        "upstream's webhook refuses a selector that makes no sense",
    ),
    differs("extensionconfigs.runtime.cluster.x-k8s.io", ".spec.clientConfig cel", WEBHOOK_CLIENT),
    differs("extensionconfigs.runtime.cluster.x-k8s.io", ".spec.clientConfig.url cel", WEBHOOK_CLIENT),
    differs("extensionconfigs.runtime.cluster.x-k8s.io", ".spec.clientConfig.service.name cel", WEBHOOK_CLIENT),
    differs(
        "extensionconfigs.runtime.cluster.x-k8s.io",
        ".spec.clientConfig.service.namespace cel",
        WEBHOOK_CLIENT,
    ),
    differs("extensionconfigs.runtime.cluster.x-k8s.io", ".spec.clientConfig.service.path cel", WEBHOOK_CLIENT),
    differs(
        "extensionconfigs.runtime.cluster.x-k8s.io",
        ".spec.clientConfig.service.port minimum",
        WEBHOOK_CLIENT,
    ),
    differs(
        "extensionconfigs.runtime.cluster.x-k8s.io",
        ".spec.clientConfig.service.port maximum",
        WEBHOOK_CLIENT,
    ),
];
