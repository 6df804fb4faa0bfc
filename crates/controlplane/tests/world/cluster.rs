//! The workload cluster, played: who is a member of its etcd, and which of its Nodes take no pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Result, ensure};
use capstan_controller::drain::{Drain, Outcome};
use capstan_controller::error::{Error, Result as ControllerResult};
use capstan_controller::etcd::{Access, Etcd, Member, Members};
use capstan_controller::remote::LocalVolumes;
use capstan_controller::{Knowledge, Next};
use capstan_controlplane::{Marks, NodeView, NodesByName};
use futures::future::BoxFuture;

use capstan_testkit::crash::{CrashPoint, DEAD, WriteOutcome};

/// Cheap to clone: all see the same.
#[derive(Clone, Default)]
pub(crate) struct Workload {
    state: Arc<Mutex<State>>,
    /// Of the process that uses it, if that may die.
    crash_point: Option<CrashPoint>,
}

#[derive(Default)]
struct State {
    /// Members by the name of their Node.
    members: BTreeMap<String, Member>,
    leader: u64,
    next: u64,
    cordoned: BTreeSet<String>,
    /// Nodes whose host is gone for now.
    lost: BTreeSet<String>,
    /// Nodes whose server was stopped by a plan, and has not come back.
    stopped: BTreeSet<String>,
    /// Nodes whose member was taken out of etcd while its data stayed: etcd does not start there any more.
    expelled: BTreeSet<String>,
    /// Nodes, and how often their machine was started.
    nodes: BTreeMap<String, u64>,
    /// Nodes that are not Ready although everything runs, as with a broken network.
    broken: BTreeSet<String>,
    /// Labels and taints of Nodes because of their Hosts.
    marks: BTreeMap<String, Marks>,
    /// Volumes of users.
    volumes: LocalVolumes,
    /// Whether the manager does not reach the API server.
    is_cut_off: bool,
    /// Whether the manager does not reach etcd.
    is_etcd_cut_off: bool,
    /// For how many more turns the API server answers with a list that has no Node in it.
    empty: u32,
    /// How many more turns it takes until the manager has listed the Nodes.
    unlisted: u32,
    /// Whether pods take their time to leave.
    slow: bool,
    /// What must never have happened.
    faults: Vec<String>,
}

impl State {
    fn healthy(&self) -> usize {
        self.members.values().filter(|member| member.is_healthy).count()
    }

    /// Who is well, and who leads: somebody who is.
    fn update_health(&mut self) {
        for (node, member) in &mut self.members {
            member.is_healthy = !self.lost.contains(node) && !self.stopped.contains(node);
        }
        let well = || self.members.values().filter(|member| member.is_healthy);
        if !well().any(|member| member.id == self.leader)
            && let Some(heir) = well().map(|member| member.id).next()
        {
            self.leader = heir;
        }
    }

    /// Whether a Node is Ready, in truth.
    fn is_ready(&self, node: &str) -> bool {
        let is_ill = self.lost.contains(node) || self.stopped.contains(node) || self.broken.contains(node);
        self.nodes.contains_key(node) && !is_ill
    }

    /// Whether the manager knows the Nodes: it reaches the API server and has listed them.
    fn is_known(&self) -> bool {
        self.has_majority() && !self.is_cut_off && self.unlisted == 0
    }

    fn is_etcd_reached(&self) -> ControllerResult<()> {
        match self.is_etcd_cut_off {
            true => Err(Error::transient("cannot ask etcd", "no way there")),
            false => Ok(()),
        }
    }

    /// Whether anything can be written.
    fn has_majority(&self) -> bool {
        self.healthy() > self.members.len() / 2
    }
}

impl Workload {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The same, for a process that may die.
    pub(crate) fn seen_by(&self, crash_point: &CrashPoint) -> Self {
        Self { state: Arc::clone(&self.state), crash_point: Some(crash_point.clone()) }
    }

    /// The process changes something, if it lives.
    fn write<T>(&self, act: impl FnOnce(&mut State) -> ControllerResult<T>) -> ControllerResult<T> {
        let outcome = self.crash_point.as_ref().map_or(WriteOutcome::Answered, CrashPoint::write);
        let done = (outcome != WriteOutcome::Lost).then(|| act(&mut self.state()));
        match done {
            Some(done) if outcome == WriteOutcome::Answered => done,
            _ => Err(Error::transient("cannot reach the workload cluster", DEAD)),
        }
    }

    /// Pods take their time to leave from now on.
    pub(crate) fn be_slow(&self, slow: bool) {
        self.state().slow = slow;
    }

    /// A plan stops the server on a machine.
    pub(crate) fn stopped(&self, node: &str) {
        let mut state = self.state();
        state.stopped.insert(node.to_owned());
        state.update_health();
    }

