//! How far a rollout may stray from the wanted number of machines. Pure.

use capstan_api::core::{MachineDeployment, RolloutStrategyType};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use thiserror::Error;

/// An amount that is neither a number nor a percentage.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{0}` is neither a number nor a percentage such as 25%")]
pub struct BadAmount(String);

/// Which way a percentage is rounded to whole machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

/// The number of machines that `amount` means, out of `total`.
pub(crate) fn scaled(amount: &IntOrString, total: i32, rounding: Rounding) -> Result<i32, BadAmount> {
    let text = match amount {
        IntOrString::Int(number) => return Ok(*number),
        IntOrString::String(text) => text,
    };
    let percent: i64 = text
        .strip_suffix('%')
        .and_then(|number| number.parse::<i32>().ok())
        .ok_or_else(|| BadAmount(text.clone()))?
        .into();
    let hundredths = percent * i64::from(total);
    let machines = match rounding {
        Rounding::Up => hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) > 0),
        Rounding::Down => hundredths.div_euclid(100),
    };
    i32::try_from(machines).map_err(|_| BadAmount(text.clone()))
}

/// The limits of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Desired number of machines.
    pub desired: i32,
    /// Number of machines above that.
    pub max_surge: i32,
    /// Number of desired machines that may be missing or unavailable.
    pub max_unavailable: i32,
}

impl Limits {
    /// The limits of a MachineDeployment. Both are zero unless the strategy is a rolling update.
    pub fn of(deployment: &MachineDeployment) -> Result<Self, BadAmount> {
        let desired = deployment.spec.replicas.unwrap_or(1);
        let strategy = deployment.spec.rollout.as_ref().and_then(|rollout| rollout.strategy.as_ref());
        let Some(strategy) = strategy.filter(|s| s.type_ == RolloutStrategyType::RollingUpdate) else {
            return Ok(Self { desired, max_surge: 0, max_unavailable: 0 });
        };
        let limits = strategy.rolling_update.clone().unwrap_or_default();
        let amount = |wanted: Option<IntOrString>, unset| wanted.unwrap_or(IntOrString::Int(unset));
        Self::resolve(desired, &amount(limits.max_surge, 1), &amount(limits.max_unavailable, 0))
    }

    /// Resolves both amounts together: if both are zero, one machine may be unavailable, because a surge might fail
    /// for lack of quota.
    pub fn resolve(
        desired: i32,
        max_surge: &IntOrString,
        max_unavailable: &IntOrString,
    ) -> Result<Self, BadAmount> {
        let max_surge = scaled(max_surge, desired, Rounding::Up)?;
        let unavailable = match scaled(max_unavailable, desired, Rounding::Down)? {
            0 if max_surge == 0 => 1,
            unavailable => unavailable,
        };
        Ok(Self { desired, max_surge, max_unavailable: unavailable.min(desired) })
    }

    /// Number of machines that must be available.
    pub fn min_available(self) -> i32 {
        (self.desired - self.max_unavailable).max(0)
    }

    /// Highest number of machines.
    pub fn most(self) -> i32 {
        self.desired + self.max_surge
    }

    /// The limits with this number of machines that the rollout does not wait for: they are unavailable and use the
    /// budget, but never all of it, so that one machine at a time can always be changed.
    pub fn passing_over(self, machines: i32) -> Self {
        match machines {
            0 => self,
            machines => {
                let most = self.max_unavailable.max(machines.saturating_add(1)).min(self.desired);
                Self { max_unavailable: most, ..self }
            }
        }
    }

    /// The limits for in-place updates: no surge, because the additional machine would be deleted again, and at least
    /// one machine may be unavailable, because the rollout could not begin otherwise.
    pub fn in_place(self) -> Self {
        Self { max_surge: 0, max_unavailable: self.max_unavailable.max(1).min(self.desired), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> IntOrString {
        text.parse().map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int)
    }

    #[test]
    fn amounts_are_rounded_the_right_way() {
        for (text, total, up, down) in [
            ("3", 10, 3, 3),
            ("25%", 10, 3, 2),
            ("1%", 2, 1, 0),
            ("100%", 7, 7, 7),
            ("0%", 7, 0, 0),
            ("50%", 0, 0, 0),
        ] {
            assert_eq!(scaled(&amount(text), total, Rounding::Up), Ok(up), "{text} of {total}");
            assert_eq!(scaled(&amount(text), total, Rounding::Down), Ok(down), "{text} of {total}");
        }
        for text in ["ten", "10", "%", "x%"] {
            assert!(scaled(&IntOrString::String(text.into()), 10, Rounding::Up).is_err(), "{text}");
        }
    }

    #[test]
    fn some_room_is_always_left() {
        for (desired, surge, unavailable, expected) in [
            (2, "0%", "1%", (0, 1)),
            (1, "0%", "1%", (0, 1)),
            (2, "1%", "25%", (1, 0)),
            (1, "1%", "25%", (1, 0)),
            (10, "25%", "25%", (3, 2)),
            (3, "1", "0", (1, 0)),
            (3, "0", "5", (0, 3)),
            (0, "0", "0", (0, 0)),
        ] {
            let limits =
                Limits::resolve(desired, &amount(surge), &amount(unavailable)).expect("a test value");
            assert_eq!(
                (limits.max_surge, limits.max_unavailable),
                expected,
                "{desired} {surge} {unavailable}"
            );
        }
    }

    #[test]
    fn machines_that_nobody_waits_for_do_not_stop_the_others() {
        let most = |max_unavailable, passed_over| {
            Limits { desired: 9, max_surge: 0, max_unavailable }.passing_over(passed_over).max_unavailable
        };
        assert_eq!([most(1, 0), most(1, 1), most(1, 2), most(4, 2), most(0, 20)], [1, 2, 3, 4, 9]);
    }

    #[test]
    fn in_place_never_makes_a_machine_and_always_may_begin() {
        let limits = Limits { desired: 3, max_surge: 1, max_unavailable: 0 };
        assert_eq!(limits.in_place(), Limits { desired: 3, max_surge: 0, max_unavailable: 1 });
        let wide = Limits { desired: 9, max_surge: 1, max_unavailable: 4 };
        assert_eq!(wide.in_place().max_unavailable, 4);
    }
}
