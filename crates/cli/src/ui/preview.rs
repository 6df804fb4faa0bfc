//! `capstan plan` as a page.

use anyhow::Result;
use capstan_ui::Problem;
use capstan_ui::model::{Preview, PreviewField, PreviewMachine, PreviewObject, Tone};
use kube::Client;

use crate::plan::{self, Action, Field, Machine, Object, Outcome, Plan, Refusal};

/// Objects that one preview takes: each costs the server a dry run.
const OBJECTS: usize = 200;

pub(super) async fn page(client: &Client, namespace: &str, manifests: &str) -> Result<Preview> {
    let objects = plan::parse(manifests, namespace).map_err(|error| {
        let text = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
        Problem::Invalid(format!("cannot read the manifests: {text}"))
    })?;
    if objects.len() > OBJECTS {
        let why = format!(
            "{} objects are too many for a preview of at most {OBJECTS}; use `capstan plan`",
            objects.len()
        );
        return Err(Problem::Invalid(why).into());
    }
    Ok(shown(Box::pin(plan::of_objects(client, objects, false, |_| {})).await?))
}

fn shown(plan: Plan) -> Preview {
    let (summary, tone) = match (plan.refused, plan.changes) {
        (true, _) => ("This would be refused", Tone::Bad),
        (false, true) => ("This would change something", Tone::Waiting),
        (false, false) => ("This would change nothing", Tone::Good),
    };
    Preview {
        summary: summary.to_owned(),
        tone,
        machines: plan.machines.into_iter().map(machine).collect(),
        objects: plan.objects.into_iter().map(object).collect(),
        refusals: plan.refusals.iter().map(refusal).collect(),
        notes: plan.notes,
    }
}

fn machine(machine: Machine) -> PreviewMachine {
    let tone = match machine.outcome {
        Outcome::Nothing | Outcome::Live | Outcome::Create => Tone::Good,
        Outcome::Restart | Outcome::DrainAndRestart | Outcome::Reboot => Tone::Waiting,
        Outcome::Replace | Outcome::Delete | Outcome::Refused => Tone::Bad,
    };
    PreviewMachine {
        name: machine.name,
        owner: machine.owner,
        outcome: machine.outcome.name().to_owned(),
        tone,
        step: machine.step,
        kept: machine.kept,
        fields: machine.fields.into_iter().map(field).collect(),
        notes: machine.notes,
    }
}

fn object(object: Object) -> PreviewObject {
    let (action, tone) = match object.action {
        Action::Create => ("create", Tone::Good),
        Action::Change => ("change", Tone::Waiting),
        Action::Unchanged => ("unchanged", Tone::Neutral),
        Action::Refused => ("refused", Tone::Bad),
    };
    PreviewObject {
        name: format!("{} {}", object.kind, object.name),
        action: action.to_owned(),
        tone,
        fields: object.fields.into_iter().map(field).collect(),
        refusals: object.refusals.iter().map(refusal).collect(),
    }
}

fn field(field: Field) -> PreviewField {
    PreviewField {
        field: field.field,
        from: field.from,
        to: field.to,
        cost: field.cost.unwrap_or_default().to_owned(),
        why: field.why,
    }
}

fn refusal(refusal: &Refusal) -> String {
    if refusal.field.is_empty() {
        refusal.reason.clone()
    } else {
        format!("{}: {}", refusal.field, refusal.reason)
    }
}
