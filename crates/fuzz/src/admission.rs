//! Writes of Cluster API's objects: defaults see any JSON, rules what types can read.

use capstan_admission::{
    Fact, Facts, Kind, Operation, Workers, Write, default, needs_of_default, needs_of_validate, validate,
};
use serde::Deserialize;
use serde_json::Value;

/// The longest message that a client gets.
const LONGEST: usize = 1 << 20;

/// A write, and what is on the plane: each field an object as JSON.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Input {
    group: String,
    kind: String,
    operation: String,
    old: Option<Value>,
    new: Option<Value>,
    class: Option<Value>,
    clusters: Vec<Value>,
    control_plane: Option<Value>,
    workers: Vec<Value>,
}

/// Defaults are complete after one round, and rules reject or admit.
pub(crate) fn admission(input: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Input>(input) else { return };
    let Some(kind) = Kind::find(&input.group, &input.kind) else { return };
    let Some(operation) = Operation::parse(&input.operation) else { return };
    let known = |value: &Option<Value>| value.clone().map_or(Fact::Absent, Fact::Known);
    let facts = Facts {
        class: known(&input.class),
        old_class: known(&input.class),
        clusters: Fact::Known(input.clusters.clone()),
        control_plane: known(&input.control_plane),
        workers: Fact::Known(Workers {
            deployments: input.workers.clone(),
            pools: input.workers.clone(),
            machines: input.workers.clone(),
        }),
        claim: known(&input.class),
    };
    let write = |new| Write { kind, operation, old: input.old.as_ref(), new };
    let sent = write(input.new.as_ref());
    _ = (needs_of_default(&sent), needs_of_validate(&sent));
    let changed = match default(&sent, &facts) {
        Ok((changed, _)) => changed,
        Err(rejection) => return assert!(format!("{rejection:?}").len() < LONGEST, "a long rejection"),
    };
    let defaulted = write(changed.as_ref().or(input.new.as_ref()));
    if let Ok((again, _)) = default(&defaulted, &facts) {
        assert_eq!(again, None, "defaults change what has its defaults");
    }
    for facts in [&facts, &Facts::default()] {
        if let Err(rejection) = validate(&defaulted, facts) {
            assert!(format!("{rejection:?}").len() < LONGEST, "a long rejection");
        }
    }
}
