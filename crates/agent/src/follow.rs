//! Decides about a hand-over of the machine to another management plane. Pure.
//!
//! A cluster may be moved to another plane. Its machines then receive the address of that plane on a way that does not
//! use the old plane. Every move increases the epoch. A machine rejects plans and hand-overs of earlier epochs, so a
//! plane that was left, or that is restored from a backup, cannot take a machine back.

use capstan_plan::{Epoch, KeyId, MachineIdentity, PublicKey, Successions};

/// The management plane whose plans a machine applies, or that a hand-over names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allegiance {
    /// Identity of the machine.
    pub machine: MachineIdentity,
    /// Namespace of its objects.
    pub namespace: String,
    /// Public key that verifies plans.
    pub plan_key: PublicKey,
    /// The chain of plan keys.
    pub successions: Successions,
    /// Name of the plane; empty if it is unknown.
    pub plane: String,
    /// Epoch of the manager.
    pub epoch: Epoch,
    /// URL of the API server.
    pub server: String,
    /// CA bundle of the API server.
    pub ca: Vec<u8>,
}

/// Why a machine does not follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The machine is being reset.
    #[error("this machine is being reset and follows no management plane")]
    Resetting,
    /// The hand-over is for another machine, or for an earlier claim of this host.
    #[error("it is for {theirs} in namespace {namespace}, and this is {ours}")]
    OtherMachine {
        /// The machine of the hand-over.
        theirs: Box<MachineIdentity>,
        /// Its namespace.
        namespace: String,
        /// This machine.
        ours: Box<MachineIdentity>,
    },
    /// The plan key differs, and is no successor of the trusted one.
    #[error(
        "it comes with plan key {theirs}, which has not followed {ours}: a hand-over cannot change the key that signs plans for \
         this machine"
    )]
    OtherKey {
        /// The key of the hand-over.
        theirs: KeyId,
        /// The key that the machine trusts.
        ours: KeyId,
    },
    /// A manager of a later epoch has taken over.
    #[error(
        "it is of manager epoch {theirs}, and this machine has followed epoch {known}: another management plane has \
         taken it over"
    )]
    OldManager {
        /// The epoch of the hand-over.
        theirs: Epoch,
        /// The later epoch that was accepted.
        known: Epoch,
    },
}

/// The decision about a hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The machine follows this plane already.
    Stay,
    /// Follow this plane from now on.
    Follow,
    /// Reject the hand-over.
    Refuse(Refusal),
}

