//! Which units use what a step has created on the machine. Pure.

use capstan_plan::{Action, MachinePlan};

/// Whether the unit at `unit` reads what the step at `step` creates when it starts.
///
/// It does if the step is an input of the unit, if the unit file contains the path, and if only gates are between the
/// two steps: for a step between a gate and a unit the unit is stopped.
pub fn is_read_by(plan: &MachinePlan, step: usize, unit: usize) -> bool {
    let (Some(made), Some(Action::Unit(content))) =
        (plan.steps.get(step), plan.steps.get(unit).map(|step| &step.action))
    else {
        return false;
    };
    if step == unit {
        return true;
    }
    let is_unit = matches!(made.action, Action::Unit(_));
    let Some(path) = made.path().filter(|_| step < unit && !is_unit) else { return false };
    let gate = plan.steps[..unit].iter().rposition(|step| matches!(step.action, Action::Gate(_)));
    plan.steps[unit].inputs.contains(&made.name)
        || gate.is_some_and(|gate| gate < step)
        || content
            .content
            .as_bytes()
            .windows(path.as_str().len())
            .any(|text| text == path.as_str().as_bytes())
}
