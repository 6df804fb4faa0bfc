//! Which metrics each kind has, as data. Names and labels are those of Cluster API's configuration for
//! kube-state-metrics; fields are where v1beta2 has them.

/// The metrics of a kind.
pub(super) struct MeteredKind {
    /// What their names begin with.
    pub(super) prefix: &'static str,
    /// The kind, in descriptions.
    pub(super) noun: &'static str,
    /// Whether they bear the name of a cluster.
    pub(super) belongs_to_cluster: bool,
    families: &'static [Family],
}

/// One metric.
pub(super) struct Family {
    /// The end of its name.
    pub(super) name: &'static str,
    /// What it means; `{}` is the kind.
    pub(super) help: &'static str,
    pub(super) shape: Shape,
}

/// Pairs of a label and the JSON pointer to its value.
type Labels = &'static [(&'static str, &'static str)];

/// How an object becomes samples. Fields are JSON pointers.
pub(super) enum Shape {
    /// Always 1, with these labels.
    Info(Labels),
    /// Like `Info`, if this field exists.
    InfoIf(&'static str, Labels),
    /// Like `Info`, for each entry of a list.
    InfoOfEach(&'static str, Labels),
    /// The field, if it exists.
    Number(&'static str),
    /// The field, or 0.
    NumberOrZero(&'static str),
    /// The first field minus the second.
    Shortfall(&'static str, &'static str),
    /// 1 for the state that the field names, 0 for the others.
    States(&'static str, &'static str, &'static [&'static str]),
    /// 1 for the current status of each condition, 0 for the others.
    Conditions,
    /// The last transition time of each condition.
    Transitions,
}

use Shape::{Conditions, Info, InfoIf, InfoOfEach, Number, NumberOrZero, Shortfall, States, Transitions};

const fn family(name: &'static str, help: &'static str, shape: Shape) -> Family {
    Family { name, help, shape }
}

impl MeteredKind {
    /// All metrics, each kind's own first.
    pub(super) fn families(&self) -> impl Iterator<Item = &'static Family> {
        self.families.iter().chain(COMMON)
    }
}

/// What every kind has.
const COMMON: &[Family] = &[
    family(
        "created",
        "When the {} was created, in seconds since 1970.",
        Number("/metadata/creationTimestamp"),
    ),
    family(
        "annotation_paused",
        "Is there if the {} is paused by an annotation.",
        InfoIf(
            "/metadata/annotations/cluster.x-k8s.io~1paused",
            &[("paused_value", "/metadata/annotations/cluster.x-k8s.io~1paused")],
        ),
    ),
    family("status_condition", "1 for the status that a condition of the {} has.", Conditions),
    family(
        "status_condition_last_transition_time",
        "Since when a condition of the {} has its status, in seconds since 1970.",
        Transitions,
    ),
    family(
        "owner",
        "Owners of the {}.",
        InfoOfEach(
            "/metadata/ownerReferences",
            &[
                ("owner_is_controller", "/controller"),
                ("owner_kind", "/kind"),
                ("owner_name", "/name"),
                ("owner_uid", "/uid"),
            ],
        ),
    ),
];

/// What machines are made from, in a MachineSet and in a MachineDeployment.
const TEMPLATE: Labels = &[
    ("version", "/spec/template/spec/version"),
    ("bootstrap_reference_kind", "/spec/template/spec/bootstrap/configRef/kind"),
    ("bootstrap_reference_name", "/spec/template/spec/bootstrap/configRef/name"),
    ("infrastructure_reference_kind", "/spec/template/spec/infrastructureRef/kind"),
    ("infrastructure_reference_name", "/spec/template/spec/infrastructureRef/name"),
];

/// What machines of a MachinePool are made from. The names of two labels are upstream's.
const POOL: Labels = &[
    ("failure_domain", "/spec/template/spec/failureDomain"),
    ("version", "/spec/template/spec/version"),
    ("bootstrap_configuration_reference_kind", "/spec/template/spec/bootstrap/configRef/kind"),
    ("bootstrap_configuration_reference_name", "/spec/template/spec/bootstrap/configRef/name"),
    ("infrastructure_reference_kind", "/spec/template/spec/infrastructureRef/kind"),
    ("infrastructure_reference_name", "/spec/template/spec/infrastructureRef/name"),
];

/// All kinds that have metrics.
pub(super) const KINDS: [MeteredKind; 6] = [
    MeteredKind {
        prefix: "capi_cluster",
        noun: "Cluster",
        belongs_to_cluster: false,
        families: &[
            family(
                "info",
                "What the {} is made of.",
                Info(&[
                    ("topology_version", "/spec/topology/version"),
                    ("topology_class", "/spec/topology/classRef/name"),
                    ("control_plane_endpoint_host", "/spec/controlPlaneEndpoint/host"),
                    ("control_plane_endpoint_port", "/spec/controlPlaneEndpoint/port"),
                    ("control_plane_reference_kind", "/spec/controlPlaneRef/kind"),
                    ("control_plane_reference_name", "/spec/controlPlaneRef/name"),
                    ("infrastructure_reference_kind", "/spec/infrastructureRef/kind"),
                    ("infrastructure_reference_name", "/spec/infrastructureRef/name"),
                ]),
            ),
            family("spec_paused", "1 if the {} is paused.", NumberOrZero("/spec/paused")),
            family(
                "status_phase",
                "1 for the phase that the {} is in.",
                States(
                    "phase",
                    "/status/phase",
                    &["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"],
                ),
            ),
        ],
    },
    MeteredKind {
        prefix: "capi_machine",
        noun: "Machine",
        belongs_to_cluster: true,
        families: &[
            family(
                "info",
                "What the {} is made of.",
                Info(&[
                    ("container_runtime_version", "/status/nodeInfo/containerRuntimeVersion"),
                    ("failure_domain", "/spec/failureDomain"),
                    ("kernel_version", "/status/nodeInfo/kernelVersion"),
                    ("kubelet_version", "/status/nodeInfo/kubeletVersion"),
                    ("kube_proxy_version", "/status/nodeInfo/kubeProxyVersion"),
                    ("os_image", "/status/nodeInfo/osImage"),
                    ("provider_id", "/spec/providerID"),
                    ("version", "/spec/version"),
                    ("bootstrap_reference_kind", "/spec/bootstrap/configRef/kind"),
                    ("bootstrap_reference_name", "/spec/bootstrap/configRef/name"),
                    ("infrastructure_reference_kind", "/spec/infrastructureRef/kind"),
                    ("infrastructure_reference_name", "/spec/infrastructureRef/name"),
                    ("control_plane_name", "/metadata/labels/cluster.x-k8s.io~1control-plane-name"),
                ]),
            ),
            family(
                "addresses",
                "Addresses of the {}.",
                InfoOfEach("/status/addresses", &[("type", "/type"), ("address", "/address")]),
            ),
            family(
                "status_certificatesexpirydate",
                "When the certificates of a control plane {} expire, in seconds since 1970.",
                NumberOrZero("/status/certificatesExpiryDate"),
            ),
            family(
                "status_noderef",
                "The Node that the {} became.",
                InfoIf("/status/nodeRef", &[("node_name", "/status/nodeRef/name")]),
            ),
            family(
                "status_phase",
                "1 for the phase that the {} is in.",
                States(
                    "phase",
                    "/status/phase",
                    &[
                        "Pending",
                        "Provisioning",
                        "Provisioned",
                        "Running",
                        "Updating",
                        "Deleting",
                        "Deleted",
                        "Failed",
                        "Unknown",
                    ],
                ),
            ),
        ],
    },
    MeteredKind {
        prefix: "capi_machineset",
        noun: "MachineSet",
        belongs_to_cluster: true,
        families: &[
            family("info", "What the machines of the {} are made of.", Info(TEMPLATE)),
            family("spec_replicas", "Machines that the {} should have.", NumberOrZero("/spec/replicas")),
            family("status_replicas", "Machines of the {}.", NumberOrZero("/status/replicas")),
            family(
                "status_replicas_available",
                "Machines of the {} that are available.",
                NumberOrZero("/status/availableReplicas"),
            ),
            family(
                "status_replicas_ready",
                "Machines of the {} that are ready.",
                NumberOrZero("/status/readyReplicas"),
            ),
        ],
    },
    MeteredKind {
        prefix: "capi_machinedeployment",
        noun: "MachineDeployment",
        belongs_to_cluster: true,
        families: &[
            family("info", "What the machines of the {} are made of.", Info(TEMPLATE)),
            family("spec_paused", "1 if the {} is paused.", NumberOrZero("/spec/paused")),
            family("spec_replicas", "Machines that the {} should have.", Number("/spec/replicas")),
            family(
                "spec_strategy_rollingupdate_max_surge",
                "Machines that the {} may have beyond its replicas, if that is a number.",
                Number("/spec/rollout/strategy/rollingUpdate/maxSurge"),
            ),
            family(
                "spec_strategy_rollingupdate_max_unavailable",
                "Machines of the {} that may be unavailable, if that is a number.",
                Number("/spec/rollout/strategy/rollingUpdate/maxUnavailable"),
            ),
            family(
                "status_phase",
                "1 for the phase that the {} is in.",
                States(
                    "phase",
                    "/status/phase",
                    &["ScalingUp", "ScalingDown", "Running", "Failed", "Unknown"],
                ),
            ),
            family("status_replicas", "Machines of the {}.", NumberOrZero("/status/replicas")),
            family(
                "status_replicas_available",
                "Machines of the {} that are available.",
                NumberOrZero("/status/availableReplicas"),
            ),
            family(
                "status_replicas_ready",
                "Machines of the {} that are ready.",
                NumberOrZero("/status/readyReplicas"),
            ),
            family(
                "status_replicas_unavailable",
                "Machines of the {} that are not available.",
                Shortfall("/status/replicas", "/status/availableReplicas"),
            ),
            family(
                "status_replicas_updated",
                "Machines of the {} that are up to date.",
                NumberOrZero("/status/upToDateReplicas"),
            ),
        ],
    },
    MeteredKind {
        prefix: "capi_machinehealthcheck",
        noun: "MachineHealthCheck",
        belongs_to_cluster: true,
        families: &[
            family("info", "Is there if the {} is.", Info(&[])),
            family(
                "status_current_healthy",
                "Machines of the {} that are healthy.",
                Number("/status/currentHealthy"),
            ),
            family(
                "status_expected_machines",
                "Machines that the {} watches.",
                Number("/status/expectedMachines"),
            ),
            family(
                "status_remediations_allowed",
                "Machines of the {} that may be remediated now.",
                Number("/status/remediationsAllowed"),
            ),
        ],
    },
    MeteredKind {
        prefix: "capi_machinepool",
        noun: "MachinePool",
        belongs_to_cluster: true,
        families: &[
            family("info", "What the machines of the {} are made of.", Info(POOL)),
            family("spec_replicas", "Machines that the {} should have.", Number("/spec/replicas")),
            family(
                "status_phase",
                "1 for the phase that the {} is in.",
                States(
                    "phase",
                    "/status/phase",
                    &[
                        "Pending",
                        "Provisioning",
                        "Provisioned",
                        "Running",
                        "ScalingUp",
                        "ScalingDown",
                        "Scaling",
                        "Deleting",
                        "Failed",
                        "Unknown",
                    ],
                ),
            ),
            family("status_replicas", "Machines of the {}.", NumberOrZero("/status/replicas")),
            family(
                "status_replicas_available",
                "Machines of the {} that are available.",
                NumberOrZero("/status/availableReplicas"),
            ),
            family(
                "status_replicas_ready",
                "Machines of the {} that are ready.",
                NumberOrZero("/status/readyReplicas"),
            ),
            family(
                "status_replicas_unavailable",
                "Machines of the {} that are not available.",
                Shortfall("/status/replicas", "/status/availableReplicas"),
            ),
        ],
    },
];
