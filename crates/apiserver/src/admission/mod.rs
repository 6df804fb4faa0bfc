//! Admission of a write by webhooks and policies: mutating policies are evaluated, then mutating webhooks are called
//! one after the other. Validating policies are evaluated on the result; then validating webhooks are called, all at
//! once. The process that the server runs in may admit custom resources, too: it is asked before the webhooks.
//!
//! This module does not depend on a kind. Configurations of webhooks and policies are exempt: otherwise a broken one
//! could not be corrected.

mod access;
mod conditions;
mod matching;
mod mutations;
mod params;
mod policies;
mod process;
mod reinvocation;
mod review;

use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    call::Call,
    fields,
    process_admission::Operation,
    registry::{
        Side,
        webhook::configuration::{self, Hook, Phase},
    },
    request::options::{DeleteOptions, WriteOptions},
    status::{ApiError, Result},
    validation::{admit, scale},
};
use reinvocation::Reinvocation;
use review::{Asked, Verdict};

/// A write that wants to be admitted.
pub(crate) struct Attempt<'a> {
    pub(crate) operation: Operation,
    pub(crate) name: &'a str,
    /// What there is now, in the version of the request.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
    /// The options of the request, as its verb calls them.
    pub(crate) options: Value,
}

impl<'a> Attempt<'a> {
    pub(crate) fn create(name: &'a str, options: &WriteOptions) -> Self {
        let (dry_run, options) = (options.dry_run, written(options, "CreateOptions"));
        Self { operation: Operation::Create, name, old: None, dry_run, options }
    }

    pub(crate) fn update(name: &'a str, old: &'a Value, options: &WriteOptions) -> Self {
        let (dry_run, options) = (options.dry_run, written(options, "UpdateOptions"));
        Self { operation: Operation::Update, name, old: Some(old), dry_run, options }
    }

    pub(crate) fn delete(name: &'a str, old: &'a Value, options: &DeleteOptions) -> Self {
        let mut shown = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        if options.dry_run {
            shown["dryRun"] = json!(["All"]);
        }
        let operation = Operation::Delete;
        Self { operation, name, old: Some(old), dry_run: options.dry_run, options: shown }
    }
}

fn written(options: &WriteOptions, kind: &str) -> Value {
    let mut shown = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if options.dry_run {
        shown["dryRun"] = json!(["All"]);
    }
    if let Some(manager) = &options.field_manager {
        shown["fieldManager"] = manager.as_str().into();
    }
    shown
}

/// Whether nobody is asked about a resource.
fn is_exempt(call: &Call) -> bool {
    call.is_exempt || call.resource.name.group() == configuration::GROUP && !call.resource.is_custom()
}

/// Whether anything at all may be asked about the deletion of an object.
pub(crate) fn sees_deletions(call: &Call) -> bool {
    let phases = [Phase::Mutating, Phase::Validating];
    let has_policies = || !call.plane.policies.current(&call.plane.store).is_empty();
    !is_exempt(call)
        && (process::is_seen(call, Operation::Delete)
            || has_policies()
            || phases.into_iter().any(|phase| !configuration::all(&call.plane.store, phase).is_empty()))
}

/// Lets policies, then webhooks change an object; gives it as they leave it, and their warnings. Without an object it is a
/// deletion, which only webhooks are asked about, and which they can only refuse.
pub(crate) async fn mutate(
    call: &Call,
    attempt: &Attempt<'_>,
    mut object: Option<Value>,
) -> Result<(Option<Value>, Vec<String>)> {
    let mut warnings = Vec::new();
    if is_exempt(call) {
        return Ok((object, warnings));
    }
    let hooks = configuration::all(&call.plane.store, Phase::Mutating);
    let (mut policies, mut webhooks) = (Reinvocation::new(), Reinvocation::new());
    for second_round in [false, true] {
        let mut changed = false;
        if let Some(current) = object.take() {
            if second_round {
                policies.begin_again(Some(&current));
            }
            let (mutated, ran) = mutations::mutate(call, attempt, current, &mut policies).await?;
            (object, changed) = (Some(mutated), ran);
        }
        if second_round {
            webhooks.begin_again(object.as_ref());
        } else if let Some(current) = object.as_mut() {
            changed |= process::mutate(call, attempt, current, &mut warnings).await?;
        }
        for (number, hook) in hooks.iter().enumerate() {
            if webhooks.skips(&number) {
                continue;
            }
            let Some(version) = matching::version(call, attempt, hook, object.as_ref())? else { continue };
            let Some(verdict) = ask(call, attempt, hook, &version, object.as_ref()).await? else { continue };
            warnings.extend(verdict.warnings);
            if let (Some(patch), Some(current)) = (verdict.patch, object.as_mut()) {
                let patched = patched(call, hook, &version, current, &patch).await?;
                if *current != patched {
                    webhooks.changed();
                    changed = true;
                }
                *current = patched;
            }
            if hook.reinvoked {
                webhooks.ran(number);
            }
        }
        webhooks.end(object.as_ref());
        if !changed {
            break;
        }
    }
    Ok((object, warnings))
}