    /// A server was started, as one that `begins` a cluster or as one that joins; unless it is a member. Says whether it
    /// came up: nobody is let in by those who are no majority.
    pub(crate) fn started(&self, node: &str, begins: bool) -> bool {
        let mut state = self.state();
        if state.expelled.contains(node) {
            return false;
        }
        state.stopped.remove(node);
        if !state.members.contains_key(node) {
            if !begins && !state.has_majority() {
                return false;
            }
            if begins && !state.members.is_empty() {
                let fault = format!("{node} began another cluster beside {:?}", state.members.keys());
                state.faults.push(fault);
            }
            state.next += 1;
            let id = state.next;
            let member = Member {
                id,
                name: format!("{node}-{id:08x}"),
                peer_urls: vec![format!("https://{node}:2380")],
                client_urls: vec![format!("https://{node}:2379")],
                is_learner: false,
                is_healthy: true,
            };
            state.members.insert(node.to_owned(), member);
        }
        state.update_health();
        true
    }

    /// Another manager has to list the Nodes, or the same one with another kubeconfig.
    pub(crate) fn forget_nodes(&self, turns: u32) {
        self.state().unlisted = turns;
    }

    /// A turn goes by.
    pub(crate) fn advance(&self) {
        let mut state = self.state();
        state.unlisted = state.unlisted.saturating_sub(1);
        state.empty = state.empty.saturating_sub(1);
    }

    /// The list of Nodes that the manager gets is empty.
    pub(crate) fn list_nothing(&self, turns: u32) {
        self.state().empty = turns;
    }

    /// The manager does not reach etcd, or does again.
    pub(crate) fn cut_off_etcd(&self, is_cut_off: bool) {
        self.state().is_etcd_cut_off = is_cut_off;
    }

    /// The manager does not reach the API server, or does again.
    pub(crate) fn cut_off(&self, is_cut_off: bool) {
        self.state().is_cut_off = is_cut_off;
    }

    /// A Node is not Ready although everything runs, or is again.
    pub(crate) fn break_node(&self, node: &str, broken: bool) {
        let mut state = self.state();
        match broken {
            true => state.broken.insert(node.to_owned()),
            false => state.broken.remove(node),
        };
    }

    /// Nodes that were broken.
    pub(crate) fn all_broken(&self) -> BTreeSet<String> {
        self.state().broken.clone()
    }

    /// The machine is started again, if it still is in this boot.
    pub(crate) fn reboot(&self, node: &str, leaves: &str) {
        let mut state = self.state();
        if let Some(boot) = state.nodes.get_mut(node)
            && format!("b007-{boot}") == leaves
        {
            *boot += 1;
        }
    }

    /// Whether each Node is Ready, in truth, whoever knows it.
    pub(crate) fn readiness(&self) -> BTreeMap<String, bool> {
        let state = self.state();
        state.nodes.keys().map(|node| (node.clone(), state.is_ready(node))).collect()
    }

    /// Whether the manager knows the Nodes.
    pub(crate) fn is_known(&self) -> bool {
        self.state().is_known()
    }

    /// Labels and taints of a Node because of its Host.
    pub(crate) fn marks(&self, node: &str) -> Marks {
        self.state().marks.get(node).cloned().unwrap_or_default()
    }

    /// Whether the manager's list of Nodes is empty although there are some.
    pub(crate) fn lists_nothing(&self) -> bool {
        self.state().empty > 0
    }

    /// A machine has become a Node, or still is one.
    pub(crate) fn has_node(&self, node: &str) {
        self.state().nodes.entry(node.to_owned()).or_insert(1);
    }

    /// The host of a server is lost, or found again.
    pub(crate) fn is_lost(&self, node: &str, lost: bool) {
        let mut state = self.state();
        match lost {
            true => state.lost.insert(node.to_owned()),
            false => state.lost.remove(node),
        };
        state.update_health();
    }

    /// Whether the others are a majority while a member is away.
    pub(crate) fn could_spare(&self, node: &str) -> bool {
        let state = self.state();
        let others = state.members.iter().filter(|(name, member)| *name != node && member.is_healthy).count();
        let counts = state.members.get(node).is_some_and(|member| member.is_healthy);
        !counts || state.members.len() == 1 || others > state.members.len() / 2
    }

    /// Whether all members are there.
    pub(crate) fn is_whole(&self) -> bool {
        let state = self.state();
        state.healthy() == state.members.len()
    }

    /// Servers that a plan has stopped.
    pub(crate) fn all_stopped(&self) -> BTreeSet<String> {
        self.state().stopped.clone()
    }

    /// Nodes that take no pods.
    pub(crate) fn all_cordoned(&self) -> BTreeSet<String> {
        self.state().cordoned.clone()
    }

    /// Whether the server on a machine runs.
    pub(crate) fn runs(&self, node: &str) -> bool {
        let state = self.state();
        state.members.contains_key(node) && !state.stopped.contains(node)
    }

    pub(crate) fn is_member(&self, node: &str) -> bool {
        self.state().members.contains_key(node)
    }

