//! The head of a request, parsed once.

use http::request::Parts;

use super::{Query, RequestInfo, Verb};

/// What a request says before its body.
pub(crate) struct Head {
    pub(crate) parts: Parts,
    pub(crate) query: Query,
    /// `None` if the method has no meaning for the path.
    pub(crate) info: Option<RequestInfo>,
}

impl Head {
    pub(crate) fn parse(parts: Parts) -> Self {
        let query = Query::parse(parts.uri.query());
        let info = RequestInfo::parse(&parts.method, parts.uri.path(), &query);
        Self { parts, query, info }
    }

    pub(crate) fn is_watch(&self) -> bool {
        matches!(&self.info, Some(RequestInfo::Resource(request)) if request.verb == Verb::Watch)
    }
}