/// Lets policies, then webhooks refuse what will be written.
pub(crate) async fn validate(
    call: &Call,
    attempt: &Attempt<'_>,
    object: Option<&Value>,
) -> Result<Vec<String>> {
    if is_exempt(call) {
        return Ok(Vec::new());
    }
    let mut warnings = policies::validate(call, attempt, object).await?;
    warnings.extend(process::validate(call, attempt, object).await?);
    let hooks = configuration::all(&call.plane.store, Phase::Validating);
    let mut asked = Vec::new();
    for hook in &hooks {
        if let Some(version) = matching::version(call, attempt, hook, object)? {
            asked.push(async move { ask(call, attempt, hook, &version, object).await });
        }
    }
    for verdict in join_all(asked).await {
        warnings.extend(verdict?.map(|verdict| verdict.warnings).unwrap_or_default());
    }
    Ok(warnings)
}

/// Asks one webhook; nothing if it does not answer and may be done without.
async fn ask(
    call: &Call,
    attempt: &Attempt<'_>,
    hook: &Hook,
    version: &str,
    object: Option<&Value>,
) -> Result<Option<Verdict>> {
    if attempt.dry_run && !hook.dry_runs {
        let name = &hook.name;
        return Err(ApiError::bad_request(format!("admission webhook {name:?} does not support dry run")));
    }
    let mut shown = [None, None];
    for (shown, object) in shown.iter_mut().zip([object, attempt.old]) {
        if let Some(object) = object {
            *shown = Some(seen(call, version, object).await?);
        }
    }
    let [object, old] = shown;
    let uid = Uuid::new_v4().to_string();
    let asked = Asked { call, attempt, version, review: hook.review, uid: &uid };
    let review = asked.review(object.as_ref(), old.as_ref());
    let query = format!("?timeout={}s", hook.timeout.as_secs());
    let answer = call.plane.webhooks.call(&hook.target, &query, hook.timeout, &review).await;
    let verdict = answer
        .map_err(|error| format!("failed to call webhook: {error}"))
        .and_then(|answer| review::read(&answer, hook.review, &uid, hook.mutating));
    match verdict {
        Ok(verdict) => match &verdict.denied {
            Some(status) => Err(ApiError::denied(&hook.name, status)),
            None => Ok(Some(verdict)),
        },
        Err(reason) if hook.ignored => {
            tracing::warn!(webhook = hook.name, %reason, "a webhook failed and is ignored");
            Ok(None)
        }
        Err(reason) => Err(ApiError::internal(&format!("failed calling webhook {:?}: {reason}", hook.name))),
    }
}

/// An object as a webhook sees it: in the version it knows, and of a scale only that.
async fn seen(call: &Call, version: &str, object: &Value) -> Result<Value> {
    match call.side {
        Side::Scale => scale::show(call, object),
        _ => call.in_version(object, version).await,
    }
}

/// An object after a webhook's patch, in the version of the request again.
async fn patched(call: &Call, hook: &Hook, version: &str, object: &Value, patch: &Value) -> Result<Value> {
    let mut changed = seen(call, version, object).await?;
    fields::json_patch(&mut changed, patch).map_err(|error| {
        ApiError::internal(&format!("cannot apply the patch of {:?}: {error}", hook.name))
    })?;
    if let Side::Scale = call.side {
        return scale::set(call, object, &changed);
    }
    for field in ["apiVersion", "kind"] {
        let expected =
            if field == "kind" { call.resource.kind.clone() } else { call.resource.api_version(version) };
        if changed[field] != expected {
            let name = &hook.name;
            return Err(ApiError::internal(&format!("the patch of {name:?} makes another {field} of it")));
        }
    }
    let mut changed = call.in_version(&changed, &call.version.name).await?;
    admit::refit(call, &mut changed)?;
    Ok(changed)
}
