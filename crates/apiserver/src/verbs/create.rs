//! Create: prepare once, write on condition that the name is free and the namespace still lives.

use serde_json::Value;
use uuid::Uuid;

use crate::{
    admission::{self, Attempt},
    auth::authorize,
    call::{Call, Outcome, Representation},
    fields, limit_range, object, quota_admission,
    rbac::Access,
    registry::Origin,
    request::options::WriteOptions,
    status::{ApiError, Result},
    store::{Action, Expect, Key, Write, WriteError},
    validation::{admit, metadata},
};

/// As often as upstream tries another random name.
const NAME_TRIES: usize = 8;

/// An object to store, as a request gave it.
pub(crate) struct NewObject {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
    /// The managed fields have been worked out already: it is an apply.
    pub(crate) tracked: bool,
    /// The request is an update or a patch of an object that does not exist. Only its right to update is checked so far.
    pub(crate) by_update: bool,
}

impl NewObject {
    /// An object from a create request.
    pub(crate) fn posted(object: Value, warnings: Vec<String>) -> Self {
        Self { object, warnings, tracked: false, by_update: false }
    }
}

/// Stores a new object.
pub(crate) async fn create(call: &Call, new: NewObject, options: &WriteOptions) -> Result<Outcome> {
    let warnings = new.warnings.clone();
    try_create(call, new, options).await.map_err(|error| error.warned(warnings))
}

