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
const WEBHOOK_CLUSTER_SELECTOR: &str =
    "upstream's webhook refuses a selector that is empty, makes no sense or changes";
const WEBHOOK_ADDRESS: &str =
    "upstream's webhook refuses what is no IP address, too long a prefix, and every change";
const WEBHOOK_CLIENT: &str =
    "upstream's webhook wants one of url and service, https, and names, paths and ports that can exist";

const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
const CLASSES: &str = "clusterclasses.cluster.x-k8s.io";
const WEBHOOK_CIDR: &str = "upstream's webhook refuses what is no range of addresses";
const WEBHOOK_STARTUP: &str = "upstream's webhook refuses 1 to 29";
const WEBHOOK_SAME_KIND: &str = "upstream's webhook refuses templates of another kind or group";
const WEBHOOK_TEMPLATE_KIND: &str = "upstream's webhook refuses kinds that do not end in Template";

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
        WEBHOOK_STARTUP,
    ),
    differs("clusterresourcesets.addons.cluster.x-k8s.io", ".spec cel", WEBHOOK_CLUSTER_SELECTOR),
    differs("clusterresourcesets.addons.cluster.x-k8s.io", ".spec.strategy cel", WEBHOOK_IMMUTABLE),
    differs(
        "clusterresourcesets.addons.cluster.x-k8s.io",
        ".spec.strategy default",
        "upstream's webhook fills in the same; its controller does not work without",
    ),
    differs(
        "machinedrainrules.cluster.x-k8s.io",
        ".spec.drain cel",
        "upstream's webhook refuses an order beside Skip and WaitCompleted",
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
    differs(
        "extensionconfigs.runtime.cluster.x-k8s.io",
        ".spec.clientConfig.service.name cel",
        WEBHOOK_CLIENT,
    ),
    differs(
        "extensionconfigs.runtime.cluster.x-k8s.io",
        ".spec.clientConfig.service.namespace cel",
        WEBHOOK_CLIENT,
    ),
    differs(
        "extensionconfigs.runtime.cluster.x-k8s.io",
        ".spec.clientConfig.service.path cel",
        WEBHOOK_CLIENT,
    ),
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
    differs(CLUSTERS, ". cel", "upstream's webhook refuses names that cannot be label values"),
    differs(
        CLUSTERS,
        ".spec cel",
        "upstream's webhook wants one of the three ways to say what the cluster is, and keeps those that are set",
    ),
    differs(CLUSTERS, ".spec.clusterNetwork.pods.cidrBlocks cel", WEBHOOK_CIDR),
    differs(CLUSTERS, ".spec.clusterNetwork.services.cidrBlocks cel", WEBHOOK_CIDR),
    differs(CLUSTERS, ".spec.topology.version cel", WEBHOOK_VERSION),
    differs(
        CLUSTERS,
        ".spec.topology.controlPlane.healthCheck.checks.nodeStartupTimeoutSeconds cel",
        WEBHOOK_STARTUP,
    ),
    differs(
        CLUSTERS,
        ".spec.topology.workers.machineDeployments[] cel",
        "upstream's webhook refuses replicas beside the annotations of the autoscaler",
    ),
    differs(
        CLUSTERS,
        ".spec.topology.workers.machineDeployments[].healthCheck.checks.nodeStartupTimeoutSeconds cel",
        WEBHOOK_STARTUP,
    ),
    differs(
        CLASSES,
        ".spec.controlPlane cel",
        "upstream's webhook ties health checks to machines, and keeps a control plane on machines or off them",
    ),
    differs(CLASSES, ".spec.infrastructure.templateRef cel", WEBHOOK_SAME_KIND),
    differs(CLASSES, ".spec.controlPlane.templateRef cel", WEBHOOK_SAME_KIND),
    differs(CLASSES, ".spec.controlPlane.machineInfrastructure.templateRef cel", WEBHOOK_SAME_KIND),
    differs(CLASSES, ".spec.workers.machineDeployments[].infrastructure.templateRef cel", WEBHOOK_SAME_KIND),
    differs(CLASSES, ".spec.workers.machinePools[].infrastructure.templateRef cel", WEBHOOK_SAME_KIND),
    differs(CLASSES, ".spec.infrastructure.templateRef.kind cel", WEBHOOK_TEMPLATE_KIND),
    differs(CLASSES, ".spec.controlPlane.templateRef.kind cel", WEBHOOK_TEMPLATE_KIND),
    differs(CLASSES, ".spec.controlPlane.machineInfrastructure.templateRef.kind cel", WEBHOOK_TEMPLATE_KIND),
    differs(
        CLASSES,
        ".spec.workers.machineDeployments[].bootstrap.templateRef.kind cel",
        WEBHOOK_TEMPLATE_KIND,
    ),
    differs(
        CLASSES,
        ".spec.workers.machineDeployments[].infrastructure.templateRef.kind cel",
        WEBHOOK_TEMPLATE_KIND,
    ),
    differs(CLASSES, ".spec.workers.machinePools[].bootstrap.templateRef.kind cel", WEBHOOK_TEMPLATE_KIND),
    differs(
        CLASSES,
        ".spec.workers.machinePools[].infrastructure.templateRef.kind cel",
        WEBHOOK_TEMPLATE_KIND,
    ),
    differs(CLASSES, ".spec.controlPlane.healthCheck.checks.nodeStartupTimeoutSeconds cel", WEBHOOK_STARTUP),
    differs(
        CLASSES,
        ".spec.workers.machineDeployments[].healthCheck.checks.nodeStartupTimeoutSeconds cel",
        WEBHOOK_STARTUP,
    ),
    differs(
        CLASSES,
        ".spec.variables[].name cel",
        "upstream's webhook refuses names that are taken or could not be looked up",
    ),
    differs(
        CLASSES,
        ".spec.patches[] cel",
        "upstream's webhook wants exactly one of the two ways to write a patch",
    ),
    differs(
        CLASSES,
        ".spec.patches[].name cel",
        "upstream's webhook refuses the name that variables of the class itself go by",
    ),
    differs(
        CLASSES,
        ".spec.patches[].definitions[].selector.matchResources cel",
        "upstream's webhook refuses a selector that picks nothing",
    ),
    differs(
        CLASSES,
        ".spec.patches[].external cel",
        "upstream's webhook refuses an external patch that neither changes nor checks anything",
    ),
];
