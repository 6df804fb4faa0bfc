//! Reading, claiming and deleting a provider's object.

use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::error::Doing as _;
use capstan_controller::{Grounds, Result, destroy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::Reading;
use crate::Core;

/// Reads the object that a reference points to.
pub(crate) async fn read(
    core: &Core,
    reference: Option<&ContractVersionedObjectReference>,
    namespace: &str,
) -> (Reading, Result<()>) {
    let Some(reference) = reference else { return (Reading::Unreferenced, Ok(())) };
    match core.externals.get(reference, namespace).await {
        Ok(Some(object)) => (Reading::Found(Box::new(object)), Ok(())),
        Ok(None) => (Reading::Missing, Ok(())),
        Err(error) => (Reading::Unreadable, Err(error)),
    }
}

/// Gives an object its owners and the label of its Cluster. Says nothing to the server if it has them.
pub(crate) async fn claim(
    core: &Core,
    reference: &ContractVersionedObjectReference,
    namespace: &str,
    object: &DynamicObject,
    owners: &[OwnerReference],
    cluster_name: &str,
) -> Result<()> {
    let Some(patch) = claim_patch(object, owners, cluster_name) else { return Ok(()) };
    let api = core.externals.api(reference, namespace).await?;
    api.patch(&reference.name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .doing(|| format!("cannot become owner of {} {namespace}/{}", reference.kind, reference.name))?;
    Ok(())
}

/// What to send so that an object has these owners and belongs to a Cluster. The list of owners is replaced whole,
/// so it goes with the resource version.
fn claim_patch(object: &DynamicObject, owners: &[OwnerReference], cluster_name: &str) -> Option<Value> {
    let labelled = object.labels().get(labels::CLUSTER_NAME).is_some_and(|name| name == cluster_name);
    let owned = object.owner_references() == owners;
    if labelled && owned {
        return None;
    }
    let mut metadata = json!({});
    if !labelled {
        metadata["labels"] = json!({ labels::CLUSTER_NAME: cluster_name });
    }
    if !owned {
        metadata["resourceVersion"] = json!(object.resource_version());
        metadata["ownerReferences"] = json!(owners);
    }
    Some(json!({ "metadata": metadata }))
}

/// Deletes the object that a reference names. It is not an error if the object does not exist.
pub(crate) async fn delete(
    core: &Core,
    reference: &ContractVersionedObjectReference,
    namespace: &str,
) -> Result<()> {
    let api = core.externals.api(reference, namespace).await?;
    let grounds = Grounds::asked("the object that refers to it is deleted");
    destroy::delete_by_name(&api, &reference.name, &grounds).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(data: Value) -> DynamicObject {
        serde_json::from_value(data).expect("an object")
    }

    #[test]
    fn a_claim_that_changes_nothing_is_not_sent() {
        let owner = OwnerReference { name: "c".into(), kind: "Cluster".into(), ..Default::default() };
        let bare = object(json!({"apiVersion": "a/v1", "kind": "Host",
            "metadata": {"name": "h", "resourceVersion": "5"}}));
        let patch = claim_patch(&bare, std::slice::from_ref(&owner), "c").expect("something to do");
        assert_eq!(patch["metadata"]["labels"][labels::CLUSTER_NAME], "c");
        assert_eq!(patch["metadata"]["resourceVersion"], "5");
        let mut owned = bare;
        owned.metadata.owner_references = Some(vec![owner.clone()]);
        owned.metadata.labels = Some([(labels::CLUSTER_NAME.to_owned(), "c".to_owned())].into());
        assert_eq!(claim_patch(&owned, &[owner], "c"), None);
    }
}
