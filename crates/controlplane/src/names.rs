//! Names of this provider, and of annotations in its plan Secrets that other components read.

pub(crate) use capstan_api::controlplane::ROTATE_PLAN_KEY;
pub(crate) use capstan_controller::plans::{PLAN_SETUP, PLANNED, secret_name as plan_secret};
pub(crate) use capstan_planner::annotations::{CANCEL, RETRY};

/// Keeps a CapstanControlPlane until its machines are deleted.
pub(crate) const FINALIZER: &str = "capstan.controlplane.cluster.x-k8s.io";

/// On a CapstanControlPlane: the machine that initializes the cluster, as `name/machine-id`. Written by compare and
/// swap before that machine gets its plan.
pub(crate) const INIT_MACHINE: &str = "capstan.dev/init-machine";

/// On a CapstanControlPlane: the cluster is initialized, so its certificates and keys must never be created again.
/// Status has the same, but does not survive a move.
pub(crate) const INITIALIZED: &str = "capstan.dev/initialized";

/// On a CapstanControlPlane: the name of the machine that is being created. Written by compare and swap before any
/// object of that name, so that after a crash, or in a second manager, this machine is completed and no other one is
/// created.
pub(crate) const NEXT_MACHINE: &str = "capstan.dev/next-machine";

/// On a CapstanConfig of a control plane machine: the template of its infrastructure machine.
pub(crate) const INFRASTRUCTURE_TEMPLATE: &str = "capstan.dev/infrastructure-template";

/// On a CapstanControlPlane: the addresses inside the cluster, chosen together with the machine that initializes it.
pub(crate) const NETWORK: &str = "capstan.dev/cluster-network";

/// On a CapstanControlPlane: the last machine that was replaced because it was unhealthy, and how often that has happened.
pub(crate) const REMEDIATION: &str = "capstan.dev/remediation";

/// On a Machine: the progress of healing in place, as JSON.
pub(crate) const HEALING: &str = "capstan.dev/healing";

/// On a CapstanControlPlane: digests of the certificates and keys of the cluster, since it is initialized.
pub(crate) const KEY_DIGESTS: &str = "capstan.dev/key-digests";

/// On a control plane Machine: keeps its host until it has left etcd.
pub(crate) const LEAVE_ETCD_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capstan";

/// On a Node: the taint that keeps new pods off it.
pub(crate) const CORDONED: &str = "capstan.dev/cordoned";

/// On a Node: keys of labels that it has because of its Host.
pub(crate) const LABELS_FROM_HOST: &str = "capstan.dev/labels-from-host";

/// On a Node: keys and effects of taints that it has because of its Host.
pub(crate) const TAINTS_FROM_HOST: &str = "capstan.dev/taints-from-host";

/// On a plan Secret: the inputs of the next plan.
pub(crate) use capstan_planner::plans::RECORD_ANNOTATION as PLAN_RECORD;

/// On a plan Secret: since when the Node is being drained for it.
pub(crate) const DRAIN_SINCE: &str = "capstan.dev/drain-since";

/// On a plan Secret: the inputs of the plan.
pub(crate) const PLAN_INPUTS: &str = "capstan.dev/plan-inputs";

/// On a plan Secret: the part of the inputs whose change restarts Kubernetes.
pub(crate) const PLAN_RESTART: &str = "capstan.dev/plan-restart";

/// On a plan Secret: the renderer that made the plan. For people.
pub(crate) const PLAN_RENDERER: &str = "capstan.dev/plan-renderer";

/// On a kubeconfig Secret: when its client certificate expires, as RFC 3339.
pub(crate) const KUBECONFIG_EXPIRES: &str = "capstan.dev/client-certificate-expires";

/// On a kubeconfig Secret: the address in it.
pub(crate) const KUBECONFIG_SERVER: &str = "capstan.dev/server";

/// Condition of a Machine: it matches its control plane.
pub(crate) const UP_TO_DATE: &str = "UpToDate";

#[cfg(test)]
mod tests {
    use capstan_api::{keep, meta, runtime};
    use capstan_planner::annotations;

    /// The planner names them in messages, and must not depend on the API.
    #[test]
    fn annotations_are_spelled_as_in_the_api() {
        assert_eq!(annotations::HOLD, keep::HOLD);
        assert_eq!(annotations::DELETE_MACHINE, meta::annotations::DELETE_MACHINE);
        assert_eq!(annotations::REPLACE_POLICY, runtime::annotations::REPLACE_POLICY);
    }
}
