//! Causes of waits of Capstan's own controllers. The reasons are part of the API: they are added, but never changed or
//! removed. The doc comments are printed in `docs/reference/waits.md`.

use super::{Cause, Owner};
use crate::keep::{HEALED_IN_PLACE, healing};

macro_rules! causes {
    ($($(#[doc = $doc:literal])* $name:ident = $cause:expr;)*) => {
        $($(#[doc = $doc])* pub const $name: Cause = $cause;)*

        /// All of them.
        pub const ALL: &[Cause] = &[$($name),*];

        /// What each of [`ALL`] means, for people.
        pub(super) const MEANINGS: &[&str] = &[$(concat!($($doc),*)),*];
    };
}

causes! {
    /// The object or its Cluster is paused.
    PAUSED = Cause::person("Paused", "remove spec.paused of the Cluster, or the annotation cluster.x-k8s.io/paused of the object");
    /// The spec asks for something that Capstan rejects.
    REFUSED = Cause::person("Refused", "change the field that the message names");
    /// The manager lacks a right.
    FORBIDDEN = Cause::person("Forbidden", "give the manager the right that the message names");
    /// An object of another owner has the name that an object of this machine must have.
    OBJECT_IN_THE_WAY = Cause::person("ObjectInTheWay", "delete or rename the object that the message names");

    /// No host can be claimed now.
    NO_HOST_AVAILABLE = Cause::person("NoHostAvailable", "add a host, or free one (capstan host list)");
    /// The host that `spec.hostName` names cannot be claimed.
    HOST_NOT_AVAILABLE = Cause::person("HostNotAvailable", "free the host that spec.hostName asks for");
    /// A host selector cannot be parsed.
    INVALID_HOST_SELECTOR = Cause::person("InvalidHostSelector", "correct spec.hostSelector");
    /// The claimed host does not respond.
    HOST_UNREACHABLE = Cause::person("HostUnreachable", "check power and network of the host (capstan host check)");
    /// The claimed host no longer exists, or no longer carries the claim.
    HOST_LOST = Cause::person("HostLost", "bring the host back, or delete the Machine");
    /// The bootstrap data failed on the host.
    BOOTSTRAP_FAILED =
        Cause::person("BootstrapFailed", "correct the cause on the host and delete the Machine");
    /// Another management plane has taken the machine over.
    FOLLOWING_REFUSED = Cause::person("FollowingRefused", "release the machine on one of the two management planes");
    /// The host was not clean after its reset.
    HOST_QUARANTINED = Cause::person("HostQuarantined", "clean the host, then end its quarantine");
    /// The HostMachine has no owner Machine yet.
    WAITING_FOR_MACHINE_OWNER = Cause::new("WaitingForMachineOwner", Owner::Core);
    /// A host is being claimed.
    CLAIMING = Cause::new("Claiming", Owner::Infrastructure);
    /// No host is claimed yet, so there is nothing to start.
    WAITING_FOR_HOST = Cause::new("WaitingForHost", Owner::Infrastructure);
    /// The bootstrap data is running on the host.
    BOOTSTRAPPING = Cause::new("Bootstrapping", Owner::Machine);
    /// The host is being reset.
    RESETTING_HOST = Cause::new("ResettingHost", Owner::Agent);
    /// A machine's provider waits for bootstrap data.
    WAITING_FOR_BOOTSTRAP_DATA = Cause::new("WaitingForBootstrapData", Owner::Bootstrap);
    /// A machine's provider waits for the infrastructure of the cluster.
    WAITING_FOR_CLUSTER_INFRASTRUCTURE =
        Cause::new("WaitingForClusterInfrastructureReady", Owner::Infrastructure);
    /// A machine's provider waits for the first control plane machine.
    WAITING_FOR_CONTROL_PLANE = Cause::new("WaitingForControlPlaneInitialized", Owner::ControlPlane);

    /// A person must set `spec.controlPlaneEndpoint`.
    ENDPOINT_NOT_SET = Cause::person("ControlPlaneEndpointNotSet", "set spec.controlPlaneEndpoint");
    /// There is no host the cluster may claim.
    NO_HOSTS = Cause::person("NoHosts", "add a host (capstan host add), or a HostPool");
    /// The control plane or its HostMachineTemplate cannot be read.
    CONTROL_PLANE_HOSTS_UNKNOWN = Cause::new("ControlPlaneHostsUnknown", Owner::ControlPlane);
    /// Deletion waits for HostMachines.
    WAITING_FOR_HOST_MACHINES = Cause::new("WaitingForHostMachinesDeletion", Owner::Core);
    /// The HostCluster has no owner Cluster yet.
    WAITING_FOR_CLUSTER_OWNER = Cause::new("WaitingForClusterOwner", Owner::Core);

    /// The host does not respond.
    UNREACHABLE = Cause::person("Unreachable", "check power and network of the host (capstan host check)");
    /// This version of Capstan does not support hosts of this type.
    NOT_SUPPORTED = Cause::person("NotSupported", "choose another type of host");
    /// The host presents a key that is not pinned.
    HOST_KEY_MISMATCH = Cause::person("HostKeyMismatch", "find out why the host has another key, then pin it");
    /// No key of the host is pinned, or the pinned key cannot be parsed.
    HOST_KEY_NOT_PINNED = Cause::person("HostKeyNotPinned", "pin the key of the host (capstan host add)");
    /// The Secret with the credential does not exist, or has no usable key.
    CREDENTIALS_MISSING = Cause::person("CredentialsMissing", "create the Secret that the message names");
    /// The host rejects the credential.
    CREDENTIALS_REFUSED = Cause::person("CredentialsRefused", "add the public key to authorized_keys on the host, or correct the Secret");
    /// The user that logs in cannot become root.
    NOT_ROOT = Cause::person("NotRoot", "allow the user to use sudo without a password");
    /// A machine that dials out has registered, and a person must approve it.
    WAITING_FOR_APPROVAL = Cause::person("WaitingForApproval", "approve the machine (capstan host approve), or deny it (capstan host deny)");
    /// The registration of a machine is not valid, for example because its join token has expired.
    REGISTRATION_REFUSED = Cause::person("RegistrationRefused", "register the machine again with another join token (capstan host token)");
    /// The HostRegistration of the host does not exist on this management plane, or belongs to another host or machine.
    REGISTRATION_MISSING = Cause::person(
        "RegistrationMissing",
        "register the machine again (capstan host token), and approve it for the host (capstan host approve --host)",
    );
    /// A machine would not work on the host.
    NOT_USABLE = Cause::person("NotUsable", "correct what the message names (capstan host check)");
    /// A person must clean or repair the host.
    QUARANTINED = Cause::person("Quarantined", "clean the host, then end its quarantine");
    /// The Machine that has claimed the host does not exist.
    CLAIM_ORPHANED = Cause::person("ClaimOrphaned", "release the host (capstan host abandon)");
    /// A person has abandoned the host while a machine was on it.
    ABANDONED = Cause::person("Abandoned", "clean the host, then end its quarantine");
    /// Files or processes of the machine are left on the host.
    LEFT_DIRTY = Cause::person("LeftDirty", "clean the host, then end its quarantine");
    /// The machine that has claimed the host is being deleted, and the host is not reset yet.
    RELEASING = Cause::new("Releasing", Owner::Infrastructure);
    /// Deletion waits until the machine that has claimed the host releases it.
    WAITING_FOR_RELEASE = Cause::new("WaitingForRelease", Owner::Infrastructure);

    /// Hosts are being created or deleted.
    SCALING = Cause::new("Scaling", Owner::Infrastructure);
    /// Machines of a pool cannot be created, started or deleted.
    MACHINES_FAILED = Cause::person("MachinesFailed", "correct what the message names");
    /// A Host of that name exists and does not belong to the pool.
    NAME_TAKEN = Cause::person("NameTaken", "rename the pool, or delete the Host");

    /// No Machine owns the CapstanConfig yet.
    WAITING_FOR_MACHINE = Cause::new("WaitingForMachine", Owner::Core);
    /// The agent has not enrolled yet.
    WAITING_FOR_AGENT = Cause::new("WaitingForMachine", Owner::Agent).on("AgentEnrolled");
    /// The agent follows another management plane, or an earlier address of this one. It is being handed over.
    WAITING_FOR_MACHINE_TO_FOLLOW = Cause::new("WaitingForMachineToFollow", Owner::Infrastructure);
    /// The agent has missed its heartbeats.
    AGENT_SILENT = Cause::person(
        "AgentSilent",
        "check power and network of the machine, and run `capstan-agent explain` on it",
    );
    /// The agent cannot work, for example because the disk is full.
    AGENT_PROBLEM = Cause::person("AgentProblem", "remove the cause on the machine, and the agent continues by itself");
    /// The program of the agent in the plan does not work on the machine. The previous one runs.
    AGENT_UPGRADE_FAILED = Cause::person(
        "AgentUpgradeFailed",
        "see `journalctl --unit capstan-agent` on the machine; offer a version of the agent that works (capstan artifacts add)",
    );
    /// The agent cannot fetch or check the program in its plan now. It tries again every five minutes.
    AGENT_UPGRADE_WAITS = Cause::new("AgentUpgradeWaits", Owner::Agent);
    /// No other machine of the cluster gets the agent that is offered: it does not work on a machine, or machines fell silent while they
    /// replaced theirs.
    AGENT_ROLLOUT_STOPPED = Cause::person(
        "AgentRolloutStopped",
        "bring the silent machines back, or delete them; if the agent was rejected, see the condition AgentUpgraded of the Machine and \
         offer a version that works (capstan artifacts add)",
    );
    /// The machines of the cluster replace their agents, a few at a time.
    UPGRADING_AGENTS = Cause::new("UpgradingAgents", Owner::Agent);
    /// Health probes of the machine fail.
    PROBE_FAILED = Cause::person(
        "ProbeFailed",
        "look at what the message names on the machine, and at the output of `capstan logs`",
    );
    /// Files or units of the plan were changed on the machine, and the agent has not repaired that.
    MACHINE_DRIFTED = Cause::person(
        "Drifted",
        "find out what changes them on the machine; the agent repairs what the message does not exclude",
    );
    /// The machine has requested a credential that is not issued yet.
    WAITING_FOR_CREDENTIAL = Cause::new("WaitingForCredential", Owner::Bootstrap);
    /// The machine has requested a credential that it may not have.
    REQUEST_REFUSED = Cause::person("RequestRefused", "do what the message says, so that the machine can request it again");
    /// The enrolment token has expired before the machine enrolled.
    TOKEN_EXPIRED =
        Cause::person("TokenExpired", "run the bootstrap data on the machine again, or delete the Machine");
    /// There is no key to sign plans with, or it belongs to another management plane.
    WAITING_FOR_PLAN_KEY = Cause::new("WaitingForPlanKey", Owner::ControlPlane);
    /// Agents of an earlier version do not report the key they trust, and cannot follow to another one.
    AGENTS_CANNOT_FOLLOW =
        Cause::person("AgentsCannotFollow", "replace the machines that the message names, or keep the key");
    /// The key that signs plans is being replaced.
    REPLACING_PLAN_KEY = Cause::new("ReplacingPlanKey", Owner::ControlPlane);
    /// Some machines do not trust the new key for plans yet.
    MACHINES_FOLLOW_TO_KEY = Cause::new("MachinesFollowToKey", Owner::Agent);
    /// Objects of a former machine of the same name are still being deleted.
    WAITING_FOR_FORMER_MACHINE = Cause::new("WaitingForFormerMachine", Owner::Core);
    /// The Secret with the bootstrap data was deleted after the machine may have started with it.
    DATA_SECRET_DELETED =
        Cause::person("DataSecretDeleted", "delete the Machine to get another one");

    /// Healing in place waits for its turn, or for the time of its next step.
    HEALING = Cause::new(healing::WAITING, Owner::ControlPlane).on(HEALED_IN_PLACE);
    /// Kubernetes on the machine is being restarted.
    RESTARTING = Cause::new(healing::RESTARTING, Owner::Agent);
    /// All steps of the plan are being run again.
    REAPPLYING = Cause::new(healing::REAPPLYING, Owner::Agent);
    /// The machine is being rebooted.
    REBOOTING = Cause::new(healing::REBOOTING, Owner::Agent);
    /// The agent of the machine is silent, so no step of healing can run on the machine.
    SILENT = Cause::person(
        healing::SILENT,
        "power the machine on, or restore its network connection to the management plane"
    );
    /// All steps of healing have failed.
    EXHAUSTED =
        Cause::person(healing::EXHAUSTED, "look at the machine; allow its replacement, or delete the Machine");

    /// The plan waits for its turn, or for what the message names.
    PLAN_WAITS = Cause::new("Waiting", Owner::ControlPlane).on("Planned");
    /// The agent of the machine would reject the plan: it is of an earlier version and lacks what the message names.
    AGENT_TOO_OLD = Cause::person(
        "AgentTooOld",
        "install the agent of this version as /opt/capstan/capstan-agent on the machine, and run `systemctl restart capstan-agent`",
    )
    .on("Planned");
    /// The plan has failed on the machine. It is tried again if there is a time for it.
    PLAN_FAILED = Cause::person("Failed", "look at the output of the step (capstan why machine/NAME)").on("Planned");
}
