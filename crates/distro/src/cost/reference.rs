//! Renders the table as a documentation page.

use std::fmt::Write as _;

use super::table::{Rule, Subject, fields};
use crate::k3s;

const HEAD: &str = "\
# What a change costs

<!-- Generated from crates/distro/src/cost: `UPDATE_GOLDEN=1 cargo test -p capstan-distro --test cost` -->

Every field of the API is in one of these classes. The planner, the in-place hooks and `capstan plan` ask the same table.

| class | what happens to the machine |
|---|---|
| nothing | nothing |
| live | something is written or run; Kubernetes on the machine does not notice |
| restart | Kubernetes on the machine is started again; pods keep running |
| drain and restart | pods are moved away first, if there is another machine that could take them |
| reboot | the machine itself is started again; no field needs that so far |
| replace | it takes another machine: refused, unless `spec.rollout.strategy.type` allows to replace |
| refused | it cannot be done; the field is named and nothing is touched |

`[]` stands for each entry of a list, `*` for each key of a map. `spec.config` of a CapstanControlPlane is the spec of a
CapstanConfig, and `spec.template.spec` of a MachineDeployment the spec of a Machine. What a change would really do to the
machines there are is said by [`capstan plan`](plan.md).
";

/// The documentation page, as Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for subject in Subject::ALL {
        _ = write!(page, "\n## {}\n\n| field | cost | why |\n|---|---|---|\n", subject.kind());
        for field in fields().iter().filter(|field| field.subject == subject) {
            let cost = match field.rule {
                Rule::Always(cost) => cost.name(),
                Rule::Version => "drain and restart; refused if it goes back or skips a minor version",
                Rule::Setting => "see below",
                Rule::Template => "what differs between the templates",
                Rule::File => "live; restart below the folders of Kubernetes itself",
            };
            _ = writeln!(page, "| `{}` | {cost} | {} |", field.path, field.why);
        }
    }
    page.push_str("\n## Settings of k3s\n\n| setting | machines | cost | why |\n|---|---|---|---|\n");
    for (key, machines, cost, why) in k3s::settings() {
        _ = writeln!(page, "| `{key}` | {machines} | {cost} | {why} |");
    }
    page.push_str("| any other | all | restart | k3s reads it when it starts |\n");
    page
}
