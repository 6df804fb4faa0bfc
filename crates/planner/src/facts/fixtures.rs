//! Facts for tests, as verbs.

use capstan_plan::{Epoch, MachineIdentity, MachinePlan, PlanId, Revision};
use jiff::Timestamp;

use super::{MachineFacts, NodeView, PlanFacts, Progress};
use crate::etcd::{Member, Members};
use crate::knowledge::Knowledge;
use crate::plans::Record;

/// The version that machines of fixtures should run.
pub const VERSION: &str = "v1.36.0+k3s1";

/// A plan's name, for any number.
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

/// Members by the Nodes they are on: `a+` is well, `b-` is ill, `c~` has no vote yet. The first leads.
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

/// A Node that is Ready, or is not.
pub fn ready(ready: bool) -> Knowledge<NodeView> {
    Knowledge::Known(NodeView { ready, ..NodeView::default() })
}

impl MachineFacts {
    /// Its Node is known not to be Ready.
    pub fn lost(self) -> Self {
        self.with(|m| m.node = ready(false))
    }

    /// We keep pods away from its Node, which is Ready.
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

    /// It has its identity and its host.
    pub fn provisioned(mut self) -> Self {
        self.id = Some(format!("id-of-{}", self.name));
        self.provider_id = Some(format!("host:///{}", self.name));
        self
    }

    /// It has a plan made from these inputs, which it has not carried out.
    pub fn planned(mut self, revision: u64, inputs: &str) -> Self {
        self = self.provisioned();
        self.plan = Some(PlanFacts {
            id: plan_id(revision),
            epoch: Epoch(1),
            inputs: inputs.to_owned(),
            expires: Timestamp::MAX,
            sound: true,
            is_open: false,
            drain_since: None,
            record: Record { attempt: 1, ..Record::default() },
            programs: Vec::new(),
            progress: Progress::InFlight,
        });
        self
    }

    /// Its plan goes like this.
    pub fn says(mut self, progress: Progress) -> Self {
        if let Some(plan) = &mut self.plan {
            plan.progress = progress;
        }
        self
    }

    /// Planned, applied, and a Node.
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

    /// Anything else.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
