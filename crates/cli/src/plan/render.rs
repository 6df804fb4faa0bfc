//! Renders a plan for people.

use std::fmt::Write as _;

use super::report::{Action, Field, Machine, Object, Outcome, Plan};
use crate::terminal::{Color, Look};

/// The whole plan.
pub(super) fn text(plan: &Plan, look: Look) -> String {
    let mut text = String::new();
    for object in plan.objects.iter().filter(|object| object.action != Action::Unchanged) {
        object_text(&mut text, object, look);
    }
    let (moved, still): (Vec<_>, Vec<_>) = plan
        .machines
        .iter()
        .partition(|machine| machine.outcome != Outcome::Nothing || !machine.fields.is_empty());
    if !moved.is_empty() {
        let has_order = moved.iter().any(|machine| machine.step.is_some());
        text.push_str(if has_order { "Machines, in this order:\n" } else { "Machines:\n" });
        moved.iter().for_each(|machine| machine_text(&mut text, machine, look));
        text.push('\n');
    }
    if !still.is_empty() {
        let names: Vec<&str> = still.iter().map(|machine| machine.name.as_str()).collect();
        // Writing to a String cannot fail.
        _ = writeln!(text, "Nothing happens to: {}\n", names.join(", "));
    }
    for refusal in &plan.refusals {
        _ = writeln!(
            text,
            "{} {}",
            look.paint(Color::Red, "Refused:"),
            place(&refusal.field, &refusal.reason)
        );
    }
    for note in &plan.notes {
        _ = writeln!(text, "Note: {note}");
    }
    if !plan.refusals.is_empty() || !plan.notes.is_empty() {
        text.push('\n');
    }
    _ = writeln!(text, "{}", look.paint(if plan.refused { Color::Red } else { Color::Green }, &sum(plan)));
    text
}

fn place(field: &str, reason: &str) -> String {
    if field.is_empty() { reason.to_owned() } else { format!("{field}: {reason}") }
}

fn object_text(text: &mut String, object: &Object, look: Look) {
    let (what, color) = match object.action {
        Action::Create => ("would be created", Color::Green),
        Action::Change => ("would be changed", Color::Yellow),
        Action::Unchanged => ("stays as it is", Color::Gray),
        Action::Refused => ("would be refused by the server", Color::Red),
    };
    let what = look.paint(color, what);
    _ = writeln!(text, "{}/{} {what}", object.kind, object.name);
    for refusal in &object.refusals {
        _ = writeln!(text, "    {}", place(&refusal.field, &refusal.reason));
    }
    for field in &object.fields {
        _ = writeln!(text, "    {}", change(field));
    }
    text.push('\n');
}

fn machine_text(text: &mut String, machine: &Machine, look: Look) {
    let step = machine.step.map(|step| format!("{step:>3}. ")).unwrap_or_else(|| "   - ".to_owned());
    let name = if machine.outcome == Outcome::Create {
        "a new Machine".to_owned()
    } else {
        format!("Machine/{}", machine.name)
    };
    _ = writeln!(
        text,
        "{step}{name} of {}: {}",
        machine.owner,
        look.paint(color(machine.outcome), machine.outcome.name())
    );
    for field in &machine.fields {
        let cost = field.cost.unwrap_or_default();
        _ = writeln!(text, "         {}", change(field));
        if !field.why.is_empty() {
            _ = writeln!(text, "             {cost}: {}", field.why);
        }
    }
    for note in &machine.notes {
        _ = writeln!(text, "         {note}");
    }
}

/// By how much it is felt.
const fn color(outcome: Outcome) -> Color {
    match outcome {
        Outcome::Nothing => Color::Gray,
        Outcome::Live | Outcome::Create => Color::Green,
        Outcome::Restart | Outcome::DrainAndRestart | Outcome::Reboot => Color::Yellow,
        Outcome::Replace | Outcome::Delete | Outcome::Refused => Color::Red,
    }
}

