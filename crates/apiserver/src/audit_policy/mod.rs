//! Audit policies of `audit.k8s.io/v1`: how much is recorded of which request. Read strictly and pure.

use serde_json::{Map, Value};

use crate::{
    names::{NameRule, name_error},
    rbac::Access,
    request::body,
    user::User,
};

const API_VERSION: &str = "audit.k8s.io/v1";
const LEVELS: [(&str, Level); 4] = [
    ("None", Level::None),
    ("Metadata", Level::Metadata),
    ("Request", Level::Request),
    ("RequestResponse", Level::RequestResponse),
];
const STAGES: [(&str, Stage); 4] = [
    ("RequestReceived", Stage::RequestReceived),
    ("ResponseStarted", Stage::ResponseStarted),
    ("ResponseComplete", Stage::ResponseComplete),
    ("Panic", Stage::Panic),
];

/// How much is recorded of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    Metadata,
    /// With the body of the request.
    Request,
    /// With the bodies of the request and of its response.
    RequestResponse,
}

impl Level {
    pub(super) fn as_str(self) -> &'static str {
        LEVELS.iter().find(|(_, level)| *level == self).map_or("", |(name, _)| name)
    }
}

/// When something is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    /// Never happens.
    Panic,
}

impl Stage {
    pub(super) fn as_str(self) -> &'static str {
        STAGES.iter().find(|(_, stage)| *stage == self).map_or("", |(name, _)| name)
    }
}

/// What a policy says about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) level: Level,
    pub(crate) omitted: Vec<Stage>,
    pub(crate) omit_managed_fields: bool,
}

/// An audit policy.
#[derive(Clone, Debug)]
pub struct AuditPolicy {
    rules: Vec<Rule>,
    /// For requests that no rule is about, and beside those of each rule.
    omitted: Vec<Stage>,
    omit_managed_fields: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    decision: Decision,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<Resources>,
    namespaces: Vec<String>,
    urls: Vec<String>,
}

#[derive(Clone, Debug)]
struct Resources {
    group: String,
    resources: Vec<String>,
    names: Vec<String>,
}

/// Why a file is not an audit policy: each fault with its field.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct AuditPolicyError(Vec<String>);

impl AuditPolicy {
    /// Reads a policy in YAML or JSON.
    ///
    /// # Errors
    /// If it is not a policy, has a field that does not exist, or a value that a field cannot have.
    pub fn parse(text: &str) -> Result<Self, AuditPolicyError> {
        let decoded =
            body::yaml(text.as_bytes()).map_err(|error| AuditPolicyError(vec![error.to_string()]))?;
        let mut faults = decoded.duplicates.errors();
        let policy = Reader { faults: &mut faults }.policy(&decoded.value);
        if faults.is_empty() { Ok(policy) } else { Err(AuditPolicyError(faults)) }
    }

    /// What the first rule about a request says.
    pub(crate) fn decide(&self, user: &User, access: &Access<'_>) -> Decision {
        let rule = self.rules.iter().find(|rule| rule.is_about(user, access));
        rule.map_or_else(
            || Decision {
                level: Level::None,
                omitted: self.omitted.clone(),
                omit_managed_fields: self.omit_managed_fields,
            },
            |rule| rule.decision.clone(),
        )
    }
}

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|own| own == word)
}

impl Rule {
    /// An empty list is about everything.
    fn is_about(&self, user: &User, access: &Access<'_>) -> bool {
        let verb = match *access {
            Access::Resource { verb, .. } | Access::Path { verb, .. } => verb,
        };
        let is_of_group = || user.groups.iter().any(|group| has(&self.groups, group));
        let is_about_user = (self.users.is_empty() || has(&self.users, &user.name))
            && (self.groups.is_empty() || is_of_group())
            && (self.verbs.is_empty() || has(&self.verbs, verb));
        let is_about_target = match *access {
            Access::Resource { namespace, .. } => {
                self.urls.is_empty()
                    && (self.namespaces.is_empty() || has(&self.namespaces, namespace))
                    && (self.resources.is_empty() || self.resources.iter().any(|one| one.have(access)))
            }
            Access::Path { path, .. } => {
                self.resources.is_empty()
                    && self.namespaces.is_empty()
                    && (self.urls.is_empty() || self.urls.iter().any(|url| is_url_of(url, path)))
            }
        };
        is_about_user && is_about_target
    }
}

