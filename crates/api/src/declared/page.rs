//! The reference page of all controllers, with a diagram.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Controller, Output};

const HEAD: &str = "# Who writes what

Every field that Capstan writes has one controller that writes it. This page is printed from the table in `crates/api/src/declared`, which tests
compare with what controllers have really written.

Left out are finalizers, owners and the label `cluster.x-k8s.io/cluster-name`: several controllers add them, and none writes over another. In the picture
an arrow leads from a controller to what it writes, and from what it reads to the controller.

";

/// The page in Markdown.
pub fn page(controllers: &[Controller]) -> String {
    let mut page = HEAD.to_owned();
    page += &picture(controllers);
    for one in controllers {
        _ = write!(page, "\n## {}\n\n", one.name);
        _ = writeln!(page, "Runs in the group `{}`.{}", one.group, managers(one.managers));
        if !one.reads.is_empty() {
            _ = writeln!(page, "Reads: {}.", one.reads.join(", "));
        }
        page += "\n| Writes | Fields |\n|---|---|\n";
        for output in one.writes {
            _ = writeln!(page, "| {} | {} |", whose(output), fields(output));
        }
    }
    page
}

fn managers(managers: &[&str]) -> String {
    match managers {
        [] => String::new(),
        managers => {
            let names: Vec<String> = managers.iter().map(|name| format!("`{name}`")).collect();
            format!(" Writes as {}.", names.join(", "))
        }
    }
}

fn whose(output: &Output) -> String {
    match output.of {
        "" => output.kind.to_owned(),
        of => format!("{} ({of})", output.kind),
    }
}

fn fields(output: &Output) -> String {
    let fields: Vec<String> = output.fields.iter().map(|field| format!("`{field}`")).collect();
    let shared = output.shared.map(|why| format!("; shared: {why}")).unwrap_or_default();
    fields.join(", ") + &shared
}

fn picture(controllers: &[Controller]) -> String {
    let mut lines = BTreeSet::new();
    let id = |kind: &str| kind.replace([' ', '\''], "_");
    for one in controllers {
        let me = format!("{}([{}])", id(one.name), one.name);
        for output in one.writes {
            lines.insert(format!("  {me} --> {}[{}]", id(output.kind), output.kind));
        }
        for kind in one.reads {
            lines.insert(format!("  {}[{kind}] -.-> {me}", id(kind)));
        }
    }
    let lines: Vec<String> = lines.into_iter().collect();
    format!("```mermaid\nflowchart LR\n{}\n```\n", lines.join("\n"))
}
