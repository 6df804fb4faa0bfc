//! Texts of single cells, for all kinds. Pure.

use capstan_api::meta::annotations;
use jiff::Timestamp;
use serde_json::Value;

use crate::describe::age;

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// `True`, `False` or `Unknown`; empty if no controller has set the condition.
pub(super) fn status(object: &Value, type_: &str) -> String {
    condition(object, type_).map(|condition| text(&condition["status"])).unwrap_or_default()
}

pub(super) fn created(object: &Value, now: Timestamp) -> String {
    let created = object["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
    created.map(|created| age(created, now)).unwrap_or_default()
}

pub(super) fn phase(object: &Value) -> String {
    match object["metadata"]["deletionTimestamp"].is_string() {
        true => "Deleting".to_owned(),
        false => text(&object["status"]["phase"]),
    }
}

/// What the object waits for, on one line; empty if it does not wait. `summary` is the condition that summarizes the
/// others.
pub(super) fn waits_for(object: &Value, summary: &str) -> String {
    let is = |type_: &str, wanted: &str| status(object, type_) == wanted;
    if object["metadata"]["deletionTimestamp"].is_string() {
        return first_message(object, "Deleting").unwrap_or_else(|| "Deleting".to_owned());
    }
    let is_annotated = object["metadata"]["annotations"].get(annotations::PAUSED).is_some();
    if is("Paused", "True") || is_annotated || object["spec"]["paused"] == true {
        return "Paused".to_owned();
    }
    if !is(summary, "True") {
        return first_message(object, summary).unwrap_or_else(|| format!("no controller has set {summary}"));
    }
    let under_way = ["RollingOut", "Updating", "ScalingUp", "ScalingDown", "Remediating"];
    if let Some(type_) = under_way.into_iter().find(|type_| is(type_, "True")) {
        return match first_message(object, type_) {
            Some(message) if message != type_ => format!("{type_}: {message}"),
            _ => type_.to_owned(),
        };
    }
    match is("UpToDate", "False") {
        true => first_message(object, "UpToDate").unwrap_or_default(),
        false => String::new(),
    }
}

/// The message of a condition as one line, else its reason.
fn first_message(object: &Value, type_: &str) -> Option<String> {
    let condition = condition(object, type_)?;
    let message = text(&condition["message"]);
    let lines =
        message.lines().map(|line| line.trim().trim_start_matches("* ")).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    let (first, joined) = match lines[..] {
        [] => return Some(text(&condition["reason"])),
        // A line that only introduces the one below it says nothing by itself.
        [title, first, ..] if title.ends_with(':') => (format!("{title} {first}"), 2),
        [first, ..] => (first.to_owned(), 1),
    };
    Some(match lines.len() - joined {
        0 => first,
        more => format!("{first} (and {more} more)"),
    })
}
