//! What a request is about, read from its method, path and query alone.

use http::Method;

use crate::rbac::Access;
use crate::selector::FieldSelector;

/// What a client wants to do with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The word that RBAC rules and messages use.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// A request for a resource, or for something else under a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestInfo {
    /// A request for a resource.
    Resource(ResourceRequest),
    /// Any other path: discovery, health, version, OpenAPI, or unknown.
    Other,
}

/// Which objects, and what to do with them. Empty texts stand for what the path does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceRequest {
    pub(crate) verb: Verb,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    /// The name a list or watch asks for with a field selector.
    pub(crate) selected: String,
    pub(crate) subresource: String,
}

impl ResourceRequest {
    /// What is asked, as rules see it.
    pub(crate) fn access(&self) -> Access<'_> {
        Access::Resource {
            verb: self.verb.as_str(),
            group: &self.group,
            namespace: &self.namespace,
            resource: &self.resource,
            subresource: &self.subresource,
            name: if self.name.is_empty() { &self.selected } else { &self.name },
        }
    }
}

impl RequestInfo {
    /// Reads a request; nothing if the method means nothing for a resource.
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Option<Self> {
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version) = match parts.as_slice() {
            ["api", version, _, ..] => ("", *version),
            ["apis", group, version, _, ..] => (*group, *version),
            _ => return Some(Self::Other),
        };
        parts.drain(..if group.is_empty() { 2 } else { 3 });
        let (namespace, parts) = match parts.as_slice() {
            // `namespaces/x`, `namespaces/x/status` and `namespaces/x/finalize` are about the namespace.
            ["namespaces", namespace, "status" | "finalize"] if group.is_empty() => (*namespace, &parts[..]),
            ["namespaces", namespace, _, ..] => (*namespace, &parts[2..]),
            ["namespaces", namespace] if group.is_empty() => (*namespace, &parts[..]),
            _ => ("", &parts[..]),
        };
        let resource = *parts.first()?;
        let name = parts.get(1).copied().unwrap_or_default();
        let subresource = parts.get(2..).unwrap_or_default().join("/");
        let watch = query.flag("watch");
        let verb = match (method.as_str(), name.is_empty()) {
            ("GET" | "HEAD", true) if watch => Verb::Watch,
            ("GET" | "HEAD", true) => Verb::List,
            ("GET" | "HEAD", false) => Verb::Get,
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", true) => Verb::DeleteCollection,
            ("DELETE", false) => Verb::Delete,
            _ => return None,
        };
        // Who asks for one object by its name may be allowed by rules for that name.
        let selected = match verb {
            Verb::List | Verb::Watch => selected_name(query),
            _ => None,
        };
        Some(Self::Resource(ResourceRequest {
            verb,
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            selected: selected.unwrap_or_default(),
            subresource,
        }))
    }
}

/// The one name that a field selector lets through.
fn selected_name(query: &Query) -> Option<String> {
    let selector = FieldSelector::parse(query.get("fieldSelector")?).ok()?;
    let name = selector.exact("metadata.name")?;
    let is_segment = name != "." && name != ".." && !name.contains(['/', '%']);
    is_segment.then(|| name.to_owned())
}

/// The query, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }

    /// The first value of this name, if it is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|v| !v.is_empty())
    }

    /// Names and values, in order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// All values of this name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether it is there and neither `false` nor `0`, as Go's query conversion has it.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.iter().find(|(key, _)| key == name).is_some_and(|(_, value)| value != "false" && value != "0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> Option<RequestInfo> {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
        RequestInfo::parse(&method.parse().unwrap(), path, &Query::parse(query))
    }

    fn resource(method: &str, uri: &str) -> (Verb, String) {
        match parse(method, uri) {
            Some(RequestInfo::Resource(r)) => {
                let parts = [r.group, r.version, r.namespace, r.resource, r.name, r.subresource];
                (r.verb, parts.join("|"))
            }
            other => panic!("{method} {uri}: {other:?}"),
        }
    }

    #[test]
    fn paths_say_what_is_meant() {
        let cases = [
            ("GET", "/api/v1/pods", Verb::List, "|v1||pods||"),
            ("GET", "/api/v1/pods?watch=1", Verb::Watch, "|v1||pods||"),
            ("GET", "/api/v1/pods?&watch=true", Verb::Watch, "|v1||pods||"),
            ("GET", "/api/v1/pods?watch=false", Verb::List, "|v1||pods||"),
            ("POST", "/api/v1/namespaces", Verb::Create, "|v1||namespaces||"),
            ("DELETE", "/api/v1/namespaces/a", Verb::Delete, "|v1|a|namespaces|a|"),
            ("PUT", "/api/v1/namespaces/a/finalize", Verb::Update, "|v1|a|namespaces|a|finalize"),
            ("DELETE", "/api/v1/namespaces/a/secrets", Verb::DeleteCollection, "|v1|a|secrets||"),
            ("PATCH", "/apis/g/v2/namespaces/a/things/b/status", Verb::Patch, "g|v2|a|things|b|status"),
            ("GET", "/apis/g/v2/things/b/", Verb::Get, "g|v2||things|b|"),
        ];
        for (method, uri, verb, expected) in cases {
            assert_eq!(resource(method, uri), (verb, expected.to_owned()), "{method} {uri}");
        }
    }

    #[test]
    fn a_list_may_name_one_object() {
        let selected = |uri: &str| match parse("GET", uri) {
            Some(RequestInfo::Resource(request)) => request.selected,
            other => panic!("{uri}: {other:?}"),
        };
        assert_eq!(selected("/api/v1/secrets?fieldSelector=metadata.name%3Da"), "a");
        assert_eq!(selected("/api/v1/secrets?watch=1&fieldSelector=type=x,metadata.name==a"), "a");
        assert_eq!(selected("/api/v1/secrets?fieldSelector=metadata.name!=a"), "");
        assert_eq!(selected("/api/v1/secrets?fieldSelector=metadata.name=a/b"), "");
        assert_eq!(selected("/api/v1/secrets?fieldSelector=nonsense"), "");
        assert_eq!(selected("/api/v1/secrets/b?fieldSelector=metadata.name=a"), "");
    }

    #[test]
    fn the_rest_is_other() {
        for uri in ["/", "/api", "/apis/apps", "/apis/apps/v1", "/api/v1/", "/version", "/openapi/v3/api/v1"]
        {
            assert_eq!(parse("GET", uri), Some(RequestInfo::Other), "{uri}");
        }
        assert_eq!(parse("OPTIONS", "/api/v1/pods"), None);
    }
}
