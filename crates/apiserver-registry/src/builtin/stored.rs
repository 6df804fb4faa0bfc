//! The registry rows of the kinds that are stored, except those for authentication and authorization.

use super::{
    BuiltIn,
    CellOf::{self, Computed, Path, Wide},
    ROW, access,
};
use crate::{
    kinds::{self, cells, flow_control},
    object,
};

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const EVENT_COLUMNS: &[(&str, &str, CellOf)] = &[
    ("Last Seen", "string", Computed(cells::event_last_seen)),
    ("Type", "string", Path(&["type"])),
    ("Reason", "string", Path(&["reason"])),
    ("Object", "string", Computed(cells::event_object)),
    ("Subobject", "string", Wide(cells::event_field)),
    ("Source", "string", Wide(cells::event_source)),
    ("Message", "string", Computed(cells::event_message)),
    ("First Seen", "string", Wide(cells::event_first_seen)),
    ("Count", "string", Wide(cells::event_count)),
    ("Name", "string", Wide(|event, _| object::name(event).into())),
];

const REGARDING_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// The rows.
pub(super) const TABLE: &[BuiltIn] = &[
    BuiltIn {
        resource: "namespaces",
        kind: "Namespace",
        schema: "io.k8s.api.core.v1.Namespace",
        short_names: &["ns"],
        namespaced: false,
        status: true,
        subresources: &[&kinds::FINALIZE],
        selectable: &["status.phase"],
        columns: &[("Status", "string", Path(&["status", "phase"]))],
        rules: &kinds::NAMESPACE,
        ..ROW
    },
    BuiltIn {
        resource: "secrets",
        kind: "Secret",
        schema: "io.k8s.api.core.v1.Secret",
        selectable: &["type"],
        columns: &[("Type", "string", Path(&["type"])), ("Data", "string", Computed(cells::data_count))],
        rules: &kinds::SECRET,
        ..ROW
    },
    BuiltIn {
        resource: "configmaps",
        kind: "ConfigMap",
        schema: "io.k8s.api.core.v1.ConfigMap",
        short_names: &["cm"],
        columns: &[("Data", "string", Computed(cells::data_count))],
        rules: &kinds::CONFIG_MAP,
        ..ROW
    },
    BuiltIn {
        resource: "events",
        kind: "Event",
        schema: "io.k8s.api.core.v1.Event",
        short_names: &["ev"],
        selectable: EVENT_FIELDS,
        columns: EVENT_COLUMNS,
        rules: &kinds::EVENT,
        ..ROW
    },
    BuiltIn {
        group: "events.k8s.io",
        resource: "events",
        kind: "Event",
        schema: "io.k8s.api.events.v1.Event",
        short_names: &["ev"],
        selectable: REGARDING_FIELDS,
        columns: EVENT_COLUMNS,
        rules: &kinds::EVENT,
        ..ROW
    },
    BuiltIn {
        resource: "serviceaccounts",
        kind: "ServiceAccount",
        schema: "io.k8s.api.core.v1.ServiceAccount",
        short_names: &["sa"],
        asked: &[("token", &access::TOKEN_REQUEST)],
        rules: &kinds::SERVICE_ACCOUNT,
        ..ROW
    },
    BuiltIn {
        resource: "nodes",
        kind: "Node",
        schema: "io.k8s.api.core.v1.Node",
        short_names: &["no"],
        namespaced: false,
        status: true,
        selectable: &["spec.unschedulable"],
        columns: &[
            ("Status", "string", Computed(cells::node_status)),
            ("Roles", "string", Computed(cells::node_roles)),
            ("Age", "string", Computed(cells::age)),
            ("Version", "string", Path(&["status", "nodeInfo", "kubeletVersion"])),
            ("Internal-IP", "string", Wide(|node, _| cells::node_address(node, "InternalIP"))),
            ("External-IP", "string", Wide(|node, _| cells::node_address(node, "ExternalIP"))),
            ("OS-Image", "string", Wide(|node, _| cells::node_info(node, "osImage"))),
            ("Kernel-Version", "string", Wide(cells::node_kernel)),
            (
                "Container-Runtime",
                "string",
                Wide(|node, _| cells::node_info(node, "containerRuntimeVersion")),
            ),
        ],
        rules: &kinds::NODE,
        ..ROW
    },
    BuiltIn {
        resource: "pods",
        kind: "Pod",
        schema: "io.k8s.api.core.v1.Pod",
        short_names: &["po"],
        categories: &["all"],
        status: true,
        selectable: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
        ],
        columns: &[
            ("Ready", "string", Computed(cells::pod_ready)),
            ("Status", "string", Computed(cells::pod_status)),
            ("Restarts", "string", Computed(cells::pod_restarts)),
            ("Age", "string", Computed(cells::age)),
            ("IP", "string", Wide(|pod, _| cells::text(pod, &["status", "podIP"]))),
            ("Node", "string", Wide(|pod, _| cells::text(pod, &["spec", "nodeName"]))),
            ("Nominated Node", "string", Wide(|pod, _| cells::text(pod, &["status", "nominatedNodeName"]))),
            ("Readiness Gates", "string", Wide(cells::readiness_gates)),
        ],
        rules: &kinds::POD,
        ..ROW
    },
    BuiltIn {
        resource: "services",
        kind: "Service",
        schema: "io.k8s.api.core.v1.Service",
        short_names: &["svc"],
        categories: &["all"],
        status: true,
        selectable: &["spec.clusterIP", "spec.type"],
        columns: &[
            ("Type", "string", Path(&["spec", "type"])),
            ("Cluster-IP", "string", Computed(|service, _| cells::text(service, &["spec", "clusterIP"]))),
            ("External-IP", "string", Computed(cells::service_external)),
            ("Port(s)", "string", Computed(cells::service_ports)),
            ("Age", "string", Computed(cells::age)),
            ("Selector", "string", Wide(|service, _| cells::labels(service, &["spec", "selector"]))),
        ],
        rules: &kinds::SERVICE,
        ..ROW
    },
    BuiltIn {
        resource: "endpoints",
        kind: "Endpoints",
        schema: "io.k8s.api.core.v1.Endpoints",
        short_names: &["ep"],
        rules: &kinds::CREATED_ON_UPDATE,
        ..ROW
    },
    BuiltIn {
        resource: "podtemplates",
        kind: "PodTemplate",
        schema: "io.k8s.api.core.v1.PodTemplate",
        columns: &[
            ("Containers", "string", Computed(|pods, _| cells::template_containers(pods, "name"))),
            ("Images", "string", Computed(|pods, _| cells::template_containers(pods, "image"))),
            (
                "Pod Labels",
                "string",
                Computed(|pods, _| cells::labels(pods, &["template", "metadata", "labels"])),
            ),
        ],
        rules: &kinds::POD_TEMPLATE,
        ..ROW
    },
    BuiltIn {
        resource: "replicationcontrollers",
        kind: "ReplicationController",
        schema: "io.k8s.api.core.v1.ReplicationController",
        short_names: &["rc"],
        categories: &["all"],
        status: true,
        scale: true,
        selectable: &["status.replicas"],
        columns: &[
            ("Desired", "integer", Path(&["spec", "replicas"])),
            ("Current", "integer", Computed(|it, _| cells::number(it, "replicas"))),
            ("Ready", "integer", Computed(|it, _| cells::number(it, "readyReplicas"))),
            ("Age", "string", Computed(cells::age)),
            ("Containers", "string", Wide(|it, _| cells::containers_of(it, "name"))),
            ("Images", "string", Wide(|it, _| cells::containers_of(it, "image"))),
            ("Selector", "string", Wide(|it, _| cells::labels(it, &["spec", "selector"]))),
        ],
        rules: &kinds::REPLICATION_CONTROLLER,
        ..ROW
    },
    BuiltIn {
        resource: "limitranges",
        kind: "LimitRange",
        schema: "io.k8s.api.core.v1.LimitRange",
        short_names: &["limits"],
        // A time, not an age.
        columns: &[("Created At", "date", Computed(cells::created_at))],
        rules: &kinds::LIMIT_RANGE,
        ..ROW
    },
    BuiltIn {
        resource: kinds::RESOURCE_QUOTAS,
        kind: "ResourceQuota",
        schema: "io.k8s.api.core.v1.ResourceQuota",
        short_names: &["quota"],
        status: true,
        columns: &[
            ("Request", "string", Computed(|it, _| cells::quota(it, false))),
            ("Limit", "string", Computed(|it, _| cells::quota(it, true))),
            ("Age", "string", Computed(cells::age)),
        ],
        rules: &kinds::RESOURCE_QUOTA,
        ..ROW
    },
    BuiltIn {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        kind: "EndpointSlice",
        schema: "io.k8s.api.discovery.v1.EndpointSlice",
        columns: &[
            ("AddressType", "string", Path(&["addressType"])),
            ("Ports", "string", Computed(cells::slice_ports)),
            ("Endpoints", "string", Computed(cells::slice_endpoints)),
            ("Age", "string", Computed(cells::age)),
        ],
        rules: &kinds::WITH_GENERATION,
        ..ROW
    },
    BuiltIn {
        group: "apiregistration.k8s.io",
        resource: "apiservices",
        kind: "APIService",
        schema: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
        columns: &[
            ("Service", "string", Computed(cells::api_service)),
            ("Available", "string", Computed(cells::api_service_available)),
            ("Age", "string", Computed(cells::age)),
        ],
        rules: &kinds::API_SERVICE,
        ..ROW
    },
    BuiltIn {
        group: "coordination.k8s.io",
        resource: "leases",
        kind: "Lease",
        schema: "io.k8s.api.coordination.v1.Lease",
        columns: &[(
            "Holder",
            "string",
            Computed(|lease, _| object::text(lease, &["spec", "holderIdentity"]).into()),
        )],
        rules: &kinds::LEASE,
        ..ROW
    },
    BuiltIn {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
        schema: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
        // A time, not an age.
        columns: &[("Created At", "string", Path(&["metadata", "creationTimestamp"]))],
        rules: &kinds::CUSTOM_RESOURCE_DEFINITION,
        ..ROW
    },
    BuiltIn {
        group: "admissionregistration.k8s.io",
        resource: "mutatingwebhookconfigurations",
        kind: "MutatingWebhookConfiguration",
        schema: "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
        categories: &["api-extensions"],
        namespaced: false,
        columns: &[("Webhooks", "integer", Computed(cells::webhooks))],
        rules: &kinds::WEBHOOK_CONFIGURATION,
        ..ROW
    },
    BuiltIn {
        group: "admissionregistration.k8s.io",
        resource: "validatingwebhookconfigurations",
        kind: "ValidatingWebhookConfiguration",
        schema: "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
        categories: &["api-extensions"],
        namespaced: false,
        columns: &[("Webhooks", "integer", Computed(cells::webhooks))],
        rules: &kinds::WEBHOOK_CONFIGURATION,
        ..ROW
    },
    BuiltIn {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicies",
        kind: "ValidatingAdmissionPolicy",
        schema: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
        columns: &[
            ("Validations", "integer", Computed(cells::validations)),
            ("ParamKind", "string", Computed(cells::param_kind)),
            ("Age", "string", Computed(cells::age)),
        ],
        rules: &kinds::VALIDATING_ADMISSION_POLICY,
        ..ROW
    },
    BuiltIn {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicybindings",
        kind: "ValidatingAdmissionPolicyBinding",
        schema: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
        categories: &["api-extensions"],
        namespaced: false,
        columns: &[
            ("PolicyName", "string", Path(&["spec", "policyName"])),
            ("ParamRef", "string", Computed(cells::param_ref)),
            ("Age", "string", Computed(cells::age)),
        ],
        rules: &kinds::VALIDATING_ADMISSION_POLICY_BINDING,
        ..ROW
    },
    BuiltIn {
        group: "admissionregistration.k8s.io",
        resource: "mutatingadmissionpolicies",
        kind: "MutatingAdmissionPolicy",
        schema: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
        categories: &["api-extensions"],
        namespaced: false,
        columns: &[
            ("Mutations", "integer", Computed(cells::mutations)),
            ("ParamKind", "string", Computed(cells::param_kind)),
            ("Age", "string", Computed(cells::age)),
        ],
        rules: &kinds::MUTATING_ADMISSION_POLICY,
        ..ROW
    },
    BuiltIn {
        group: "admissionregistration.k8s.io",
        resource: "mutatingadmissionpolicybindings",
        kind: "MutatingAdmissionPolicyBinding",
        schema: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
        categories: &["api-extensions"],
        namespaced: false,
        columns: &[
            ("PolicyName", "string", Path(&["spec", "policyName"])),
            ("ParamRef", "string", Computed(cells::param_ref)),
            ("Age", "string", Computed(cells::age)),
        ],
        rules: &kinds::MUTATING_ADMISSION_POLICY_BINDING,
        ..ROW
    },
    BuiltIn {
        group: "apps",
        resource: "deployments",
        kind: "Deployment",
        schema: "io.k8s.api.apps.v1.Deployment",
        short_names: &["deploy"],
        categories: &["all"],
        status: true,
        scale: true,
        columns: &[
            ("Ready", "string", Computed(cells::deployment_ready)),
            ("Up-to-date", "string", Computed(|it, _| cells::number(it, "updatedReplicas"))),
            ("Available", "string", Computed(|it, _| cells::number(it, "availableReplicas"))),
            ("Age", "string", Computed(cells::age)),
            ("Containers", "string", Wide(|it, _| cells::containers_of(it, "name"))),
            ("Images", "string", Wide(|it, _| cells::containers_of(it, "image"))),
            ("Selector", "string", Wide(cells::workload_selector)),
        ],
        rules: &kinds::DEPLOYMENT,
        ..ROW
    },
    BuiltIn {
        group: "apps",
        resource: "daemonsets",
        kind: "DaemonSet",
        schema: "io.k8s.api.apps.v1.DaemonSet",
        short_names: &["ds"],
        categories: &["all"],
        status: true,
        columns: &[
            ("Desired", "integer", Computed(|it, _| cells::number(it, "desiredNumberScheduled"))),
            ("Current", "integer", Computed(|it, _| cells::number(it, "currentNumberScheduled"))),
            ("Ready", "integer", Computed(|it, _| cells::number(it, "numberReady"))),
            ("Up-to-date", "integer", Computed(|it, _| cells::number(it, "updatedNumberScheduled"))),
            ("Available", "integer", Computed(|it, _| cells::number(it, "numberAvailable"))),
            (
                "Node Selector",
                "string",
                Computed(|it, _| cells::labels(it, &["spec", "template", "spec", "nodeSelector"])),
            ),
            ("Age", "string", Computed(cells::age)),
            ("Containers", "string", Wide(|it, _| cells::containers_of(it, "name"))),
            ("Images", "string", Wide(|it, _| cells::containers_of(it, "image"))),
            ("Selector", "string", Wide(cells::workload_selector)),
        ],
        rules: &kinds::DAEMON_SET,
        ..ROW
    },
    BuiltIn {
        group: "apps",
        resource: "replicasets",
        kind: "ReplicaSet",
        schema: "io.k8s.api.apps.v1.ReplicaSet",
        short_names: &["rs"],
        categories: &["all"],
        status: true,
        scale: true,
        columns: &[
            ("Desired", "integer", Path(&["spec", "replicas"])),
            ("Current", "integer", Computed(|it, _| cells::number(it, "replicas"))),
            ("Ready", "integer", Computed(|it, _| cells::number(it, "readyReplicas"))),
            ("Age", "string", Computed(cells::age)),
            ("Containers", "string", Wide(|it, _| cells::containers_of(it, "name"))),
            ("Images", "string", Wide(|it, _| cells::containers_of(it, "image"))),
            ("Selector", "string", Wide(cells::workload_selector)),
        ],
        rules: &kinds::REPLICA_SET,
        ..ROW
    },
    BuiltIn {
        group: "policy",
        resource: "poddisruptionbudgets",
        kind: "PodDisruptionBudget",
        schema: "io.k8s.api.policy.v1.PodDisruptionBudget",
        short_names: &["pdb"],
        status: true,
        columns: &[
            ("Min Available", "string", Computed(|it, _| cells::budget(it, "minAvailable"))),
            ("Max Unavailable", "string", Computed(|it, _| cells::budget(it, "maxUnavailable"))),
            ("Allowed Disruptions", "integer", Computed(|it, _| cells::number(it, "disruptionsAllowed"))),
        ],
        rules: &kinds::WITH_GENERATION,
        ..ROW
    },
    BuiltIn {
        group: "storage.k8s.io",
        resource: "volumeattachments",
        kind: "VolumeAttachment",
        schema: "io.k8s.api.storage.v1.VolumeAttachment",
        namespaced: false,
        status: true,
        columns: &[
            ("Attacher", "string", Path(&["spec", "attacher"])),
            ("PV", "string", Path(&["spec", "source", "persistentVolumeName"])),
            ("Node", "string", Path(&["spec", "nodeName"])),
            ("Attached", "boolean", Path(&["status", "attached"])),
        ],
        ..ROW
    },
    BuiltIn {
        group: "batch",
        resource: "jobs",
        kind: "Job",
        schema: "io.k8s.api.batch.v1.Job",
        categories: &["all"],
        status: true,
        selectable: &["status.successful"],
        columns: &[
            ("Status", "string", Computed(cells::job_status)),
            ("Completions", "string", Computed(cells::job_completions)),
            ("Duration", "string", Computed(cells::job_duration)),
            ("Age", "string", Computed(cells::age)),
            ("Containers", "string", Wide(|it, _| cells::containers_of(it, "name"))),
            ("Images", "string", Wide(|it, _| cells::containers_of(it, "image"))),
            ("Selector", "string", Wide(cells::workload_selector)),
        ],
        rules: &kinds::JOB,
        ..ROW
    },
    BuiltIn {
        group: "batch",
        resource: "cronjobs",
        kind: "CronJob",
        schema: "io.k8s.api.batch.v1.CronJob",
        short_names: &["cj"],
        categories: &["all"],
        status: true,
        columns: &[
            ("Schedule", "string", Path(&["spec", "schedule"])),
            ("Timezone", "string", Computed(|it, _| cells::text(it, &["spec", "timeZone"]))),
            ("Suspend", "boolean", Computed(cells::cron_job_suspended)),
            ("Active", "integer", Computed(cells::cron_job_active)),
            ("Last Schedule", "string", Computed(cells::cron_job_last)),
            ("Age", "string", Computed(cells::age)),
            ("Containers", "string", Wide(|it, _| cells::cron_job_containers(it, "name"))),
            ("Images", "string", Wide(|it, _| cells::cron_job_containers(it, "image"))),
            // A template has none: each Job has its own.
            ("Selector", "string", Wide(|_, _| "<none>".into())),
        ],
        rules: &kinds::CRON_JOB,
        ..ROW
    },
    BuiltIn {
        group: flow_control::GROUP,
        resource: flow_control::FLOW_SCHEMAS,
        kind: "FlowSchema",
        schema: "io.k8s.api.flowcontrol.v1.FlowSchema",
        namespaced: false,
        status: true,
        columns: &[
            ("PriorityLevel", "string", Path(&["spec", "priorityLevelConfiguration", "name"])),
            // A number, as upstream's.
            (
                "MatchingPrecedence",
                "string",
                Computed(|it, _| {
                    object::at(it, &["spec", "matchingPrecedence"]).cloned().unwrap_or_default()
                }),
            ),
            (
                "DistinguisherMethod",
                "string",
                Computed(|it, _| cells::text(it, &["spec", "distinguisherMethod", "type"])),
            ),
            ("Age", "string", Computed(cells::age)),
            ("MissingPL", "string", Computed(cells::flow_schema_dangling)),
        ],
        rules: &kinds::FLOW_SCHEMA,
        ..ROW
    },
    BuiltIn {
        group: flow_control::GROUP,
        resource: flow_control::PRIORITY_LEVELS,
        kind: "PriorityLevelConfiguration",
        schema: "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
        namespaced: false,
        status: true,
        columns: &[
            ("Type", "string", Path(&["spec", "type"])),
            (
                "NominalConcurrencyShares",
                "string",
                Computed(|it, _| cells::limited(it, &["nominalConcurrencyShares"])),
            ),
            ("Queues", "string", Computed(|it, _| cells::queuing(it, "queues"))),
            ("HandSize", "string", Computed(|it, _| cells::queuing(it, "handSize"))),
            ("QueueLengthLimit", "string", Computed(|it, _| cells::queuing(it, "queueLengthLimit"))),
            ("Age", "string", Computed(cells::age)),
        ],
        rules: &kinds::PRIORITY_LEVEL,
        ..ROW
    },
    BuiltIn {
        group: "autoscaling",
        version: "v2",
        resource: "horizontalpodautoscalers",
        kind: "HorizontalPodAutoscaler",
        schema: "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
        older: &[("v1", "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler")],
        short_names: &["hpa"],
        categories: &["all"],
        status: true,
        columns: &[
            ("Reference", "string", Computed(cells::autoscaler_reference)),
            ("Targets", "string", Computed(cells::autoscaler_targets)),
            ("MinPods", "string", Computed(cells::autoscaler_least)),
            ("MaxPods", "string", Computed(cells::autoscaler_most)),
            ("Replicas", "string", Computed(|it, _| cells::number(it, "currentReplicas"))),
        ],
        rules: &kinds::AUTOSCALER,
        ..ROW
    },
    BuiltIn {
        group: "networking.k8s.io",
        resource: "ingresses",
        kind: "Ingress",
        schema: "io.k8s.api.networking.v1.Ingress",
        short_names: &["ing"],
        status: true,
        columns: &[
            ("Class", "string", Computed(cells::ingress_class)),
            ("Hosts", "string", Computed(cells::ingress_hosts)),
            ("Address", "string", Computed(cells::ingress_address)),
            ("Ports", "string", Computed(cells::ingress_ports)),
        ],
        rules: &kinds::INGRESS,
        ..ROW
    },
    BuiltIn {
        group: "node.k8s.io",
        resource: "runtimeclasses",
        kind: "RuntimeClass",
        schema: "io.k8s.api.node.v1.RuntimeClass",
        namespaced: false,
        columns: &[("Handler", "string", Path(&["handler"]))],
        rules: &kinds::RUNTIME_CLASS,
        ..ROW
    },
    BuiltIn {
        group: "scheduling.k8s.io",
        resource: "priorityclasses",
        kind: "PriorityClass",
        schema: "io.k8s.api.scheduling.v1.PriorityClass",
        short_names: &["pc"],
        namespaced: false,
        columns: &[
            ("Value", "integer", Path(&["value"])),
            ("Global-Default", "boolean", Computed(cells::global_default)),
            ("Age", "string", Computed(cells::age)),
            ("PreemptionPolicy", "string", Path(&["preemptionPolicy"])),
        ],
        rules: &kinds::PRIORITY_CLASS,
        ..ROW
    },
    BuiltIn {
        group: "storage.k8s.io",
        resource: "csinodes",
        kind: "CSINode",
        schema: "io.k8s.api.storage.v1.CSINode",
        namespaced: false,
        columns: &[("Drivers", "integer", Computed(cells::csi_drivers))],
        rules: &kinds::CSI_NODE,
        ..ROW
    },
];
