//! Digests of the inputs of steps. The planner compares them to find which steps would run again, the agent to find
//! which steps are done.

use serde::Serialize;
use std::collections::BTreeMap;

use super::{Action, MachinePlan, Step};
use crate::{Digest, StepName};

const DOMAIN: &[u8] = b"capstan.dev/step-inputs/v1\0";

/// What of a command decides its effect. Guards, undo, timeouts and marks for redaction do not.
#[derive(Serialize)]
struct CommandInputs<'a> {
    argv: &'a [String],
    env: Vec<(&'a str, &'a str)>,
}

impl MachinePlan {
    /// The digest of the inputs of every step.
    pub fn inputs(&self) -> BTreeMap<StepName, Digest> {
        let mut known = BTreeMap::new();
        for step in &self.steps {
            let digest = inputs_of(step, &known);
            known.insert(step.name.clone(), digest);
        }
        known
    }
}

fn inputs_of(step: &Step, earlier: &BTreeMap<StepName, Digest>) -> Digest {
    let own = match &step.action {
        Action::Command(command) => {
            let env = command.env.iter().map(|v| (v.name.as_str(), v.value.expose())).collect();
            serde_json::to_vec(&CommandInputs { argv: command.argv.words(), env })
        }
        Action::File(file) => {
            serde_json::to_vec(&(&file.path, file.content.digest(), file.mode, file.owner, file.group))
        }
        Action::Directory(directory) => {
            serde_json::to_vec(&(&directory.path, directory.mode, directory.owner, directory.group))
        }
        Action::Check(check) => serde_json::to_vec(check),
        Action::Artifact(artifact) => serde_json::to_vec(&(
            "artifact",
            artifact.sha256,
            &artifact.path,
            artifact.unpack,
            artifact.mode,
            artifact.owner,
            artifact.group,
        )),
        // The file is compared by itself: another content is written, but restarts nothing.
        Action::Unit(unit) => serde_json::to_vec(&("unit", &unit.name, &unit.restart)),
        Action::Gate(_) => serde_json::to_vec("gate"),
    }
    .expect("strings and numbers can be written as JSON");
    let own = Digest::of(&own);
    let mut parts: Vec<&[u8]> = vec![DOMAIN, own.as_bytes()];
    // A step may only name earlier ones: the others are refused when the plan is sealed or read.
    parts
        .extend(step.inputs.iter().filter_map(|name| earlier.get(name)).map(|digest| &digest.as_bytes()[..]));
    Digest::of_parts(&parts)
}
