//! The arithmetic of a rolling update: how many machines each MachineSet should have next. Pure.
//!
//! One call gives one careful step. It assumes the worst of everything it cannot see: that a machine to be deleted
//! is an available one, and that a change asked for earlier has not happened yet. Called again whenever a number
//! changes, it arrives at one MachineSet with all machines, or stops where going on would cost availability.

use jiff::Timestamp;
use std::collections::BTreeMap;

use super::limits::Limits;

/// The replica counts of a MachineSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// Creation time: older MachineSets are scaled down first.
    pub created: Option<Timestamp>,
    /// `spec.replicas`.
    pub spec: i32,
    /// Number of machines.
    pub replicas: i32,
    /// Number of available machines.
    pub available: i32,
    /// Whether its machines can be updated in place to the template of the new MachineSet.
    pub movable: bool,
}

/// The next step of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// New replica counts of MachineSets, for those that change.
    pub replicas: BTreeMap<String, i32>,
    /// MachineSets that hand machines over to the new one and do not delete them.
    pub moves: Vec<String>,
    /// Reasons for the log: name of the MachineSet, and why.
    pub notes: Vec<(String, String)>,
}

impl Plan {
    /// The replica count of the set after this step.
    pub fn target(&self, set: &Set) -> i32 {
        self.replicas.get(&set.name).copied().unwrap_or(set.spec)
    }

    pub(super) fn scale(&mut self, set: &Set, to: i32, why: impl Into<String>) {
        self.replicas.insert(set.name.clone(), to);
        self.notes.push((set.name.clone(), why.into()));
    }
}

/// The next step of a rolling update from the `old` MachineSets to the `new` one.
pub fn rolling_update(limits: Limits, new: &Set, old: &[Set]) -> Plan {
    let mut old: Vec<&Set> = old.iter().collect();
    old.sort_by_key(|set| (set.created, &set.name));

    let mut plan = Plan::default();
    let movable: Vec<&Set> = match new.spec < limits.desired {
        true => old.iter().copied().filter(|set| set.movable && set.replicas > 0).collect(),
        // It has, or will have, all it needs: what is left over elsewhere is deleted.
        false => vec![],
    };
    if movable.is_empty() {
        scale_new(&mut plan, limits, new, &old);
        scale_old(&mut plan, limits, new, &old, &old);
    } else {
        // First what can be changed in place, then the rest: otherwise machines would be made for the rest that
        // the first could have been.
        plan.moves = movable.iter().map(|set| set.name.clone()).collect();
        scale_new(&mut plan, limits.in_place(), new, &old);
        scale_old(&mut plan, limits.in_place(), new, &old, &movable);
    }
    break_deadlock(&mut plan, new, &old);
    plan
}

/// Sets the new MachineSet as high as the limits allow.
pub(super) fn scale_new(plan: &mut Plan, limits: Limits, new: &Set, old: &[&Set]) {
    if new.spec > limits.desired {
        let why = "scale down to align MachineSet spec.replicas to MachineDeployment spec.replicas";
        plan.scale(new, limits.desired, why);
        return;
    }
    // The larger of both: a machine that was asked for may appear, one that should go may still be there.
    let machines: i32 = old.iter().copied().chain([new]).map(|set| set.spec.max(set.replicas)).sum();
    let more = (limits.most() - machines).min(limits.desired - new.spec);
    if more > 0 {
        let Limits { desired, max_surge, .. } = limits;
        let why = format!(
            "{machines} current Machines < {desired} MachineDeployment spec.replicas + {max_surge} maxSurge"
        );
        plan.scale(new, new.spec + more, why);
    }
}

fn scale_old(plan: &mut Plan, limits: Limits, new: &Set, old: &[&Set], candidates: &[&Set]) {
    if old.iter().map(|set| set.spec).sum::<i32>() == 0 {
        return;
    }
    let all = || old.iter().copied().chain([new]);
    let all_replicas: i32 = all().map(|set| set.spec).sum();
    // Machines that are being deleted. Whether they are available ones is unknown.
    let going: i32 = all().map(|set| (set.replicas - set.spec.min(plan.target(set))).max(0)).sum();
    // If new machines do not come up, taking more old ones away would only spread the trouble.
    let broken = (new.spec - new.available).max(0);

    let mut budget = Budget {
        left: all_replicas - going - limits.min_available() - broken,
        available: all().map(|set| set.available).sum(),
        min_available: limits.min_available(),
    };
    budget.take(plan, candidates, |set, spec| (spec - set.available).max(0));
    budget.take(plan, candidates, |_, spec| spec);
}

/// How many machines may still be taken from old MachineSets in this step.
struct Budget {
    left: i32,
    available: i32,
    min_available: i32,
}

impl Budget {
    /// Takes up to `most(set, spec)` machines from each set, oldest first.
    fn take(&mut self, plan: &mut Plan, sets: &[&Set], most: impl Fn(&Set, i32) -> i32) {
        for set in sets {
            let spec = plan.target(set);
            let wanted = most(set, spec).min(self.left);
            if wanted <= 0 {
                continue;
            }
            let before = self.available;
            let take = self.affordable(set, spec, wanted);
            if take <= 0 {
                continue;
            }
            let why = if self.available == before {
                "scale down to align to existing Machines or scale down by removing unavailable replicas \
                 (and no available replicas exist on the MachineSet)"
                    .to_owned()
            } else {
                format!("{before} available replicas > {} minimum available replicas", self.min_available)
            };
            plan.scale(set, spec - take, why);
            self.left -= take;
        }
    }

    /// How many of `wanted` can go without falling below what must be available, if the set gives up available
    /// machines first.
    fn affordable(&mut self, set: &Set, spec: i32, wanted: i32) -> i32 {
        if set.available == 0 {
            return wanted;
        }
        let deleted = set.replicas - (spec - wanted);
        if deleted <= 0 {
            return wanted;
        }
        let spare = (self.available - self.min_available).max(0);
        let target = match spare < deleted {
            true => (set.replicas - spare).min(spec),
            false => spec - wanted,
        };
        self.available -= set.available.min((set.replicas - target).max(0));
        (spec - target).max(0)
    }
}

/// If nothing moves although old machines are unavailable, takes one from their MachineSet: they are not remediated,
/// so no other controller does it.
fn break_deadlock(plan: &mut Plan, new: &Set, old: &[&Set]) {
    let sum = |count: fn(&Set) -> i32| old.iter().map(|set| count(set)).sum::<i32>();
    let replicas = sum(|set| set.replicas);
    if replicas == 0 || replicas == sum(|set| set.available) {
        return;
    }
    let moving = old.iter().copied().chain([new]).any(|set| set.spec != set.replicas);
    if moving || !plan.replicas.is_empty() || new.available != new.replicas {
        return;
    }
    if let Some(set) = old.iter().find(|set| set.available != set.replicas && set.spec > 0) {
        plan.scale(
            set,
            set.spec - 1,
            "scaling down by 1 to unblock rollout stuck due to unavailable Machine on oldMS",
        );
    }
}

#[cfg(test)]
#[path = "tests/rollout.rs"]
mod rollout;
#[cfg(test)]
#[path = "tests/plan.rs"]
mod tests;
