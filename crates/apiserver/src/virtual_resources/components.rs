//! ComponentStatuses: the health checks of this process, one object for each. They can be read, not watched and not written.

use std::sync::Arc;

use capstan_text::health::{Check, Health};
use serde_json::{Value, json};

use crate::{
    call::Call,
    health,
    request::options::ListOptions,
    status::{ApiError, Result},
    store::{GroupResource, Stored},
    verbs::read::{Filter, Page},
};

/// The object of one component.
pub(crate) fn get(call: &Call) -> Result<Arc<Stored>> {
    // The singular, as upstream.
    let missing = || ApiError::not_found(&GroupResource::new("", "componentstatus"), &call.name);
    all(call).into_iter().find(|component| component.key.name == call.name).ok_or_else(missing)
}

/// The objects that a list requests. There is no revision.
pub(crate) fn list(call: &Call, options: &ListOptions) -> Result<Page> {
    let filter = Filter::new(call, options)?;
    let items = all(call).into_iter().filter(|component| filter.matches(component)).collect();
    Ok(Page { items, metadata: json!({}) })
}

fn all(call: &Call) -> Vec<Arc<Stored>> {
    let stored = |check: &Check| {
        let key = call.resource.key("", check.name());
        Arc::new(Stored::new(key, 0, component(check.name(), check.health()).to_string().into()))
    };
    health::components(&call.plane).iter().map(stored).collect()
}

fn component(name: &str, health: Health) -> Value {
    let (status, message) = match health {
        Health::Ok => ("True", "ok".to_owned()),
        Health::NotReady(reason) | Health::NeedsRestart(reason) => ("False", reason),
    };
    json!({
        "apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_fails_is_an_unhealthy_component() {
        assert_eq!(component("store", Health::Ok)["conditions"][0]["status"], "True");
        let failed = component("store", Health::NotReady("the disk is full".to_owned()));
        let expected = json!([{"type": "Healthy", "status": "False", "message": "the disk is full"}]);
        assert_eq!((&failed["metadata"]["name"], &failed["conditions"]), (&json!("store"), &expected));
    }
}
