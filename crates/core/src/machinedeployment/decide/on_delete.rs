//! The arithmetic of `OnDelete`: machines are replaced when a user deletes them, never before. Pure.

use super::limits::Limits;
use super::plan::{Plan, Set, scale_new};

/// The next step of the strategy `OnDelete`: the `new` MachineSet creates missing machines, and the `old` ones are
/// scaled down by those that were deleted.
pub fn on_delete(limits: Limits, new: &Set, old: &[Set]) -> Plan {
    let mut old: Vec<&Set> = old.iter().collect();
    old.sort_by_key(|set| (set.created, &set.name));
    let mut plan = Plan::default();
    scale_new(&mut plan, limits, new, &old);

    let old_replicas: i32 = old.iter().map(|set| set.spec).sum();
    let mut too_many = (old_replicas + plan.target(new) - limits.desired).max(0);
    for set in old.iter().filter(|set| set.spec > set.replicas.max(0)) {
        plan.scale(set, set.replicas, "scale down to align to existing Machines");
        too_many -= set.spec - set.replicas;
    }
    for set in &old {
        let spec = plan.target(set);
        let take = spec.min(too_many);
        if take > 0 {
            let why = "scale down to align MachineSet spec.replicas to MachineDeployment spec.replicas";
            plan.scale(set, spec - take, why);
            too_many -= take;
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, spec: i32, replicas: i32) -> Set {
        Set { name: name.into(), spec, replicas, available: replicas, ..Set::default() }
    }

    #[test]
    fn nothing_goes_before_somebody_deletes_it() {
        for (desired, new, old, expected_new, expected_old) in [
            // A new template: the old machines stay.
            (3, (0, 0), (3, 3), 0, 3),
            // A user has deleted a machine: first the old set gets fewer replicas,
            (3, (0, 0), (3, 2), 0, 2),
            // then the new one fills up.
            (3, (0, 0), (2, 2), 1, 2),
            (3, (1, 1), (2, 2), 1, 2),
            // All are deleted.
            (3, (3, 3), (0, 0), 3, 0),
            // Scaled up and down meanwhile.
            (5, (1, 1), (2, 2), 3, 2),
            (2, (1, 1), (2, 2), 1, 1),
            (1, (2, 2), (2, 2), 1, 0),
        ] {
            let limits = Limits { desired, max_surge: 0, max_unavailable: 0 };
            let (new, old) = (set("new", new.0, new.1), set("old", old.0, old.1));
            let plan = on_delete(limits, &new, std::slice::from_ref(&old));
            let got = (plan.target(&new), plan.target(&old));
            assert_eq!(got, (expected_new, expected_old), "{desired} {new:?} {old:?}");
        }
    }
}