fn change(field: &Field) -> String {
    let Field { field, from, to, origin, .. } = field;
    let text = match (from, to) {
        (None, None) => field.clone(),
        (Some(from), None) => format!("{field}: {from} would be taken away"),
        (None, Some(to)) => format!("{field}: {to}"),
        (Some(from), Some(to)) if from == to => format!("{field}: {to}"),
        (Some(from), Some(to)) => format!("{field}: {from} -> {to}"),
    };
    match origin {
        Some(origin) => format!("{text} (from {origin})"),
        None => text,
    }
}

fn sum(plan: &Plan) -> String {
    if plan.refused {
        return "Something would be refused: see above.".to_owned();
    }
    let count = |outcome: Outcome| plan.machines.iter().filter(|machine| machine.outcome == outcome).count();
    let counts: Vec<String> = [
        (Outcome::Live, "changed live"),
        (Outcome::Restart, "restarted"),
        (Outcome::DrainAndRestart, "drained and restarted"),
        (Outcome::Reboot, "rebooted"),
        (Outcome::Create, "created"),
        (Outcome::Delete, "deleted"),
        (Outcome::Replace, "replaced"),
    ]
    .into_iter()
    .filter(|(outcome, _)| count(*outcome) > 0)
    .map(|(outcome, word)| format!("{} {word}", count(outcome)))
    .collect();
    match (counts.is_empty(), plan.changes) {
        (true, false) => "Nothing would happen: everything is as the manifests say.".to_owned(),
        (true, true) => "Nothing would happen to any machine.".to_owned(),
        (false, _) => format!("Machines: {}.", counts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Refusal;
    use super::*;

    fn field() -> Field {
        Field {
            field: "spec.version".to_owned(),
            from: Some("v1".to_owned()),
            to: Some("v2".to_owned()),
            cost: Some("drain and restart"),
            why: "another version is installed and started".to_owned(),
            origin: None,
        }
    }

    fn machine(name: &str, outcome: Outcome, step: Option<usize>) -> Machine {
        let fields = if outcome == Outcome::Nothing { vec![] } else { vec![field()] };
        let owner = "CapstanControlPlane/cp".to_owned();
        Machine {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            owner,
            outcome,
            step,
            kept: true,
            fields,
            notes: vec![],
        }
    }

    fn plan() -> Plan {
        Plan {
            objects: vec![Object {
                kind: "CapstanControlPlane".to_owned(),
                namespace: Some("ns".to_owned()),
                name: "cp".to_owned(),
                action: Action::Change,
                fields: vec![field()],
                refusals: vec![],
            }],
            machines: vec![
                machine("b", Outcome::Nothing, None),
                machine("c", Outcome::DrainAndRestart, Some(2)),
                machine("a", Outcome::DrainAndRestart, Some(1)),
            ],
            ..Plan::default()
        }
    }

    #[test]
    fn people_see_what_happens_and_in_which_order() {
        let text = text(&plan().sum_up(), Look::default());
        let expected = "\
CapstanControlPlane/cp would be changed
    spec.version: v1 -> v2

Machines, in this order:
  1. Machine/a of CapstanControlPlane/cp: drain and restart
         spec.version: v1 -> v2
             drain and restart: another version is installed and started
  2. Machine/c of CapstanControlPlane/cp: drain and restart
         spec.version: v1 -> v2
             drain and restart: another version is installed and started

Nothing happens to: b

Machines: 2 drained and restarted.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_value_of_a_host_is_shown_with_its_origin() {
        let origin = Some("Host rack-1 spec.config".to_owned());
        let shown = change(&Field { field: "spec.settings.node-ip".to_owned(), origin, ..field() });
        assert_eq!(shown, "spec.settings.node-ip: v1 -> v2 (from Host rack-1 spec.config)");
    }

    #[test]
    fn a_refusal_is_said_last_and_nothing_is_said_plainly() {
        let mut refused = plan();
        refused.refusals.push(Refusal::new("spec.version", "Kubernetes cannot go back"));
        let rendered = text(&refused.sum_up(), Look::default());
        assert!(rendered.contains("Refused: spec.version: Kubernetes cannot go back\n"), "{rendered}");
        assert!(rendered.ends_with("Something would be refused: see above.\n"), "{rendered}");
        let nothing = text(&Plan::default().sum_up(), Look::default());
        assert_eq!(nothing, "Nothing would happen: everything is as the manifests say.\n");
    }
}
