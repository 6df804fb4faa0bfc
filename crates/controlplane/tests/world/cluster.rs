//! The workload cluster, played: who is a member of its etcd, and which of its Nodes take no pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Result, ensure};
use capstan_controller::drain::{Drain, Outcome};
use capstan_controller::error::{Error, Result as ControllerResult};
use capstan_controller::etcd::{Access, Etcd, Member, Members};
use futures::future::BoxFuture;

/// Cheap to clone: all see the same.
#[derive(Clone, Default)]
pub(crate) struct Workload(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Members by the name of their Node.
    members: BTreeMap<String, Member>,
    leader: u64,
    next: u64,
    cordoned: BTreeSet<String>,
    /// What must never have happened.
    faults: Vec<String>,
}

impl Workload {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A server was started: it joins, unless it is a member.
    pub(crate) fn restarted(&self, node: &str) -> Result<()> {
        let mut state = self.state();
        let others = state.members.keys().filter(|other| *other != node).count();
        if state.members.contains_key(node) {
            ensure!(others != 1, "{node} was restarted, and the other member was no majority meanwhile");
            return Ok(());
        }
        state.next += 1;
        let id = state.next;
        let member = Member {
            id,
            name: format!("{node}-0000000{}", id % 10),
            peer_urls: vec![format!("https://{node}:2380")],
            client_urls: vec![format!("https://{node}:2379")],
            is_learner: false,
            is_healthy: true,
        };
        state.members.insert(node.to_owned(), member);
        if state.leader == 0 {
            state.leader = id;
        }
        Ok(())
    }

    pub(crate) fn is_member(&self, node: &str) -> bool {
        self.state().members.contains_key(node)
    }

    /// The machine is gone, with all that was on it.
    pub(crate) fn gone(&self, node: &str) {
        self.state().members.remove(node);
    }

    /// What must never have happened has not.
    pub(crate) fn check(&self) -> Result<()> {
        let state = self.state();
        ensure!(state.faults.is_empty(), "{:?}", state.faults);
        Ok(())
    }
}

impl Etcd for Workload {
    fn members<'a>(&'a self, _: &'a Access) -> BoxFuture<'a, ControllerResult<Members>> {
        let state = self.state();
        let members: Vec<Member> = state.members.values().cloned().collect();
        let leader = Some(state.leader);
        Box::pin(async move {
            match members.is_empty() {
                true => Err(Error::transient("cannot ask etcd", "there is none")),
                false => Ok(Members { members, leader }),
            }
        })
    }

    fn move_leader<'a>(
        &'a self,
        _: &'a Access,
        _: &'a Member,
        to: &'a Member,
    ) -> BoxFuture<'a, ControllerResult<()>> {
        self.state().leader = to.id;
        Box::pin(async { Ok(()) })
    }

    fn remove<'a>(&'a self, _: &'a Access, member: &'a Member) -> BoxFuture<'a, ControllerResult<()>> {
        let mut state = self.state();
        if state.leader == member.id {
            state.faults.push(format!("{} was removed while it led", member.name));
        }
        state.members.retain(|_, other| other.id != member.id);
        if state.members.is_empty() {
            state.faults.push("the last member was removed".to_owned());
        }
        Box::pin(async { Ok(()) })
    }
}

impl capstan_controlplane::Workload for Workload {
    async fn answers(&self, _: &str, _: &str) -> bool {
        true
    }

    async fn cordoned(&self, _: &str, _: &str) -> BTreeSet<String> {
        self.state().cordoned.clone()
    }

    async fn drain(&self, _: &str, _: &str, drain: Drain<'_>) -> ControllerResult<Outcome> {
        self.state().cordoned.insert(drain.node.to_owned());
        Ok(Outcome::Drained)
    }

    async fn uncordon(&self, _: &str, _: &str, node: &str) -> ControllerResult<()> {
        self.state().cordoned.remove(node);
        Ok(())
    }
}
