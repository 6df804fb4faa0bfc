//! Lists that are read page by page.

use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

const PAGE: u32 = 100;

/// All objects of a list.
///
/// # Errors
/// As the API server responds.
pub(super) async fn all<K>(api: &Api<K>, params: ListParams) -> kube::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    let mut items = Vec::new();
    loop {
        let page = api.list(&params).await?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(items),
        }
    }
}
