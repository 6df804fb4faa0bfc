//! Get and list: from memory, filtered, and in pages if requested.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{
    call::Call,
    object,
    registry::{Resource, Version},
    request::options::{Freshness, ListOptions},
    selector::{FieldSelector, LabelSelector},
    status::{ApiError, Result},
    store::{Listing, Stored},
};

/// Which objects a list or watch is about.
#[derive(Clone)]
pub(crate) struct Filter {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    version: Arc<Version>,
}

impl Filter {
    /// Refuses fields that the resource does not offer.
    pub(crate) fn new(call: &Call, options: &ListOptions) -> Result<Self> {
        for field in options.fields.fields() {
            let known = ["metadata.name", "metadata.namespace"].contains(&field)
                || call.version.selectable.iter().any(|selectable| selectable.label == field);
            if !known {
                return Err(unknown_field(&call.resource, &call.version, field));
            }
        }
        Ok(Self {
            namespace: (!call.namespace.is_empty()).then(|| call.namespace.clone()),
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            version: Arc::clone(&call.version),
        })
    }

    /// Whether everything of the resource is meant.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        let field = |field: &str| match field {
            "metadata.name" => stored.key.name.clone(),
            "metadata.namespace" => stored.key.namespace.clone(),
            field => {
                let selectable = self.version.selectable.iter().find(|selectable| selectable.label == field);
                let value = stored.value.once();
                match selectable.and_then(|selectable| selectable.path.first(&value)) {
                    None | Some(Value::Null) => String::new(),
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                }
            }
        };
        self.namespace.as_ref().is_none_or(|namespace| *namespace == stored.key.namespace)
            && (self.labels.is_empty() || self.labels.matches(&stored.value.head()))
            && (self.fields.is_empty() || self.fields.matches(field))
    }
}

fn unknown_field(resource: &Resource, version: &Version, field: &str) -> ApiError {
    if resource.is_custom() || !version.selectable.is_empty() {
        return ApiError::bad_request(format!("field label not supported: {field}"));
    }
    ApiError::bad_request(format!(
        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    ))
}

/// One page, or all.
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Stored>>,
    /// The list's metadata.
    pub(crate) metadata: Value,
}

/// Lists objects.
pub(crate) fn list(call: &Call, options: &ListOptions) -> Result<Page> {
    let filter = Filter::new(call, options)?;
    let token = options.continue_token.as_deref().map(Token::decode).transpose()?;
    let listing = listing(call, options, token.as_ref())?;
    let revision = listing.revision;
    let mut rest = listing.items.into_iter().filter(|stored| filter.matches(stored)).peekable();
    if let Some(token) = &token {
        while rest
            .next_if(|stored| (&stored.key.namespace, &stored.key.name) <= (&token.namespace, &token.name))
            .is_some()
        {}
    }
    let items: Vec<Arc<Stored>> = rest.by_ref().take(options.limit.unwrap_or(usize::MAX)).collect();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if call.resource.is_custom() {
        // Lists of these always have it.
        metadata["continue"] = "".into();
    }
    let remaining = rest.count();
    if let Some(last) = items.last().filter(|_| remaining > 0) {
        let token = Token { revision, namespace: last.key.namespace.clone(), name: last.key.name.clone() };
        metadata["continue"] = token.encode().into();
        if filter.is_unrestricted() {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    Ok(Page { items, metadata })
}

fn listing(call: &Call, options: &ListOptions, token: Option<&Token>) -> Result<Listing> {
    let store = &call.plane.store;
    let (resource, namespace) =
        (&call.resource.stored_as, Some(call.namespace.as_str()).filter(|ns| !ns.is_empty()));
    if let Some(token) = token {
        // Revision 0 is a fresh token for a list that may be inconsistent.
        if token.revision == 0 {
            return Ok(store.list(resource, namespace));
        }
        return store
            .list_at(resource, namespace, token.revision)
            .ok_or_else(|| ApiError::expired_page(Token { revision: 0, ..token.clone() }.encode()));
    }
    let current = store.revision();
    match options.freshness {
        Freshness::Exact(asked) | Freshness::NotOlderThan(asked) if asked > current => {
            Err(ApiError::revision_too_large(asked, current))
        }
        Freshness::Exact(asked) => store
            .list_at(resource, namespace, asked)
            .ok_or_else(|| ApiError::expired("The resourceVersion for the provided list is too old.")),
        Freshness::Latest | Freshness::Any | Freshness::NotOlderThan(_) => {
            Ok(store.list(resource, namespace))
        }
    }
}

/// Where the next page begins, and at which revision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    revision: u64,
    namespace: String,
    name: String,
}

impl Token {
    fn encode(&self) -> String {
        let Self { revision, namespace, name } = self;
        URL_SAFE_NO_PAD
            .encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": [namespace, name]}).to_string())
    }

    fn decode(text: &str) -> Result<Self> {
        let wrong = || ApiError::bad_request("invalid continue token: continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
        let part = |index: usize| value["start"][index].as_str().map(str::to_owned).ok_or_else(wrong);
        Ok(Self { revision: value["rv"].as_u64().ok_or_else(wrong)?, namespace: part(0)?, name: part(1)? })
    }
}

/// The kind of a list of the resource.
pub(crate) fn list_kind(call: &Call) -> (String, String) {
    (call.api_version(), call.resource.list_kind.clone())
}

/// `Success`, as upstream says it for what is gone.
pub(crate) fn success(call: &Call, gone: &Stored) -> Value {
    let mut details = json!({"name": gone.key.name});
    if !call.resource.name.group().is_empty() {
        details["group"] = call.resource.name.group().into();
    }
    details["kind"] = call.resource.name.resource().into();
    details["uid"] = object::uid(&gone.value.head()).into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_client() {
        let token = Token { revision: 7, namespace: "a".to_owned(), name: "b.c".to_owned() };
        assert_eq!(Token::decode(&token.encode()).unwrap(), token);
        assert!(Token::decode("nonsense").is_err());
    }
}
