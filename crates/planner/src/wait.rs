//! What machines and control planes wait for, in the words of conditions.

use capstan_plan::Capabilities;

use crate::annotations::HOLD;

/// Why a step must wait, for users.
pub type Wait = String;

/// The control plane waits for the infrastructure provider.
pub fn endpoint() -> Wait {
    "waits for Cluster spec.controlPlaneEndpoint".to_owned()
}

/// The plan waits until a MachineSet has written the complete desired state of the Machine.
pub fn machine_set() -> Wait {
    "waits for its MachineSet to write what it should become".to_owned()
}

/// The gate waits for the drain.
pub fn drain() -> Wait {
    "pods are being moved away".to_owned()
}

/// The plan waits for the first report of the machine, which contains the operating system.
pub fn about() -> Wait {
    "waits for the machine to say what it is".to_owned()
}

/// The plan waits for the first report of the machine, which contains the architecture.
pub fn architecture() -> Wait {
    "waits for the machine to say its architecture".to_owned()
}

/// The plan waits for the first report of the agent, which names its capabilities.
pub(crate) fn capabilities() -> Wait {
    "waits for the agent to report what it supports".to_owned()
}

/// The agent would reject the plan.
pub(crate) fn agent(agent: &str, lacking: &Capabilities) -> Wait {
    format!("{agent} does not support {lacking}, which the plan needs: upgrade the agent")
}

/// The configuration of the machine depends on its Host, which is not known.
pub fn host(host: &str, why: &str) -> Wait {
    format!(
        "waits until Host {host} can be read, because the configuration of the machine depends on it: {why}"
    )
}

/// The user has excluded the Machine.
pub fn kept_out() -> Wait {
    format!("nothing is changed on the Machine, because it has the annotation {HOLD}")
}

/// Machines may be drained and restarted in maintenance windows only, and none is open.
pub(crate) fn window(opens: jiff::Timestamp, closed: &[&str]) -> Wait {
    let verb = if closed.len() == 1 { "is" } else { "are" };
    let (opens, closed) = (crate::text::rfc3339(opens), closed.join(" and "));
    format!("waits for its maintenance window, which opens at {opens}; now {closed} {verb} closed")
}

/// The windows of these fields are not open at the same time.
pub(crate) fn windows_apart(fields: &[&str]) -> Wait {
    let fields = fields.join(" and ");
    format!(
        "waits for maintenance windows that are not open at the same time in the next two weeks: change {fields} so that they \
         overlap"
    )
}

/// The maintenance windows cannot be read.
pub(crate) fn readable_windows(why: &str) -> Wait {
    format!("waits until its maintenance windows can be read: {why}")
}

/// Another machine must carry out its plan first.
pub(crate) fn plan_of(machine: &str) -> Wait {
    format!("waits for Machine {machine} to carry out its plan")
}

/// Another machine must be up first.
pub(crate) fn up(machine: &str) -> Wait {
    format!("waits for Machine {machine} to be up")
}

/// A Node must be Ready first.
pub(crate) fn ready(node: &str) -> Wait {
    format!("waits for Node {node} to be Ready")
}

/// It must be known first whether a Node is Ready.
pub(crate) fn node_known(node: &str, why: &str) -> Wait {
    format!("waits to know whether Node {node} is Ready: {why}")
}