fn is_url_of(url: &str, path: &str) -> bool {
    url == path || url.strip_suffix('*').is_some_and(|start| path.starts_with(start))
}

impl Resources {
    fn have(&self, access: &Access<'_>) -> bool {
        let Access::Resource { group, resource, subresource, name, .. } = *access else { return false };
        if self.group != "*" && self.group != group {
            return false;
        }
        let full =
            if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
        let is_one = |own: &String| {
            own == "*"
                || *own == full
                || own.strip_suffix("/*") == Some(resource)
                || (!subresource.is_empty() && own.strip_prefix("*/") == Some(subresource))
        };
        self.resources.is_empty()
            || ((self.names.is_empty() || has(&self.names, name)) && self.resources.iter().any(is_one))
    }
}

/// Reads fields, and notes what is wrong with them.
struct Reader<'a> {
    faults: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn policy(&mut self, value: &Value) -> AuditPolicy {
        let known = ["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"];
        let empty = Map::new();
        let policy = self.object(value, "", &known).unwrap_or(&empty);
        for (field, expected) in [("apiVersion", API_VERSION), ("kind", "Policy")] {
            if policy.get(field).is_none_or(|value| value != expected) {
                self.faults.push(format!("{field}: must be {expected}"));
            }
        }
        let omitted = self.stages(policy, "");
        let omit_managed_fields = self.flag(policy, "").unwrap_or(false);
        let rules = match policy.get("rules") {
            Some(Value::Array(rules)) if !rules.is_empty() => rules.as_slice(),
            _ => {
                self.faults.push("rules: must be a list of at least one rule".to_owned());
                &[]
            }
        };
        let rules = rules
            .iter()
            .enumerate()
            .map(|(index, rule)| self.rule(rule, &format!("rules[{index}]"), &omitted, omit_managed_fields));
        AuditPolicy { rules: rules.collect(), omitted: omitted.clone(), omit_managed_fields }
    }

    fn rule(&mut self, value: &Value, at: &str, omitted: &[Stage], omit_managed_fields: bool) -> Rule {
        let known = [
            "level",
            "users",
            "userGroups",
            "verbs",
            "resources",
            "namespaces",
            "nonResourceURLs",
            "omitStages",
            "omitManagedFields",
        ];
        let empty = Map::new();
        let rule = self.object(value, at, &known).unwrap_or(&empty);
        let level = match rule.get("level") {
            Some(Value::String(text)) => self.word(text, &format!("{at}.level"), LEVELS),
            _ => {
                self.faults.push(format!("{at}.level: must be one of {}", words(LEVELS)));
                None
            }
        };
        let mut stages = self.stages(rule, at);
        stages.extend(omitted);
        let decision = Decision {
            level: level.unwrap_or(Level::None),
            omitted: stages,
            omit_managed_fields: self.flag(rule, at).unwrap_or(omit_managed_fields),
        };
        let mut texts = |field: &str| self.texts(rule, at, field);
        let (users, groups, verbs) = (texts("users"), texts("userGroups"), texts("verbs"));
        let (namespaces, urls) = (texts("namespaces"), texts("nonResourceURLs"));
        for (index, url) in urls.iter().enumerate() {
            self.url(url, &format!("{at}.nonResourceURLs[{index}]"));
        }
        let resources = self.list(rule, at, "resources");
        let is_about_resources = !resources.is_empty() || !namespaces.is_empty();
        if is_about_resources && !urls.is_empty() {
            let fault = "a rule is about resources or about non-resource URLs, not about both";
            self.faults.push(format!("{at}.nonResourceURLs: {fault}"));
        }
        let resources = resources.iter().enumerate();
        let resources =
            resources.map(|(index, value)| self.resources(value, &format!("{at}.resources[{index}]")));
        Rule { decision, users, groups, verbs, resources: resources.collect(), namespaces, urls }
    }

    fn resources(&mut self, value: &Value, at: &str) -> Resources {
        let empty = Map::new();
        let fields = self.object(value, at, &["group", "resources", "resourceNames"]).unwrap_or(&empty);
        let group = match fields.get("group") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(group)) => group.clone(),
            Some(_) => {
                self.faults.push(format!("{at}.group: must be a string"));
                String::new()
            }
        };
        if !matches!(group.as_str(), "" | "*")
            && let Some(fault) = name_error(NameRule::Subdomain, &group)
        {
            self.faults.push(format!("{at}.group: {fault}"));
        }
        let (resources, names) =
            (self.texts(fields, at, "resources"), self.texts(fields, at, "resourceNames"));
        if resources.is_empty() && !names.is_empty() {
            self.faults.push(format!("{at}.resourceNames: needs at least one resource"));
        }
        Resources { group, resources, names }
    }

    fn url(&mut self, url: &str, at: &str) {
        if url != "*" && !url.starts_with('/') {
            self.faults.push(format!("{at}: must begin with a slash"));
        }
        if url.strip_suffix('*').unwrap_or(url).contains('*') {
            self.faults.push(format!("{at}: a wildcard must be the last character"));
        }
    }

    /// An object with no other fields than these.
    fn object<'v>(&mut self, value: &'v Value, at: &str, known: &[&str]) -> Option<&'v Map<String, Value>> {
        let Some(object) = value.as_object() else {
            let at = if at.is_empty() { "the policy" } else { at };
            self.faults.push(format!("{at}: must be an object"));
            return None;
        };
        for field in object.keys().filter(|field| !known.contains(&field.as_str())) {
            self.faults.push(format!("{}: unknown field", path(at, field)));
        }
        Some(object)
    }

    fn list<'v>(&mut self, object: &'v Map<String, Value>, at: &str, field: &str) -> &'v [Value] {
        match object.get(field) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.faults.push(format!("{}: must be a list", path(at, field)));
                &[]
            }
        }
    }

    fn texts(&mut self, object: &Map<String, Value>, at: &str, field: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for (index, item) in self.list(object, at, field).iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text.clone()),
                _ => self.faults.push(format!("{}[{index}]: must be a string", path(at, field))),
            }
        }
        texts
    }

    fn stages(&mut self, object: &Map<String, Value>, at: &str) -> Vec<Stage> {
        let texts = self.texts(object, at, "omitStages");
        let at = path(at, "omitStages");
        let stages = texts.iter().enumerate();
        stages.filter_map(|(index, text)| self.word(text, &format!("{at}[{index}]"), STAGES)).collect()
    }

    fn flag(&mut self, object: &Map<String, Value>, at: &str) -> Option<bool> {
        match object.get("omitManagedFields") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(flag)) => Some(*flag),
            Some(_) => {
                self.faults.push(format!("{}: must be true or false", path(at, "omitManagedFields")));
                None
            }
        }
    }

    /// What a word stands for.
    fn word<T: Copy>(&mut self, text: &str, at: &str, known: [(&str, T); 4]) -> Option<T> {
        let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            self.faults.push(format!("{at}: must be one of {}, not {text:?}", words(known)));
        }
        found
    }
}

fn path(at: &str, field: &str) -> String {
    if at.is_empty() { field.to_owned() } else { format!("{at}.{field}") }
}

fn words<T>(known: [(&str, T); 4]) -> String {
    known.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests;
