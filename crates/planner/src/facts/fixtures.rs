//! Facts for tests, as verbs.

use capstan_plan::{Epoch, MachineIdentity, MachinePlan, PlanId, Revision};
use jiff::Timestamp;

use super::{MachineFacts, NodeView, PlanFacts, Progress};
use crate::etcd::{Member, Members};
use crate::knowledge::Knowledge;
use crate::plans::Record;

/// The desired version of machines in fixtures.
pub const VERSION: &str = "v1.36.0+k3s1";

/// The ID of a plan with this revision.
pub fn plan_id(revision: u64) -> PlanId {
    let machine =
        MachineIdentity { name: "m".parse().expect("a name"), machine_id: "i".parse().expect("an ID") };
    let revision = Revision::new(revision).expect("a revision");
    let mut plan = MachinePlan::new(machine, revision, Epoch(1), Timestamp::UNIX_EPOCH);
    let argv = capstan_plan::Argv::new(["true"]).expect("words");
    let action = capstan_plan::Action::Command(capstan_plan::Command::new(argv));
    plan.steps = vec![capstan_plan::Step::new("a".parse().expect("a name"), action)];
    plan.seal().expect("a plan").id()
}

/// Members by their Nodes: `a+` is healthy, `b-` is not, `c~` is a learner. The first one leads.
pub fn members(text: &str) -> Members {
    let member = |(word, id): (&str, u64)| {
        let (node, mark) = word.split_at(word.len() - 1);
        Member {
            id,
            name: format!("{node}-0000000{id}"),
            peer_urls: vec![format!("https://{node}:2380")],
            client_urls: vec![format!("https://{node}:2379")],
            is_learner: mark == "~",
            is_healthy: mark != "-",
        }
    };
    let members: Vec<Member> = text.split_whitespace().zip(1..).map(member).collect();
    Members { leader: members.first().map(|member| member.id), members }
}

/// A Node that is Ready, or not.
pub fn ready(ready: bool) -> Knowledge<NodeView> {
    Knowledge::Known(NodeView { ready, ..NodeView::default() })
}

impl MachineFacts {
    /// Its Node is not Ready.
    pub fn lost(self) -> Self {
        self.with(|m| m.node = ready(false))
    }

    /// Its Node is Ready and cordoned by Capstan.
    pub fn cordoned(self) -> Self {
        self.with(|m| {
            m.node = Knowledge::Known(NodeView { ready: true, cordoned: true, ..NodeView::default() });
        })
    }

    /// A server that was just created.
    pub fn server(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            control_plane: true,
            version: Some(VERSION.to_owned()),
            created: Some(Timestamp::UNIX_EPOCH),
            ..Self::default()
        }
    }

    /// A worker that was just created.
    pub fn worker(name: &str) -> Self {
        Self { control_plane: false, ..Self::server(name) }
    }

    /// It has a machine ID and a host.
    pub fn provisioned(mut self) -> Self {
        self.id = Some(format!("id-of-{}", self.name));
        self.provider_id = Some(format!("host:///{}", self.name));
        self
    }

    /// It has a plan with these inputs, which is not applied yet.
    pub fn planned(mut self, revision: u64, inputs: &str) -> Self {
        self = self.provisioned();
        self.plan = Some(PlanFacts {
            id: plan_id(revision),
            epoch: Epoch(1),
            inputs: inputs.to_owned(),
            expires: Timestamp::MAX,
            sound: true,
            is_open: false,
            cancelled: None,
            drain_since: None,
            record: Record { attempt: 1, ..Record::default() },
            programs: Vec::new(),
            agent: None,
            progress: Progress::InFlight,
        });
        self
    }

    /// Sets the progress of its plan.
    pub fn says(mut self, progress: Progress) -> Self {
        if let Some(plan) = &mut self.plan {
            plan.progress = progress;
        }
        self
    }

    /// Its plan is applied, and it has a Node.
    pub fn up(self) -> Self {
        let mut up = self.planned(1, "a").says(Progress::Applied);
        up.has_node = true;
        up.node = ready(true);
        up.kubelet_version.clone_from(&up.version);
        up
    }

    /// It was created in this second.
    pub fn born(mut self, second: i64) -> Self {
        self.created = Timestamp::from_second(second).ok();
        self
    }

    /// It is being deleted.
    pub fn leaving(mut self) -> Self {
        self.deleting = true;
        self
    }

    /// Any other change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
