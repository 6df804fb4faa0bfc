//! Status and conditions of a HostMachine, from its host and the driver. Pure.

use capstan_api::conditions::{NewCondition, has, reasons as shared, set, types};
use capstan_api::infrastructure::{Host, HostMachine};
use capstan_api::wait::{Wait, causes};
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::driver::{BootstrapFailure, BootstrapState, DriverError, FollowState};
use crate::names::events;
use crate::names::hostmachine::{AGENT_FOLLOWS, BOOTSTRAP_EXECUTED, HOST_CLAIMED, reasons};
use crate::news::{News, first_line};
use crate::ready::sum_up;

/// Number of output lines that a message contains.
const MOST_LINES: usize = 10;
/// Length at which a line is cut.
const LONGEST_LINE: usize = 200;

/// Conditions that this controller owns.
pub(super) const OWNED: [&str; 6] =
    [types::READY, HOST_CLAIMED, BOOTSTRAP_EXECUTED, AGENT_FOLLOWS, types::DELETING, types::PAUSED];

/// Sets the conditions of a machine without a host.
pub(super) fn waiting(machine: &mut HostMachine, wait: &Wait, now: Timestamp) {
    set(machine, wait.condition(HOST_CLAIMED), now);
    if !is_provisioned(machine) {
        set(machine, Wait::new(&causes::WAITING_FOR_HOST, "").condition(BOOTSTRAP_EXECUTED), now);
    }
    sum_up(machine, &[HOST_CLAIMED, BOOTSTRAP_EXECUTED], now);
}

/// Sets the condition of the bootstrap data on the claimed host.
pub(super) fn started(
    machine: &mut HostMachine,
    host: &Host,
    state: &Result<BootstrapState, DriverError>,
    now: Timestamp,
) {
    set(machine, NewCondition::new(HOST_CLAIMED, true, reasons::CLAIMED), now);
    machine.status.get_or_insert_default().failure_domain.clone_from(&host.spec.failure_domain);
    let name = host.name_any();
    let wait = match state {
        Ok(BootstrapState::Done) => None,
        Ok(BootstrapState::Running) => {
            Some(Wait::new(&causes::BOOTSTRAPPING, format!("Host {name} carries out the bootstrap data")))
        }
        Ok(BootstrapState::Failed(failure)) => {
            Some(Wait::new(&causes::BOOTSTRAP_FAILED, describe(&name, failure)))
        }
        Err(error) => Some(unreachable(&name, error)),
    };
    let condition = match wait {
        Some(wait) => wait.condition(BOOTSTRAP_EXECUTED),
        None => NewCondition::new(BOOTSTRAP_EXECUTED, true, reasons::BOOTSTRAPPED),
    };
    set(machine, condition, now);
    sum_up(machine, &[HOST_CLAIMED, BOOTSTRAP_EXECUTED], now);
}

/// Sets the condition of unreadable bootstrap data.
pub(super) fn without_data(machine: &mut HostMachine, message: &str, now: Timestamp) {
    set(machine, NewCondition::new(HOST_CLAIMED, true, reasons::CLAIMED), now);
    let wait = Wait::new(&causes::WAITING_FOR_BOOTSTRAP_DATA, message);
    set(machine, wait.condition(BOOTSTRAP_EXECUTED), now);
    sum_up(machine, &[HOST_CLAIMED, BOOTSTRAP_EXECUTED], now);
}

/// Marks the machine as provisioned.
pub(super) fn provisioned(machine: &mut HostMachine) {
    let status = machine.status.get_or_insert_default();
    status.initialization.get_or_insert_default().provisioned = Some(true);
}

/// Copies the addresses of the host. If they are unknown, the last known ones are kept.
pub(super) fn addresses(machine: &mut HostMachine, host: &Host) {
    if let Some(known) =
        host.status.as_ref().map(|status| &status.addresses).filter(|known| !known.is_empty())
    {
        machine.status.get_or_insert_default().addresses.clone_from(known);
    }
}

/// Whether the machine was marked as provisioned. The mark is never removed.
pub(super) fn is_provisioned(machine: &HostMachine) -> bool {
    let status = machine.status.as_ref();
    status.and_then(|status| status.initialization.as_ref()).and_then(|init| init.provisioned) == Some(true)
}

/// Sets the condition `AgentFollows` from the response of the agent; `None` if no hand-over is necessary any more.
pub(super) fn follows(
    machine: &mut HostMachine,
    host: &Host,
    state: Option<&Result<FollowState, DriverError>>,
    now: Timestamp,
) {
    let follows = NewCondition::new(AGENT_FOLLOWS, true, reasons::FOLLOWS);
    let name = host.name_any();
    let condition = match state {
        None if has(machine, AGENT_FOLLOWS) => follows,
        None => return,
        Some(Ok(FollowState::Follows)) => follows.message(format!(
            "The agent on Host {name} obeys this management plane and is about to enrol with it"
        )),
        Some(Ok(FollowState::Refused(why))) => {
            let message =
                format!("The agent on Host {name} does not follow to this management plane: {}", cut(why));
            Wait::new(&causes::FOLLOWING_REFUSED, message).condition(AGENT_FOLLOWS)
        }
        Some(Err(error)) => unreachable(&name, error).condition(AGENT_FOLLOWS),
    };
    set(machine, condition, now);
}

/// Sets the condition of a deletion that waits.
pub(super) fn deleting(machine: &mut HostMachine, wait: &Wait, now: Timestamp) {
    set(machine, wait.condition(types::DELETING), now);
    set(machine, NewCondition::new(types::READY, false, shared::DELETING).message(&wait.message), now);
}

/// The Event of a machine whose host was recorded.
pub(super) fn recorded(host: &Host) -> News {
    News::normal(events::HOST_CLAIMED, format!("Host {} is claimed", host.name_any()))
}

/// The Events of a released host and of its machine. The quarantine of a host is a wait, which has its own Event.
pub(super) fn given_back(
    machine: &HostMachine,
    host: &Host,
    quarantine: Option<&str>,
) -> (Option<News>, News) {
    let (name, machine) = (host.name_any(), machine.name_any());
    match quarantine {
        None => (
            Some(News::normal(events::RELEASED, format!("HostMachine {machine} has given the host back"))),
            News::normal(events::HOST_RELEASED, format!("Host {name} is released")),
        ),
        Some(why) => {
            let message = format!("Host {name} is released into quarantine: {}", first_line(why));
            (None, News::warning(events::RESET_FAILED, message))
        }
    }
}

fn unreachable(host: &str, error: &DriverError) -> Wait {
    Wait::new(&causes::HOST_UNREACHABLE, format!("Host {host}: {error}"))
}

fn describe(host: &str, failure: &BootstrapFailure) -> String {
    let code = failure.exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
    let mut text = format!(
        "on Host {host} the bootstrap data failed{code} at: {}. It is not retried: fix the cause and delete the Machine",
        cut(&failure.step)
    );
    let skipped = failure.last_lines.len().saturating_sub(MOST_LINES);
    for line in failure.last_lines.iter().skip(skipped) {
        text.push_str("\n  ");
        text.push_str(&cut(line));
    }
    text
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
