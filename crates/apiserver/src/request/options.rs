//! The options of each verb, from the query and from `DeleteOptions` bodies.

use std::time::Duration;

use serde_json::Value;

use super::Query;
use crate::{
    selector::{FieldSelector, LabelSelector},
    status::{ApiError, Cause, Result},
};

/// What to do with fields that no schema knows, or that appear twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The options of create, update and patch.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: Option<bool>,
}

impl WriteOptions {
    /// `kind` is what upstream calls the options of the verb.
    pub(crate) fn parse(query: &Query, kind: &str) -> Result<Self> {
        let field_validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                let cause = Cause::unsupported("fieldValidation", &other.into(), &supported);
                return Err(ApiError::invalid_options(kind, cause));
            }
        };
        let field_manager = query.get("fieldManager").map(str::to_owned);
        if field_manager.as_ref().is_some_and(|manager| manager.len() > 128) {
            let message = "Too long: may not be more than 128 bytes".to_owned();
            let cause =
                Cause { reason: "FieldValueTooLong".to_owned(), field: "fieldManager".to_owned(), message };
            return Err(ApiError::invalid_options(kind, cause));
        }
        Ok(Self {
            dry_run: dry_run(query.all("dryRun"), kind)?,
            field_manager,
            field_validation,
            force: query.get("force").map(|value| value == "true" || value == "1"),
        })
    }
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, kind: &str) -> Result<bool> {
    let mut dry = false;
    for value in values.filter(|value| !value.is_empty()) {
        if value != "All" {
            let cause = Cause::unsupported("dryRun", &Value::Array(vec![value.into()]), &["All"]);
            return Err(ApiError::invalid_options(kind, cause));
        }
        dry = true;
    }
    Ok(dry)
}

/// What happens to the dependents of what is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// The options of delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// A body counts more than the query, as upstream has it.
    pub(crate) fn parse(query: &Query, body: Option<&Value>) -> Result<Self> {
        let Some(body) = body else {
            return Ok(Self {
                dry_run: dry_run(query.all("dryRun"), "DeleteOptions")?,
                propagation: propagation(
                    query.get("propagationPolicy"),
                    orphan(query.get("orphanDependents")),
                )?,
                ..Self::default()
            });
        };
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let dry = body.get("dryRun").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Ok(Self {
            dry_run: dry_run(
                dry.iter().filter_map(Value::as_str).chain(query.all("dryRun")),
                "DeleteOptions",
            )?,
            propagation: propagation(
                text("/propagationPolicy").or_else(|| query.get("propagationPolicy")),
                body.get("orphanDependents").and_then(Value::as_bool),
            )?,
            uid: text("/preconditions/uid").map(str::to_owned),
            resource_version: text("/preconditions/resourceVersion").map(str::to_owned),
        })
    }
}

fn orphan(value: Option<&str>) -> Option<bool> {
    value.map(|value| value == "true" || value == "1")
}

fn propagation(policy: Option<&str>, orphan: Option<bool>) -> Result<Option<Propagation>> {
    match (policy, orphan) {
        (None, None) => Ok(None),
        (None, Some(true)) | (Some("Orphan"), _) => Ok(Some(Propagation::Orphan)),
        (None, Some(false)) | (Some("Background"), _) => Ok(Some(Propagation::Background)),
        (Some("Foreground"), _) => Ok(Some(Propagation::Foreground)),
        (Some(other), _) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let cause = Cause::unsupported("propagationPolicy", &other.into(), &supported);
            Err(ApiError::invalid_options("DeleteOptions", cause))
        }
    }
}

/// Which state a list must be true at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The latest revision.
    Latest,
    /// Any revision: a watch begins with synthetic events.
    Any,
    /// This revision or a later one.
    NotOlderThan(u64),
    /// Exactly this revision.
    Exact(u64),
}

/// Rejects a `timeout` that is not a duration as Go writes it. The value itself is not used: requests have their own limits.
pub(crate) fn check_timeout(query: &Query) -> Result<()> {
    match query.get("timeout").filter(|text| !text.is_empty() && !is_go_duration(text)) {
        None => Ok(()),
        Some(text) => Err(ApiError::bad_request(format!(
            "invalid timeout specified in the request URL - time: invalid duration {text:?}"
        ))),
    }
}

