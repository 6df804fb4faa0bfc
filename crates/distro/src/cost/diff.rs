//! Compares two objects by the fields of the table. Pure.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

use super::table::{self, Rule, Subject, field};
use super::{Change, Cost, show, version};
use crate::{k3s, user};

/// Parts of an object that are compared.
const COMPARED: [&[&str]; 3] = [&["metadata", "labels"], &["metadata", "annotations"], &["spec"]];

pub(super) fn changes(subject: Subject, current: &Value, desired: &Value) -> Vec<Change> {
    let mut found = Diff { subject, changes: Vec::new() };
    for parts in COMPARED {
        let at = Place { pattern: parts.join("."), path: parts.join("."), name: String::new() };
        found.walk(&at, part(current, parts), part(desired, parts));
    }
    found.changes
}

fn part<'a>(object: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().try_fold(object, |value, key| value.get(key))
}

/// Where in an object.
struct Place {
    /// As the table says it.
    pattern: String,
    /// As people say it.
    path: String,
    /// The last key, or what tells the entry of a list from the others.
    name: String,
}

impl Place {
    fn key(&self, key: &str, is_map: bool) -> Self {
        let pattern = if is_map { "*" } else { key };
        Self {
            pattern: format!("{}.{pattern}", self.pattern),
            path: format!("{}.{key}", self.path),
            name: key.to_owned(),
        }
    }

    fn entry(&self, name: &str) -> Self {
        Self {
            pattern: format!("{}[]", self.pattern),
            path: format!("{}[{name}]", self.path),
            name: name.to_owned(),
        }
    }
}

struct Diff {
    subject: Subject,
    changes: Vec<Change>,
}

impl Diff {
    fn walk(&mut self, at: &Place, old: Option<&Value>, new: Option<&Value>) {
        let (old, new) = (set(old), set(new));
        if old == new {
            return;
        }
        let row = field(self.subject, &at.pattern);
        let is_whole = row.is_some_and(|row| row.whole && at.pattern.ends_with(last(row.path)));
        let keys = row.map(|row| row.keys).unwrap_or_default();
        if !is_whole {
            if let Some((old, new)) = both(old, new, Value::as_object) {
                return self.keys(at, old, new);
            }
            if let Some((old, new)) = both(old, new, Value::as_array).filter(|_| !keys.is_empty()) {
                return self.entries(at, keys, old, new);
            }
        }
        self.add_change(at, old, new);
    }

    fn keys(&mut self, at: &Place, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) {
        let is_map = table::is_map(self.subject, &at.pattern);
        let keys: BTreeSet<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
        for key in keys {
            let (old, new) = (old.and_then(|map| map.get(key)), new.and_then(|map| map.get(key)));
            self.walk(&at.key(key, is_map), old, new);
        }
    }

    fn entries(&mut self, at: &Place, keys: &[&str], old: Option<&Vec<Value>>, new: Option<&Vec<Value>>) {
        let name = |entry: &Value| -> String {
            let part = |key: &&str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            keys.iter().map(part).collect::<Vec<_>>().join(":")
        };
        let entries = || old.into_iter().chain(new).flatten();
        let names: BTreeSet<String> = entries().map(&name).collect();
        let mut differs = false;
        for wanted in &names {
            let is_it = |entry: &&Value| name(entry) == *wanted;
            let old = old.and_then(|list| list.iter().find(is_it));
            let new = new.and_then(|list| list.iter().find(is_it));
            differs |= old != new;
            let place = at.entry(wanted);
            match (old, new) {
                (Some(_), Some(_)) => self.walk(&place, old, new),
                // As one: that it comes or goes says more than each of its fields.
                _ => self.add_change(&place, old.map(|_| PRESENT), new.map(|_| PRESENT)),
            }
        }
        // Entries that cannot be told apart, or stand in another order, where that may count. What comes or goes was told above.
        let of = |list: Option<&Vec<Value>>| list.into_iter().flatten().map(&name).collect::<Vec<_>>();
        let (before, after) = (of(old), of(new));
        let common = |list: &[String], other: &[String]| {
            let other: BTreeSet<&String> = other.iter().collect();
            list.iter().filter(|name| other.contains(name)).cloned().collect::<Vec<_>>()
        };
        let (before, after) = (common(&before, &after), common(&after, &before));
        if !differs || before != after {
            self.reordered(at, &before, &after);
        }
    }

