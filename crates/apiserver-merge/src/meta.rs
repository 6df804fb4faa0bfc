//! The shape of `apiVersion`, `kind` and `metadata`, which is the same for every kind, and those of their fields that
//! no manager can own.

use crate::fields::FieldSet;
use crate::shape::{Field, MapShape, Scalar, Type};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Gives a resource its `apiVersion`, `kind` and `metadata`, whatever its schema says of them.
pub(crate) fn add_to(resource: &mut MapShape) {
    for name in ["apiVersion", "kind"] {
        resource.fields.insert(name.into(), field(Type::scalar(Scalar::String)));
    }
    resource.fields.insert("metadata".into(), field(OBJECT_META.clone()));
}

fn field(ty: Type) -> Field {
    Field { ty, default: None }
}

fn structure(fields: &[(&str, Type)]) -> MapShape {
    let fields = fields.iter().map(|(name, ty)| ((*name).to_string(), field(ty.clone())));
    MapShape { fields: fields.collect(), others: None, atomic: false }
}

static OBJECT_META: LazyLock<Type> = LazyLock::new(|| {
    let text = || Type::scalar(Scalar::String);
    let time = || Type::scalar(Scalar::Untyped);
    let number = || Type::scalar(Scalar::Numeric);
    let flag = || Type::scalar(Scalar::Boolean);
    let texts = || Type::map(MapShape { fields: BTreeMap::new(), others: Some(text()), atomic: false });
    let mut owner = structure(&[
        ("apiVersion", text()),
        ("blockOwnerDeletion", flag()),
        ("controller", flag()),
        ("kind", text()),
        ("name", text()),
    ]);
    owner.atomic = true;
    // The key of the list: without it, it is empty.
    owner.fields.insert("uid".to_string(), Field { ty: text(), default: Some("".into()) });
    Type::map(structure(&[
        ("annotations", texts()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", number()),
        ("deletionTimestamp", time()),
        ("finalizers", Type::list(text(), false, &[])),
        ("generateName", text()),
        ("generation", number()),
        ("labels", texts()),
        ("managedFields", Type::list(Type::Untyped, true, &[])),
        ("name", text()),
        ("namespace", text()),
        ("ownerReferences", Type::list(Type::map(owner), false, &["uid"])),
        ("resourceVersion", text()),
        ("selfLink", text()),
        ("uid", text()),
    ]))
});

/// Fields that belong to the server or name the object, and so to nobody.
pub(crate) static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// The `metadata` of an object, made if it has none; `None` if the object is none.
pub(crate) fn of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let metadata = object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    metadata.as_object_mut()
}

/// Takes `metadata.managedFields` out of an object.
pub(crate) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.shift_remove("managedFields")
}