/// Numbers with units, such as `1m30.5s`, with a sign or not; or zero.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, after) = rest.split_at(number);
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].into_iter().find_map(|unit| {
            let after = after.strip_prefix(unit)?;
            after
                .starts_with(|c: char| c.is_ascii_digit() || c == '.')
                .then_some(after)
                .or(after.is_empty().then_some(""))
        });
        match unit {
            Some(after)
                if number.contains(|c: char| c.is_ascii_digit()) && number.matches('.').count() < 2 =>
            {
                rest = after;
            }
            _ => return false,
        }
    }
    !text.is_empty() && text != "+" && text != "-"
}

/// The options of list, watch and deletecollection.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: Option<String>,
    pub(crate) freshness: Freshness,
    pub(crate) timeout: Option<Duration>,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn parse(query: &Query, watch: bool) -> Result<Self> {
        let number = |name: &str| -> Result<Option<u64>> {
            query.get(name).map(|text| text.parse().map_err(|_| not_a_number(name, text))).transpose()
        };
        let initial_events = query.get("sendInitialEvents").map(|value| value == "true" || value == "1");
        let matching = query.get("resourceVersionMatch");
        if watch && initial_events.is_some() && matching != Some("NotOlderThan") {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(ApiError::invalid_options(
                "ListOptions",
                Cause::forbidden("resourceVersionMatch", detail),
            ));
        }
        Ok(Self {
            labels: LabelSelector::parse(query.get("labelSelector").unwrap_or_default())?,
            fields: FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())?,
            limit: number("limit")?
                .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
                .filter(|l| *l > 0),
            continue_token: query.get("continue").map(str::to_owned),
            freshness: freshness(number("resourceVersion")?, matching)?,
            timeout: number("timeoutSeconds")?.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            bookmarks: query.flag("allowWatchBookmarks"),
            initial_events,
        })
    }
}

fn not_a_number(name: &str, text: &str) -> ApiError {
    match name {
        "resourceVersion" => ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        )),
        name => ApiError::bad_request(format!("invalid value for {name}: {text:?} is not a number")),
    }
}

fn freshness(version: Option<u64>, matching: Option<&str>) -> Result<Freshness> {
    let forbidden = |detail: &str| {
        Err(ApiError::invalid_options("ListOptions", Cause::forbidden("resourceVersionMatch", detail)))
    };
    match (version, matching) {
        (None, None | Some("NotOlderThan")) => Ok(Freshness::Latest),
        (Some(0), None | Some("NotOlderThan")) => Ok(Freshness::Any),
        (Some(version), None | Some("NotOlderThan")) => Ok(Freshness::NotOlderThan(version)),
        (Some(0), Some("Exact")) => {
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        (Some(version), Some("Exact")) => Ok(Freshness::Exact(version)),
        (None, Some("Exact")) => {
            forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
        }
        (_, Some(other)) => {
            let cause =
                Cause::unsupported("resourceVersionMatch", &other.into(), &["Exact", "NotOlderThan", ""]);
            Err(ApiError::invalid_options("ListOptions", cause))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(query: &str) -> Result<ListOptions> {
        ListOptions::parse(&Query::parse(Some(query)), false)
    }

    #[test]
    fn timeouts_are_durations_of_go() {
        for good in ["0", "32s", "1m30.5s", "-5ms", "10ns", "2h45m"] {
            assert!(is_go_duration(good), "{good}");
        }
        for bad in ["", "invalid", "5", "s", "1.2.3s", "5x", "-", "1 s", "."] {
            assert!(!is_go_duration(bad), "{bad}");
        }
    }

    #[test]
    fn versions_and_how_they_are_matched() {
        let freshness = |query: &str| list(query).map(|options| options.freshness).ok();
        assert_eq!(freshness(""), Some(Freshness::Latest));
        assert_eq!(freshness("resourceVersion=0"), Some(Freshness::Any));
        assert_eq!(freshness("resourceVersion=5"), Some(Freshness::NotOlderThan(5)));
        assert_eq!(freshness("resourceVersion=5&resourceVersionMatch=Exact"), Some(Freshness::Exact(5)));
        assert_eq!(freshness("resourceVersionMatch=Exact"), None);
        assert_eq!(freshness("resourceVersion=x"), None);
    }

    #[test]
    fn a_delete_body_counts_more_than_the_query() {
        let query = Query::parse(Some("propagationPolicy=Orphan"));
        let body =
            json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}, "dryRun": ["All"]});
        let options = DeleteOptions::parse(&query, Some(&body)).unwrap();
        assert_eq!(options.propagation, Some(Propagation::Foreground));
        assert_eq!((options.uid.as_deref(), options.dry_run), (Some("u"), true));
        assert_eq!(DeleteOptions::parse(&query, None).unwrap().propagation, Some(Propagation::Orphan));
    }
}