    /// Whether there is a cluster at all.
    pub(crate) fn is_there(&self) -> bool {
        !self.state().members.is_empty()
    }

    /// The machine is gone, with all that was on it.
    pub(crate) fn gone(&self, node: &str) {
        let mut state = self.state();
        state.members.remove(node);
        state.cordoned.remove(node);
        state.lost.remove(node);
        state.stopped.remove(node);
        state.expelled.remove(node);
        state.nodes.remove(node);
        state.broken.remove(node);
        state.volumes.remove(node);
        state.update_health();
    }

    /// What must never have happened has not.
    pub(crate) fn check(&self) -> Result<()> {
        let state = self.state();
        ensure!(state.faults.is_empty(), "{:?}", state.faults);
        Ok(())
    }

    /// The members, for people: `a+ b-` are one that is well and one that is not.
    pub(crate) fn summary(&self) -> String {
        let state = self.state();
        let mark = |member: &Member| if member.is_healthy { '+' } else { '-' };
        state.members.iter().map(|(node, member)| format!(" {node}{}", mark(member))).collect()
    }
}

fn no_majority() -> Error {
    Error::transient("cannot ask etcd", "there is no majority")
}

impl Etcd for Workload {
    fn members<'a>(&'a self, _: &'a Access) -> BoxFuture<'a, ControllerResult<Members>> {
        let state = self.state();
        let members: Vec<Member> = state.members.values().cloned().collect();
        let (leader, known) = (Some(state.leader), state.has_majority() && !state.is_etcd_cut_off);
        Box::pin(async move { if known { Ok(Members { members, leader }) } else { Err(no_majority()) } })
    }

    fn move_leader<'a>(
        &'a self,
        _: &'a Access,
        _: &'a Member,
        to: &'a Member,
    ) -> BoxFuture<'a, ControllerResult<()>> {
        let done = self.write(|state| {
            state.is_etcd_reached()?;
            state.leader = to.id;
            Ok(())
        });
        Box::pin(async { done })
    }

    fn remove<'a>(&'a self, _: &'a Access, member: &'a Member) -> BoxFuture<'a, ControllerResult<()>> {
        let done = self.write(|state| {
            state.is_etcd_reached()?;
            if state.leader == member.id {
                state.faults.push(format!("{} was removed while it led", member.name));
            }
            let expelled = state.members.extract_if(.., |_, other| other.id == member.id);
            let expelled: Vec<String> = expelled.map(|(node, _)| node).collect();
            state.expelled.extend(expelled);
            if !state.has_majority() {
                state.faults.push(format!("{} was removed, and what was left was no majority", member.name));
            }
            Ok(())
        });
        Box::pin(async { done })
    }
}

impl capstan_controlplane::Workload for Workload {
    async fn responds(&self, _: &str, _: &str) -> bool {
        let state = self.state();
        state.members.is_empty() || state.has_majority() && !state.is_cut_off
    }

    async fn nodes(&self, _: &str, _: &str) -> Knowledge<NodesByName> {
        let state = self.state();
        if !state.is_known() {
            return Knowledge::unknown("the workload cluster does not answer");
        }
        let view = |(name, boot): (&String, &u64)| {
            let node = NodeView {
                ready: state.is_ready(name),
                cordoned: state.cordoned.contains(name),
                boot_id: Some(format!("b007-{boot}")),
            };
            (name.clone(), node)
        };
        let listed = state.nodes.iter().filter(|_| state.empty == 0);
        Knowledge::Known(listed.map(view).collect())
    }

    async fn local_volumes(&self, _: &str, _: &str) -> Knowledge<LocalVolumes> {
        let state = self.state();
        match state.is_known() {
            true => Knowledge::Known(state.volumes.clone()),
            false => Knowledge::unknown("the workload cluster does not answer"),
        }
    }

    async fn drain(&self, _: &str, _: &str, drain: Drain<'_>) -> ControllerResult<Outcome> {
        self.write(|state| {
            if !state.has_majority() {
                return Err(no_majority());
            }
            let begins = state.cordoned.insert(drain.node.to_owned());
            Ok(match begins && state.slow {
                true => Outcome::Waiting { message: "a pod is left".to_owned(), next: Next::Changed },
                false => Outcome::Drained,
            })
        })
    }

    async fn uncordon(&self, _: &str, _: &str, node: &str) -> ControllerResult<()> {
        self.write(|state| {
            if !state.has_majority() {
                return Err(no_majority());
            }
            state.cordoned.remove(node);
            Ok(())
        })
    }

    async fn mark(&self, _: &str, _: &str, node: &str, marks: &Marks) -> ControllerResult<()> {
        if self.marks(node) == *marks {
            return Ok(());
        }
        self.write(|state| {
            if !state.has_majority() {
                return Err(no_majority());
            }
            state.marks.insert(node.to_owned(), marks.clone());
            Ok(())
        })
    }
}
