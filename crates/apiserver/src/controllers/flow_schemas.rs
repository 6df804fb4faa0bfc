//! The condition `Dangling` of FlowSchemas: whether the priority level that one refers to does not exist.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::engine::{self, Controller};
use crate::{
    match_criteria::items,
    object,
    plane::Plane,
    registry::kinds::flow_control::{FLOW_SCHEMAS, GROUP, PRIORITY_LEVELS},
    status::Result,
    store::{Change, Event, GroupResource, Key, Listing},
};

const DANGLING: &str = "Dangling";

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, stopping: watch::Receiver<bool>) {
    engine::run(plane, stopping, Referee).await;
}

struct Referee;

/// What to look at.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Subject {
    /// A FlowSchema, by name.
    Schema(String),
    /// All that refer to a level, by its name.
    Level(String),
}

impl Controller for Referee {
    type Item = Subject;

    fn seed(&mut self, everything: &Listing) -> Vec<Subject> {
        let resource = schemas();
        let schemas = everything.items.iter().filter(|stored| stored.key.resource == resource);
        schemas.map(|stored| Subject::Schema(stored.key.name.clone())).collect()
    }

    fn observe(&mut self, event: &Event) -> Vec<Subject> {
        let Key { resource, name, .. } = &event.object.key;
        if *resource == schemas() && event.change != Change::Deleted {
            vec![Subject::Schema(name.clone())]
        } else if *resource == levels() && event.change != Change::Updated {
            vec![Subject::Level(name.clone())]
        } else {
            Vec::new()
        }
    }

    async fn process(&mut self, plane: &Arc<Plane>, item: &Subject) -> Result<Vec<Subject>> {
        match item {
            Subject::Schema(name) => {
                write_condition(plane, name).await?;
                Ok(Vec::new())
            }
            Subject::Level(level) => {
                let all = plane.store.list(&schemas(), None).items;
                let referring = all.iter().filter(|stored| level_of(&stored.value.once()) == level);
                Ok(referring.map(|stored| Subject::Schema(stored.key.name.clone())).collect())
            }
        }
    }
}

fn schemas() -> GroupResource {
    GroupResource::new(GROUP, FLOW_SCHEMAS)
}

fn levels() -> GroupResource {
    GroupResource::new(GROUP, PRIORITY_LEVELS)
}

fn level_of(schema: &Value) -> &str {
    object::text(schema, &["spec", "priorityLevelConfiguration", "name"])
}

/// Writes the condition of a FlowSchema, if it is not what it should be.
pub(crate) async fn write_condition(plane: &Plane, name: &str) -> Result<()> {
    let key = Key::new(schemas(), "", name);
    let Some(stored) = plane.store.get(&key) else { return Ok(()) };
    let uid = object::uid(&stored.value.head()).to_owned();
    engine::edit(plane, &key, &uid, |schema| {
        let level = level_of(schema).to_owned();
        let exists = plane.store.get(&Key::new(levels(), "", &level)).is_some();
        set_condition(schema, &level, exists, &object::time(plane.now()));
    })
    .await
}

fn set_condition(schema: &mut Value, level: &str, exists: bool, now: &str) {
    let said = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let wanted = if exists {
        [("status", "False"), ("reason", "Found"), ("message", &format!("{said} and it exists"))]
            .map(|(field, value)| (field, value.to_owned()))
    } else {
        [
            ("status", "True"),
            ("reason", "NotFound"),
            ("message", &format!("{said} but there is no such object")),
        ]
        .map(|(field, value)| (field, value.to_owned()))
    };
    let status = schema.get("status").unwrap_or(&Value::Null);
    let mut conditions = items(status, "conditions").to_vec();
    let place = conditions.iter().position(|condition| object::text(condition, &["type"]) == DANGLING);
    if let Some(place) = place {
        let is = |(field, value): &(&str, String)| object::text(&conditions[place], &[field]) == value;
        if wanted.iter().all(is) {
            return;
        }
    }
    let mut condition = json!({"type": DANGLING, "lastTransitionTime": now});
    for (field, value) in wanted {
        condition[field] = value.into();
    }
    match place {
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
    schema["status"]["conditions"] = conditions.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_changes_with_the_level() {
        let mut schema = json!({"status": {"conditions": [{"type": "Other", "status": "True"}]}});
        let mut set = |exists, now| {
            set_condition(&mut schema, "p", exists, now);
            schema["status"]["conditions"].clone()
        };
        let first = set(false, "1");
        assert_eq!(first[0]["type"], "Other");
        assert_eq!((&first[1]["status"], &first[1]["reason"]), (&json!("True"), &json!("NotFound")));
        assert_eq!(set(false, "2"), first, "nothing has changed");
        let found = set(true, "3");
        let message =
            "This FlowSchema references the PriorityLevelConfiguration object named \"p\" and it exists";
        assert_eq!(
            found[1],
            json!({
                "type": "Dangling", "status": "False", "reason": "Found", "message": message,
                "lastTransitionTime": "3",
            })
        );
        assert_eq!(found.as_array().map(Vec::len), Some(2));
    }
}
