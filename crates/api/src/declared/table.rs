//! The table of controllers.

use super::{Controller, Output};

const CORE: &str = "core";
const INFRASTRUCTURE: &str = "infrastructure";

/// Objects that MachineSets create.
const OF_SET: &str = "of a MachineSet";
/// Objects that are created for the machines of MachinePools.
const OF_POOL: &str = "of a MachinePool";
/// Objects that control planes create.
const OF_CONTROL_PLANE: &str = "of a control plane";

/// Objects that give a machine its rights.
const OF_MACHINE: &str = "of a machine";

/// Why the condition has two writers: the request to replace a Machine, and the answer of its owner.
const ASKED: &str = "a health check asks the owner of the Machine, and the owner answers and clears it";
const INSTRUCTED: &str = "both controllers instruct a machine that dials out, through the driver of its Host";
const LOOKED_AT: &str =
    "the HostMachine controller checks the host right before it claims it and after it has started it";

const OF_NODE: &str = "core writes what the Machine has, and the control plane what only its Host has; each lists its own in annotations";

/// Fields of a new Machine.
const MACHINE: &[&str] = &[
    "metadata.labels",
    "metadata.annotations[pre-terminate.delete.hook.machine.cluster.x-k8s.io/capstan]",
    "metadata.annotations[in-place-updates.internal.cluster.x-k8s.io/update-in-progress]",
    "metadata.annotations[in-place-updates.internal.cluster.x-k8s.io/acknowledge-move]",
    "metadata.annotations[runtime.cluster.x-k8s.io/pending-hooks]",
    "spec.bootstrap.configRef",
    "spec.clusterName",
    "spec.deletion",
    "spec.failureDomain",
    "spec.infrastructureRef",
    "spec.minReadySeconds",
    "spec.readinessGates",
    "spec.taints",
    "spec.version",
];

/// Fields of the Machine of a MachinePool.
const POOL_MACHINE: &[&str] = &[
    "metadata.labels",
    "spec.bootstrap.dataSecretName",
    "spec.clusterName",
    "spec.infrastructureRef",
    "spec.version",
    "status.conditions[UpToDate]",
];

/// Fields of an object that is cloned from a template: its whole spec.
const CLONED: &[&str] = &[
    "metadata.labels",
    "metadata.annotations[cluster.x-k8s.io/cloned-from-groupkind]",
    "metadata.annotations[cluster.x-k8s.io/cloned-from-name]",
    "metadata.annotations[capstan.dev/infrastructure-template]",
    "metadata.annotations[in-place-updates.internal.cluster.x-k8s.io/update-in-progress]",
    "spec.agent",
    "spec.distro",
    "spec.files",
    "spec.format",
    "spec.hostConfig",
    "spec.hostSelector",
    "spec.node",
    "spec.onDrift",
    "spec.periodic",
    "spec.probes",
    "spec.proxy",
    "spec.registries",
    "spec.release",
    "spec.settings",
];

/// Fields of a Cluster that do not belong to its topology.
const CLUSTER: &[&str] = &[
    "spec.controlPlaneEndpoint",
    "status.conditions[Available]",
    "status.conditions[ControlPlaneAvailable]",
    "status.conditions[ControlPlaneInitialized]",
    "status.conditions[ControlPlaneMachinesReady]",
    "status.conditions[ControlPlaneMachinesUpToDate]",
    "status.conditions[Deleting]",
    "status.conditions[InfrastructureReady]",
    "status.conditions[Paused]",
    "status.conditions[Remediating]",
    "status.conditions[RemoteConnectionProbe]",
    "status.conditions[RollingOut]",
    "status.conditions[ScalingDown]",
    "status.conditions[ScalingUp]",
    "status.conditions[WorkerMachinesReady]",
    "status.conditions[WorkerMachinesUpToDate]",
    "status.conditions[WorkersAvailable]",
    "status.failureDomains",
    "status.initialization",
    "status.observedGeneration",
    "status.phase",
];

/// Fields of templates that a topology makes.
const TEMPLATE: &[&str] = &["metadata.labels", "metadata.annotations", "spec.template"];

/// Why the status of a Cluster has two writers.
const COUNTED: &str = "the Cluster's controller counts machines, and the topology writes the upgrade plan";
/// Why objects that a topology makes have two writers.
const OF_TOPOLOGY: &str = "the topology writes what the ClusterClass and the Cluster say, and the other controller what they leave open";

const OWNER_REMEDIATED: Output =
    Output::all("Machine", &["status.conditions[OwnerRemediated]"]).shared(ASKED);

/// All controllers, and the agent.
pub fn controllers() -> &'static [Controller] {
    CONTROLLERS
}

