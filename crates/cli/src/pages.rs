//! Lists objects in pages, to limit the memory of the server and of this program.

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

/// Objects in one answer, as kubectl asks for.
const PAGE: u32 = 500;
/// The token of the next page is too old.
const GONE: u16 = 410;

/// All objects that match the parameters, without their managed fields.
pub(crate) async fn list(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
    params: ListParams,
) -> kube::Result<Vec<Value>> {
    let mut objects = Vec::new();
    let mut page = ListParams { limit: Some(PAGE), ..params.clone() };
    loop {
        let answer = match api.list(&page).await {
            // What was read is of a revision that the server no longer has: all again, at once.
            Err(kube::Error::Api(status)) if status.code == GONE && page.continue_token.is_some() => {
                objects.clear();
                page = params.clone();
                continue;
            }
            answer => answer?,
        };
        for object in &answer.items {
            objects.push(value(object, resource)?);
        }
        match answer.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(objects),
        }
    }
}

/// The object with `apiVersion` and `kind`, which objects of a list lack, and without its managed fields.
pub(crate) fn value(object: &DynamicObject, resource: &ApiResource) -> kube::Result<Value> {
    let object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    let mut value = json!({"apiVersion": resource.api_version, "kind": resource.kind});
    for (key, field) in object.as_object().into_iter().flatten() {
        value[key] = field.clone();
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::Client;
    use kube::client::Body;
    use std::sync::{Arc, Mutex};

    fn resource() -> ApiResource {
        let (group, version) = ("x".to_owned(), "v1".to_owned());
        let (kind, plural) = ("Thing".to_owned(), "things".to_owned());
        ApiResource { group, version, api_version: "x/v1".to_owned(), kind, plural }
    }

    fn page(names: &[&str], next: &str) -> (u16, Value) {
        let items: Vec<Value> = names
            .iter()
            .map(|name| json!({"metadata": {"name": name, "managedFields": [{"manager": "m"}]}}))
            .collect();
        let metadata = json!({"continue": next});
        (200, json!({"apiVersion": "x/v1", "kind": "ThingList", "metadata": metadata, "items": items}))
    }

    /// A server that gives these answers, one after the other, and what it was asked.
    async fn listed(answers: Vec<(u16, Value)>) -> (Vec<String>, Vec<String>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (queue, seen) = (Arc::new(Mutex::new(answers.into_iter())), Arc::clone(&asked));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (queue, seen) = (Arc::clone(&queue), Arc::clone(&seen));
            async move {
                seen.lock().unwrap().push(request.uri().query().unwrap_or_default().to_owned());
                let (code, body) = queue.lock().unwrap().next().unwrap();
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        let api: Api<DynamicObject> = Api::all_with(Client::new(service, "default"), &resource());
        let objects = list(&api, &resource(), ListParams::default()).await.unwrap();
        assert!(
            objects.iter().all(|it| it["kind"] == "Thing" && it["metadata"].get("managedFields").is_none())
        );
        let names = objects.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        let asked = asked.lock().unwrap().clone();
        (names, asked)
    }

    #[tokio::test]
    async fn pages_are_one_list() {
        let (names, asked) = listed(vec![page(&["a", "b"], "next"), page(&["c"], "")]).await;
        assert_eq!(names, ["a", "b", "c"]);
        assert!(asked[0].contains("limit=500") && !asked[0].contains("continue"), "{asked:?}");
        assert!(asked[1].contains("limit=500") && asked[1].contains("continue=next"), "{asked:?}");
    }

    #[tokio::test]
    async fn a_token_that_is_too_old_begins_again_without_pages() {
        let gone = json!({"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"});
        let (names, asked) = listed(vec![page(&["a"], "next"), (410, gone), page(&["a", "b"], "")]).await;
        assert_eq!(names, ["a", "b"]);
        assert!(!asked[2].contains("limit") && !asked[2].contains("continue"), "{asked:?}");
    }
}
