//! Scaling while a rollout is paused: every MachineSet keeps its share. Pure.
//!
//! Growing only the new MachineSet, or shrinking only the old ones, would carry on with the rollout that was paused.

use std::collections::BTreeMap;

use super::limits::Limits;
use super::plan::Set;

/// A MachineSet, and the total that its replica count was derived from.
#[derive(Clone, Debug)]
pub struct Share {
    /// The MachineSet.
    pub set: Set,
    /// The annotation `max-replicas` of the MachineSet, or the number of all machines if it has none.
    pub of: i32,
    /// The annotation `desired-replicas` of the MachineSet.
    pub desired: Option<i32>,
}

/// New replica counts of MachineSets, for those that change. `new` is the MachineSet that matches the template, if
/// there is one.
pub fn proportional(
    limits: Limits,
    rolling: bool,
    new: Option<&Share>,
    old: &[Share],
) -> BTreeMap<String, i32> {
    let mut sizes = sizes(limits, rolling, new, old);
    let all = || old.iter().chain(new);
    sizes.retain(|name, size| all().any(|share| share.set.name == *name && share.set.spec != *size));
    sizes
}

fn sizes(limits: Limits, rolling: bool, new: Option<&Share>, old: &[Share]) -> BTreeMap<String, i32> {
    let mut active: Vec<&Share> = old.iter().chain(new).filter(|share| share.set.spec > 0).collect();
    let newest_old = || old.iter().max_by_key(|share| (share.set.created, &share.set.name));
    let only = match active.as_slice() {
        [] => new.or_else(newest_old),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(only) = only {
        return BTreeMap::from([(only.set.name.clone(), limits.desired)]);
    }
    if new.is_some_and(|new| is_saturated(limits, new)) {
        return old.iter().map(|share| (share.set.name.clone(), 0)).collect();
    }
    if active.is_empty() || !rolling {
        return BTreeMap::new();
    }

    let allowed = if limits.desired > 0 { limits.most() } else { 0 };
    let total: i32 = active.iter().map(|share| share.set.spec).sum();
    let change = allowed - total;
    // The largest first; of equal ones the newer first when growing, the older when shrinking.
    active.sort_by(|a, b| {
        let age = (a.set.created, &a.set.name).cmp(&(b.set.created, &b.set.name));
        b.set.spec.cmp(&a.set.spec).then(if change > 0 { age.reverse() } else { age })
    });
    let mut left = change;
    let mut sizes = BTreeMap::new();
    for share in &active {
        let part = fraction(limits, share).clamp(left.min(0), left.max(0));
        sizes.insert(share.set.name.clone(), share.set.spec + part);
        left -= part;
    }
    if let Some(largest) = sizes.get_mut(&active[0].set.name) {
        *largest = (*largest + left).max(0);
    }
    sizes
}

/// How much the MachineSet would grow if it kept its share.
fn fraction(limits: Limits, share: &Share) -> i32 {
    if limits.desired == 0 {
        return -share.set.spec;
    }
    let size = f64::from(share.set.spec) * f64::from(limits.most()) / f64::from(share.of.max(1));
    // In range: a share of the machines, which are counted in 32 bits.
    #[allow(clippy::cast_possible_truncation)]
    let size = size.round() as i32;
    size - share.set.spec
}

/// Whether the new MachineSet has all machines, and both sides agree that it should.
fn is_saturated(limits: Limits, share: &Share) -> bool {
    let desired = limits.desired;
    share.set.spec == desired && share.desired == Some(desired) && share.set.available == desired
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn share(name: &str, age: i64, spec: i32, of: i32) -> Share {
        let created = Timestamp::from_second(age).ok();
        let set = Set { name: name.into(), created, spec, replicas: spec, available: spec, movable: false };
        Share { set, of, desired: Some(of - 1) }
    }

    #[test]
    fn every_set_keeps_its_share() {
        let limits = |desired| Limits { desired, max_surge: 0, max_unavailable: 0 };
        for (desired, new, old, expected) in [
            // One active set takes everything.
            (5, Some(3), vec![0], vec![5, 0]),
            (5, Some(0), vec![3], vec![0, 5]),
            (5, None, vec![3], vec![5]),
            // None is active: the new one, else the newest.
            (5, Some(0), vec![0], vec![5, 0]),
            // Half and half stays half and half.
            (20, Some(5), vec![5], vec![10, 10]),
            (4, Some(5), vec![5], vec![2, 2]),
            (0, Some(5), vec![5], vec![0, 0]),
            // What cannot be divided goes to the largest.
            (11, Some(4), vec![6], vec![4, 7]),
        ] {
            let of = new.unwrap_or(0) + old.iter().sum::<i32>();
            let new = new.map(|spec| share("new", 9, spec, of));
            let old: Vec<_> =
                old.iter().enumerate().map(|(i, spec)| share(&format!("old{i}"), 1, *spec, of)).collect();
            let sizes = proportional(limits(desired), true, new.as_ref(), &old);
            let got: Vec<i32> = new
                .iter()
                .chain(&old)
                .map(|share| sizes.get(&share.set.name).copied().unwrap_or(share.set.spec))
                .collect();
            assert_eq!(got, expected, "{desired}");
        }
    }

    #[test]
    fn a_saturated_new_set_empties_the_old_ones() {
        let limits = Limits { desired: 5, max_surge: 0, max_unavailable: 0 };
        let mut new = share("new", 9, 5, 7);
        new.desired = Some(5);
        let sizes = proportional(limits, true, Some(&new), &[share("old", 1, 2, 7)]);
        assert_eq!(sizes, BTreeMap::from([("old".to_owned(), 0)]));
    }
}