/// Whether a machine of the plane `ours` follows `theirs`. `obeyed` is the last accepted epoch; `has_credential`
/// whether the machine has enrolled with its current plane.
pub fn decide(ours: &Allegiance, obeyed: Epoch, theirs: &Allegiance, has_credential: bool) -> Verdict {
    if (&ours.machine, &ours.namespace) != (&theirs.machine, &theirs.namespace) {
        return Verdict::Refuse(Refusal::OtherMachine {
            theirs: Box::new(theirs.machine.clone()),
            namespace: theirs.namespace.clone(),
            ours: Box::new(ours.machine.clone()),
        });
    }
    if theirs.successions.heir(ours.plan_key) != theirs.plan_key {
        let (theirs, ours) = (theirs.plan_key.id(), ours.plan_key.id());
        return Verdict::Refuse(Refusal::OtherKey { theirs, ours });
    }
    let known = ours.epoch.max(obeyed);
    let is_same_plane = ours.plane == theirs.plane && !theirs.plane.is_empty();
    if theirs.epoch > known {
        Verdict::Follow
    } else if theirs.epoch == known && theirs.epoch == ours.epoch && is_same_plane {
        // The same plane once more: at another address, or with another token.
        if ours == theirs && has_credential { Verdict::Stay } else { Verdict::Follow }
    } else {
        Verdict::Refuse(Refusal::OldManager { theirs: theirs.epoch, known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::SigningKey;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed(&[seed; 32])
    }

    fn of(plane: &str, epoch: u64) -> Allegiance {
        Allegiance {
            machine: MachineIdentity {
                name: "web-0".parse().unwrap(),
                machine_id: "life-1".parse().unwrap(),
            },
            namespace: "default".to_owned(),
            plan_key: key(7).public(),
            successions: Successions::default(),
            plane: plane.to_owned(),
            epoch: Epoch(epoch),
            server: format!("https://{plane}"),
            ca: plane.as_bytes().to_vec(),
        }
    }

    fn old(theirs: u64, known: u64) -> Verdict {
        Verdict::Refuse(Refusal::OldManager { theirs: Epoch(theirs), known: Epoch(known) })
    }

    #[test]
    fn a_machine_only_follows_forward() {
        for (ours, obeyed, theirs, expected) in [
            (of("a", 1), 1, of("b", 2), Verdict::Follow),
            (of("b", 2), 2, of("a", 3), Verdict::Follow),
            // The plane that was left, and a third one that took a stale copy over.
            (of("b", 2), 1, of("a", 1), old(1, 2)),
            (of("b", 2), 1, of("c", 2), old(2, 2)),
            // What it has carried out counts even if its configuration was put back.
            (of("a", 1), 2, of("c", 2), old(2, 2)),
            (of("a", 1), 2, of("a", 1), old(1, 2)),
            // From before planes had names.
            (of("", 0), 1, of("b", 2), Verdict::Follow),
            (of("", 0), 1, of("b", 1), old(1, 1)),
            (of("", 1), 1, of("", 1), old(1, 1)),
        ] {
            assert_eq!(decide(&ours, Epoch(obeyed), &theirs, true), expected, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn the_same_plane_may_speak_again() {
        let ours = of("a", 1);
        assert_eq!(decide(&ours, Epoch(1), &ours, true), Verdict::Stay);
        // It has not got in yet, and gets another token.
        assert_eq!(decide(&ours, Epoch(1), &ours, false), Verdict::Follow);
        let elsewhere = Allegiance { server: "https://other".to_owned(), ..ours.clone() };
        assert_eq!(decide(&ours, Epoch(1), &elsewhere, true), Verdict::Follow);
        let renewed = Allegiance { ca: b"other".to_vec(), ..ours.clone() };
        assert_eq!(decide(&ours, Epoch(1), &renewed, true), Verdict::Follow);
    }

    #[test]
    fn nobody_else_is_followed_whatever_the_epoch() {
        let ours = of("a", 1);
        let mut machine = of("b", 9);
        machine.machine.machine_id = "life-2".parse().unwrap();
        let namespace = Allegiance { namespace: "other".to_owned(), ..of("b", 9) };
        for theirs in [machine, namespace] {
            let verdict = decide(&ours, Epoch(1), &theirs, true);
            assert!(matches!(verdict, Verdict::Refuse(Refusal::OtherMachine { .. })), "{verdict:?}");
        }
        let stranger = Allegiance { plan_key: key(8).public(), ..of("b", 9) };
        let verdict = decide(&ours, Epoch(1), &stranger, true);
        assert!(matches!(verdict, Verdict::Refuse(Refusal::OtherKey { .. })), "{verdict:?}");
    }

    #[test]
    fn a_machine_follows_to_a_key_that_has_followed_its_own_and_not_back() {
        let (old, links) = (of("a", 1), Successions::default().followed_by(&key(7), key(8).public()));
        let new = Allegiance { plan_key: key(8).public(), successions: links, ..of("b", 2) };
        assert_eq!(decide(&old, Epoch(1), &new, true), Verdict::Follow);
        let back = Allegiance { epoch: Epoch(3), ..old };
        let verdict = decide(&new, Epoch(2), &back, true);
        assert!(matches!(verdict, Verdict::Refuse(Refusal::OtherKey { .. })), "{verdict:?}");
    }
}