static CONTROLLERS: &[Controller] = &[
    Controller {
        name: "cluster",
        group: CORE,
        managers: &["capstan-cluster"],
        reads: &["Machine", "MachineSet", "MachineDeployment", "MachinePool", "Secret", "workload cluster"],
        writes: &[
            Output::all("Cluster", CLUSTER),
            Output::all("Cluster", &["status.controlPlane", "status.workers"]).shared(COUNTED),
            Output::all("Secret", &["data", "type"])
                .of("kubeconfig of a cluster whose control plane has no provider"),
        ],
    },
    Controller {
        name: "machine",
        group: CORE,
        managers: &["capstan-machine"],
        reads: &[
            "Cluster",
            "MachineSet",
            "MachineDeployment",
            "MachineDrainRule",
            "CapstanConfig",
            "HostMachine",
            "Secret",
            "workload cluster",
        ],
        writes: &[
            Output::all("Machine", &["spec.bootstrap.dataSecretName"]).of("with a bootstrap config"),
            Output::all(
                "Machine",
                &[
                    "spec.providerID",
                    "status.addresses",
                    "status.certificatesExpiryDate",
                    "status.conditions[Available]",
                    "status.conditions[BootstrapConfigReady]",
                    "status.conditions[Deleting]",
                    "status.conditions[InfrastructureReady]",
                    "status.conditions[NodeHealthy]",
                    "status.conditions[NodeReady]",
                    "status.conditions[Paused]",
                    "status.conditions[Ready]",
                    "status.conditions[Updating]",
                    "status.deletion",
                    "status.initialization",
                    "status.lastUpdated",
                    "status.nodeInfo",
                    "status.nodeRef",
                    "status.observedGeneration",
                    "status.phase",
                ],
            ),
            Output::all("Machine", &["status.conditions[UpToDate]"]).of(OF_SET),
            Output::all(
                "Node of the workload cluster",
                &["metadata.labels", "metadata.annotations", "spec.taints"],
            )
            .shared(OF_NODE),
        ],
    },
    Controller {
        name: "machineset",
        group: CORE,
        managers: &["capstan-machineset", "capi-machineset", "capi-machineset-metadata"],
        reads: &["Cluster", "CapstanConfigTemplate", "HostMachineTemplate", "workload cluster"],
        writes: &[
            Output::all("MachineSet", &["status"]),
            Output::all("Machine", MACHINE).of(OF_SET),
            OWNER_REMEDIATED,
            Output::all("CapstanConfig", CLONED).of(OF_SET),
            Output::all("HostMachine", CLONED).of(OF_SET),
        ],
    },
    Controller {
        name: "machinedeployment",
        group: CORE,
        managers: &["capstan-machinedeployment", "capi-machinedeployment"],
        reads: &["Cluster", "Machine", "CapstanConfigTemplate", "HostMachineTemplate", "ExtensionConfig"],
        writes: &[
            Output::all("MachineDeployment", &["metadata", "spec"]).shared(OF_TOPOLOGY),
            Output::all("MachineDeployment", &["status"]),
            Output::all("MachineSet", &["metadata", "spec"]),
        ],
    },
    Controller {
        name: "machinehealthcheck",
        group: CORE,
        managers: &["capstan-machinehealthcheck"],
        reads: &["Cluster", "workload cluster"],
        writes: &[
            Output::all("MachineHealthCheck", &["status"]),
            Output::all("Machine", &["status.conditions[HealthCheckSucceeded]"]),
            OWNER_REMEDIATED,
            Output::all("CapstanRemediation", &["metadata", "spec"]),
        ],
    },
    Controller {
        name: "machinepool",
        group: CORE,
        managers: &["capstan-machinepool", "machinepool-controller"],
        reads: &["Cluster", "bootstrap config", "infrastructure pool and its machines", "workload cluster"],
        writes: &[
            Output::all("MachinePool", &["spec.providerIDList", "status"]),
            Output::all("MachinePool", &["spec.replicas", "spec.template.spec.bootstrap.dataSecretName"])
                .shared(OF_TOPOLOGY),
            Output::all("Machine", POOL_MACHINE).of(OF_POOL),
            Output::all("Node of the workload cluster", &["metadata.annotations", "spec.taints"])
                .shared(OF_NODE),
        ],
    },
    Controller {
        name: "clusterclass",
        group: CORE,
        managers: &["capstan-clusterclass"],
        reads: &["the templates of the ClusterClass"],
        writes: &[Output::all("ClusterClass", &["status"])],
    },
    Controller {
        name: "clustertopology",
        group: CORE,
        managers: &["capstan-clustertopology", "capi-topology"],
        reads: &["ClusterClass", "the templates of the ClusterClass", "Machine", "workload cluster"],
        writes: &[
            Output::all(
                "Cluster",
                &[
                    "metadata.labels",
                    "metadata.annotations[topology.internal.cluster.x-k8s.io/upgrade-step]",
                    "spec.controlPlaneRef",
                    "spec.infrastructureRef",
                    "status.conditions[TopologyReconciled]",
                ],
            ),
            Output::all("Cluster", &["status.controlPlane.upgradePlan", "status.workers.upgradePlan"])
                .shared(COUNTED),
            Output::all(
                "HostCluster",
                &[
                    "metadata.labels",
                    "metadata.annotations",
                    "spec.controlPlaneEndpoint",
                    "spec.hostSelector",
                ],
            )
            .shared(OF_TOPOLOGY),
            Output::all("CapstanControlPlane", &["metadata.labels", "metadata.annotations", "spec"])
                .shared(OF_TOPOLOGY),
            Output::all("MachineDeployment", &["metadata.labels", "metadata.annotations", "spec"])
                .shared(OF_TOPOLOGY),
            Output::all(
                "MachinePool",
                &[
                    "metadata.labels",
                    "metadata.annotations",
                    "spec.clusterName",
                    "spec.failureDomains",
                    "spec.replicas",
                    "spec.template",
                ],
            )
            .shared(OF_TOPOLOGY),
            Output::all("MachineHealthCheck", &["metadata.labels", "spec"]),
            Output::all("HostMachineTemplate", TEMPLATE),
            Output::all("CapstanConfigTemplate", TEMPLATE),
        ],
    },
    Controller {
        name: "topology-machinedeployment",
        group: CORE,
        managers: &["capstan-topology-machinedeployment"],
        reads: &["Cluster", "MachineSet"],
        writes: &[],
    },
    Controller {
        name: "topology-machineset",
        group: CORE,
        managers: &["capstan-topology-machineset"],
        reads: &["Cluster", "MachineDeployment"],
        writes: &[],
    },
    Controller {
        name: "clusterresourceset",
        group: CORE,
        managers: &["capstan-clusterresourceset"],
        reads: &["Cluster", "ConfigMap", "Secret", "workload cluster"],
        writes: &[
            Output::all("ClusterResourceSet", &["status"]),
            Output::all("ClusterResourceSetBinding", &["metadata", "spec"]),
            Output::all("any object of the workload cluster", &["metadata", "spec"])
                .of("in a ConfigMap or Secret of a ClusterResourceSet"),
        ],
    },
    Controller {
        name: "clusterresourcesetbinding",
        group: CORE,
        managers: &["capstan-clusterresourcesetbinding"],
        reads: &["Cluster"],
        writes: &[],
    },
    Controller {
        name: "extensionconfig",
        group: CORE,
        managers: &["capstan-extensionconfig"],
        reads: &["Secret"],
        writes: &[
            Output::all("ExtensionConfig", &["status"]),
            Output::all("ExtensionConfig", &["spec.clientConfig.caBundle"]).of("that asks for a CA bundle"),
        ],
    },
    Controller {
        name: "host",
        group: INFRASTRUCTURE,
        managers: &["capstan-host"],
        reads: &["Machine", "HostMachine", "HostPool"],
        writes: &[
            Output::all("Host", &["status"]).shared(LOOKED_AT),
            Output::all("HostRegistration", &["spec.instruction"]).shared(INSTRUCTED),
        ],
    },
    Controller {
        name: "hostregistration",
        group: INFRASTRUCTURE,
        managers: &["capstan-hostregistration"],
        reads: &["Host", "Secret"],
        writes: &[
            Output::all("HostRegistration", &["spec.credential", "spec.host", "status.conditions"]),
            Output::all("Host", &["metadata.labels", "spec.failureDomain", "spec.registration"])
                .of("that the rule of a join token approves"),
            Output::all("ServiceAccount", &["metadata", "automountServiceAccountToken"])
                .of("of a machine that dials out"),
            Output::all("Role", &["metadata", "rules"]).of("of a machine that dials out"),
            Output::all("RoleBinding", &["metadata", "roleRef", "subjects"])
                .of("of a machine that dials out"),
        ],
    },
    Controller {
        name: "hostpool",
        group: INFRASTRUCTURE,
        managers: &["capstan-hostpool"],
        reads: &["Cluster", "Secret"],
        writes: &[
            Output::all("HostPool", &["status"]),
            Output::all(
                "Host",
                &[
                    "metadata.labels",
                    "metadata.annotations",
                    "spec.failureDomain",
                    "spec.simulated",
                    "spec.ssh",
                ],
            )
            .of("of a pool"),
        ],
    },
    Controller {
        name: "hostcluster",
        group: INFRASTRUCTURE,
        managers: &["capstan-hostcluster"],
        reads: &["Cluster", "Machine", "Host", "HostMachineTemplate", "CapstanControlPlane"],
        writes: &[
            Output::all("HostCluster", &["spec.controlPlaneEndpoint"]).shared(OF_TOPOLOGY),
            Output::all("HostCluster", &["status"]),
        ],
    },
    Controller {
        name: "hostmachine",
        group: INFRASTRUCTURE,
        managers: &["capstan-hostmachine"],
        reads: &["Cluster", "Machine", "HostCluster", "Secret"],
        writes: &[
            Output::all("HostMachine", &["spec.claimID", "spec.hostName", "spec.providerID", "status"]),
            Output::all("Host", &["spec.claim", "spec.quarantine"]),
            Output::all("Host", &["status"]).shared(LOOKED_AT),
            Output::all("HostRegistration", &["spec.instruction"]).shared(INSTRUCTED),
        ],
    },
    Controller {
        name: "hostmachinetemplate",
        group: INFRASTRUCTURE,
        managers: &["capstan-hostmachinetemplate"],
        reads: &["Cluster", "HostCluster", "Host"],
        writes: &[Output::all("HostMachineTemplate", &["status"])],
    },
    Controller {
        name: "bootstrap",
        group: "bootstrap",
        managers: &["capstan-bootstrap"],
        reads: &["Cluster"],
        writes: &[
            Output::all(
                "CapstanConfig",
                &[
                    "metadata.annotations[capstan.dev/machine-id]",
                    "status.conditions[AgentEnrolled]",
                    "status.conditions[DataSecretAvailable]",
                    "status.conditions[Paused]",
                    "status.conditions[Ready]",
                    "status.dataSecretName",
                    "status.initialization",
                    "status.observedGeneration",
                ],
            ),
            Output::all(
                "Machine",
                &[
                    "status.conditions[AgentConnected]",
                    "status.conditions[AgentHealthy]",
                    "status.conditions[AgentUpgraded]",
                    "status.conditions[MachineAsPlanned]",
                    "status.conditions[ProbesHealthy]",
                ],
            ),
            Output::all("MachineReport", &["metadata", "spec"]),
            Output::all("Secret", &["metadata", "data", "type"])
                .of("bootstrap data and enrolment of a machine"),
            Output::all("ServiceAccount", &["metadata", "automountServiceAccountToken"]).of(OF_MACHINE),
            Output::all("Role", &["metadata", "rules"]).of(OF_MACHINE),
            Output::all("RoleBinding", &["metadata", "roleRef", "subjects"]).of(OF_MACHINE),
            Output::all("Lease", &["metadata"]),
        ],
    },
    Controller {
        name: "controlplane",
        group: "control-plane",
        managers: &["capstan-controlplane"],
        reads: &[
            "Cluster",
            "MachineDeployment",
            "MachineDrainRule",
            "MachineReport",
            "Lease",
            "Host",
            "HostMachineTemplate",
            "workload cluster",
        ],
        writes: &[
            Output::all("CapstanControlPlane", &["metadata.annotations"]).shared(OF_TOPOLOGY),
            Output::all("CapstanControlPlane", &["status"]),
            Output::all("Machine", MACHINE).of(OF_CONTROL_PLANE),
            Output::all("Machine", &["status.conditions[UpToDate]"]).of(OF_CONTROL_PLANE),
            Output::all(
                "Machine",
                &["metadata.annotations[capstan.dev/healing]", "status.conditions[HealedInPlace]"],
            ),
            OWNER_REMEDIATED,
            Output::all("CapstanConfig", CLONED).of(OF_CONTROL_PLANE),
            Output::all("CapstanConfig", &["status.conditions[Planned]", "status.plan"]),
            Output::all("HostMachine", CLONED).of(OF_CONTROL_PLANE),
            Output::all("CapstanRemediation", &["status"]),
            Output::all(
                "Node of the workload cluster",
                &[
                    "metadata.labels",
                    "metadata.annotations[capstan.dev/labels-from-host]",
                    "metadata.annotations[capstan.dev/taints-from-host]",
                    "spec.taints",
                ],
            )
            .shared(OF_NODE),
            Output::all("Secret", &["metadata", "data", "type"])
                .of("plans, certificates, keys and the kubeconfig"),
        ],
    },
    Controller {
        name: "hooks",
        group: "hooks",
        managers: &["capstan-hooks"],
        reads: &["Machine", "MachineSet", "MachineDeployment", "CapstanConfig", "MachineReport"],
        writes: &[Output::all("ExtensionConfig", &["metadata", "spec"]).of("of Capstan's own hooks")],
    },
    Controller {
        name: "agent",
        group: "each machine",
        managers: &[],
        reads: &["Secret"],
        writes: &[
            Output::all("MachineReport", &["status"]),
            Output::all("Lease", &["spec"]),
            Output::all(
                "HostRegistration",
                &["spec.facts", "spec.nonce", "spec.proof", "spec.publicKey", "spec.token"],
            ),
            Output::all("HostRegistration", &["status.agentVersion", "status.answer", "status.connectedAt"]),
        ],
    },
];