    /// Files that Kubernetes reads when it starts, and others, are each kept in their order.
    fn reordered(&mut self, at: &Place, old: &[String], new: &[String]) {
        let Some(row) = field(self.subject, &at.pattern).filter(|row| row.rule == Rule::File) else {
            return self.add_change(at, None, None);
        };
        let stays = |restarts: bool| {
            let counts = |path: &&String| k3s::restarts_for(path) == restarts;
            old.iter().filter(counts).eq(new.iter().filter(counts))
        };
        let (cost, why) = match (stays(true), stays(false)) {
            (false, _) => (Cost::Restart, "k3s reads these files when it starts"),
            (true, false) => (Cost::Live, row.why),
            (true, true) => (Cost::Nothing, SAME),
        };
        self.changes.push(Change::new(at.path.clone(), cost, why));
    }

    fn add_change(&mut self, at: &Place, old: Option<&Value>, new: Option<&Value>) {
        let (cost, why, shown) = match field(self.subject, &at.pattern) {
            // Tests see to it that there is none; what nobody has thought about must not be done.
            None => (Cost::Refused, "it is not known what it would cost", table::Disclosure::Digest),
            Some(row) => {
                let (cost, why) = self.cost(row, at, old, new);
                (cost, why, row.shown)
            }
        };
        self.changes.push(Change {
            field: at.path.clone(),
            from: show::show(shown, &at.name, old),
            to: show::show(shown, &at.name, new),
            cost,
            why: why.into(),
            origin: None,
        });
    }

    fn cost(
        &self,
        row: &table::Field,
        at: &Place,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> (Cost, &'static str) {
        match row.rule {
            Rule::Always(cost) => (cost, row.why),
            Rule::Version => version::cost(old.and_then(Value::as_str), new.and_then(Value::as_str)),
            Rule::Setting => k3s::setting_cost(&at.name),
            Rule::File if is_same(at, old, new) => (Cost::Nothing, SAME),
            Rule::File if k3s::restarts_for(file_of(&at.path)) => {
                (Cost::Restart, "k3s reads this file when it starts")
            }
            Rule::File => (Cost::Live, row.why),
            Rule::Template => (Cost::Nothing, row.why),
        }
    }
}

const SAME: &str = "it comes to the same";

/// Whether two ways to say it of a file mean the same.
fn is_same(at: &Place, old: Option<&Value>, new: Option<&Value>) -> bool {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let (old, new) = (text(old), text(new));
    let (old, new) = (old.as_deref(), new.as_deref());
    match at.name.as_str() {
        "permissions" => user::mode(old).is_some_and(|mode| Some(mode) == user::mode(new)),
        "owner" => user::ids(old).is_some_and(|ids| Some(ids) == user::ids(new)),
        _ => false,
    }
}

/// Stands for an entry that is there.
const PRESENT: &Value = &Value::Bool(true);

fn set(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

/// Both as one sort of value, if they are that or not there.
fn both<'a, T>(
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    read: impl Fn(&'a Value) -> Option<&'a T>,
) -> Option<(Option<&'a T>, Option<&'a T>)> {
    let read = |value: Option<&'a Value>| match value {
        None => Some(None),
        Some(value) => read(value).map(Some),
    };
    Some((read(old)?, read(new)?))
}

fn last(pattern: &str) -> &str {
    pattern.rsplit('.').next().unwrap_or(pattern)
}

/// The path of the file in `spec.files[/etc/motd].content`.
fn file_of(path: &str) -> &str {
    let from = path.find("files[").map_or(0, |at| at + "files[".len());
    let to = path.rfind(']').unwrap_or(path.len());
    path.get(from..to).unwrap_or_default()
}