async fn try_create(call: &Call, new: NewObject, options: &WriteOptions) -> Result<Outcome> {
    let NewObject { mut object, warnings, tracked, by_update } = new;
    check_namespace(call, &mut object)?;
    let generated =
        object::name(&object).is_empty().then(|| object::meta_str(&object, "generateName").to_owned());
    let generated = generated.filter(|prefix| !prefix.is_empty());
    let given = object;
    for _ in 0..NAME_TRIES {
        let mut object = given.clone();
        if let Some(prefix) = &generated {
            object::metadata_mut(&mut object).insert("name".to_owned(), random_name(prefix).into());
        }
        // Guards first: what is checked below must still hold when the write happens.
        let guards = guards(call, object::name(&object))?;
        prepare(call, &mut object, options, tracked);
        let (mut object, warnings) = admitted(call, object, warnings.clone(), options).await?;
        complete_and_admit(call, &mut object)?;
        if by_update {
            require_create(call)?;
        }
        let attempt = Attempt::create(object::name(&object), options);
        let more = admission::validate(call, &attempt, Some(&object)).await?;
        let warnings = [warnings, metadata::warnings(call, &object, None), more].concat();
        let key = call.resource.key(&call.namespace, object::name(&object));
        limit_range::validate(call, &object).map_err(|error| error.warned(warnings.clone()))?;
        // Held until the object is stored.
        let _permit = quota_admission::admit(call, &object, None)
            .await
            .map_err(|error| error.warned(warnings.clone()))?;
        if options.dry_run {
            if call.plane.store.get(&key).is_some() {
                return Err(taken(call, &object, &key.name).warned(warnings));
            }
            return Ok(Outcome { object: Representation::Made(object), created: true, warnings });
        }
        if !object::meta_str(&object, "resourceVersion").is_empty() {
            let error = ApiError::unexplained("resourceVersion should not be set on objects to be created");
            return Err(error.warned(warnings));
        }
        let write = Write {
            key: key.clone(),
            expect: Expect::Absent,
            action: Action::Put(call.to_stored(object).await?),
            guards,
        };
        match call.plane.store.write(write).await {
            Ok(stored) => {
                let object = call.present(&stored).await?;
                return Ok(Outcome { object, created: true, warnings });
            }
            Err(WriteError::Conflict) if call.plane.store.get(&key).is_some() && generated.is_none() => {
                return Err(taken(call, &given, &key.name).warned(warnings));
            }
            Err(WriteError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let name = generated.unwrap_or_else(|| object::name(&given).to_owned());
    Err(taken(call, &given, &name))
}

/// Checks the right to create. kube-apiserver does it here too: after the checks of the object, before validating admission.
fn require_create(call: &Call) -> Result<()> {
    let access = Access::Resource {
        verb: "create",
        group: call.resource.name.group(),
        namespace: &call.namespace,
        resource: call.resource.name.resource(),
        subresource: "",
        name: &call.name,
    };
    authorize::require(&call.plane.store, &call.user, &access)
}

/// The error for a name that another object has.
fn taken(call: &Call, object: &Value, name: &str) -> ApiError {
    let holder = call.plane.store.get(&call.resource.key(&call.namespace, name));
    if holder.is_some_and(|holder| object::is_terminating(&holder.value)) {
        return ApiError::going_away(&call.resource.name, name);
    }
    match object::meta_str(object, "generateName") {
        "" => ApiError::already_exists(&call.resource.name, name),
        _ => ApiError::no_free_name(&call.resource.name, name),
    }
}

fn check_namespace(call: &Call, object: &mut Value) -> Result<()> {
    let given = object::meta_str(object, "namespace").to_owned();
    if !call.resource.namespaced {
        object::metadata_mut(object).shift_remove("namespace");
        return Ok(());
    }
    if call.namespace.is_empty() {
        return Err(ApiError::method_not_allowed(""));
    }
    if !given.is_empty() && given != call.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object::metadata_mut(object).insert("namespace".to_owned(), call.namespace.as_str().into());
    Ok(())
}

/// What must not change while the object is made: its namespace, its CRD.
fn guards(call: &Call, name: &str) -> Result<Vec<(Key, u64)>> {
    let mut guards = Vec::new();
    if call.resource.namespaced {
        let namespace = call.plane.namespace(&call.namespace).ok_or_else(|| {
            ApiError::not_found(&crate::store::GroupResource::new("", "namespaces"), &call.namespace)
        })?;
        if namespace.is_terminating() {
            return Err(ApiError::namespace_terminating(&call.resource.name, name, &call.namespace));
        }
        guards.push((namespace.key.clone(), namespace.revision));
    }
    if let Origin::Custom { key, .. } = &call.resource.origin {
        let definition = call.plane.store.get(key).ok_or_else(ApiError::no_such_path)?;
        if definition.is_terminating() {
            let detail = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::method_not_allowed(detail));
        }
        guards.push((definition.key.clone(), definition.revision));
    }
    Ok(guards)
}

/// The object as webhooks leave it: still what it was, where it was.
async fn admitted(
    call: &Call,
    object: Value,
    mut warnings: Vec<String>,
    options: &WriteOptions,
) -> Result<(Value, Vec<String>)> {
    let before = object::metadata(&object).cloned().unwrap_or_default();
    let name = object::name(&object).to_owned();
    let mut object = object;
    limit_range::default(call, &mut object);
    let (changed, more) = admission::mutate(call, &Attempt::create(&name, options), Some(object)).await?;
    warnings.extend(more);
    let mut object = changed.unwrap_or_default();
    let metadata = object::metadata_mut(&mut object);
    for field in ["name", "namespace", "uid", "creationTimestamp", "generation"] {
        match before.get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.shift_remove(field),
        };
    }
    Ok((object, warnings))
}

fn prepare(call: &Call, object: &mut Value, options: &WriteOptions, tracked: bool) {
    let env = call.env();
    let rules = call.resource.rules;
    let metadata = object::metadata_mut(object);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
        metadata.shift_remove(field);
    }
    metadata.insert("uid".to_owned(), Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), object::time(env.now).into());
    if rules.generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    admit::default(call, object, tracked);
    if !tracked {
        fields::track(call, None, object, options);
    }
    // Whoever counts the fields of the object has seen it whole.
    if call.version.status
        && !rules.status_on_create
        && let Some(object) = object.as_object_mut()
    {
        object.shift_remove("status");
    }
}

/// Has the kind fill in its own, and refuses what breaks a rule.
fn complete_and_admit(call: &Call, object: &mut Value) -> Result<()> {
    let rules = call.resource.rules;
    (rules.on_create)(object, &call.env());
    debug_assert!(call.side.is_main(), "subresources do not create");
    (rules.admit_sent)(&call.writer(), object, None)?;
    (rules.admit)(&call.writer(), object, None)?;
    admit::validate(call, object, None)?;
    object::normalize_numbers(object);
    Ok(())
}

fn random_name(prefix: &str) -> String {
    // No vowels and no look-alikes, as upstream; a name keeps within 63 characters.
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let suffix: String =
        Uuid::new_v4().as_bytes()[..5].iter().map(|b| LETTERS[usize::from(*b) % 27] as char).collect();
    let kept: String = prefix.chars().take(58).collect();
    format!("{kept}{suffix}")
}
