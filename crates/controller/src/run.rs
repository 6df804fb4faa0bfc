//! The loop that runs a reconciler.

use futures::{Stream, StreamExt as _};
use kube::Resource;
use kube::api::Api;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Error, Result, chain};

/// Reconciles of one kind that may run at the same time: a restart must not flood the API server.
const AT_ONCE: u16 = 50;

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// What happens to the object next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing before something changes.
    Changed,
    /// Another look after this time, or earlier if something changes.
    After(Duration),
}

impl Next {
    /// The sooner of the two.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::After(a), Self::After(b)) => Self::After(a.min(b)),
            (Self::After(time), Self::Changed) | (Self::Changed, Self::After(time)) => Self::After(time),
            (Self::Changed, Self::Changed) => Self::Changed,
        }
    }
}

/// Brings the world a step closer to what one object says.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind it reconciles.
    type Object: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static;

    /// Name for logs and metrics.
    fn name(&self) -> &'static str;

    /// One step. May be called at any time, any number of times, and may be cut short anywhere.
    fn reconcile(&self, object: Arc<Self::Object>) -> impl Future<Output = Result<Next>> + Send;
}

struct Context<R: Reconciler> {
    reconciler: R,
    failures: Mutex<HashMap<ObjectRef<R::Object>, u32>>,
}

/// Runs `reconciler` until `stop` is done: for every change of its own objects in `api` that `own` selects, and for
/// every one of them that `also` names. What else `also` names is not ours to look after.
pub async fn run<R>(
    reconciler: R,
    api: Api<R::Object>,
    own: watcher::Config,
    also: impl Stream<Item = ObjectRef<R::Object>> + Send + 'static,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) where
    R: Reconciler,
    ObjectRef<R::Object>: Hash + Eq,
{
    let name = reconciler.name();
    let context = Arc::new(Context { reconciler, failures: Mutex::default() });
    Controller::new(api, own)
        .with_config(Config::default().concurrency(AT_ONCE))
        .reconcile_on(also)
        .graceful_shutdown_on(stop)
        .run(reconcile, |object, error, context| on_error::<R>(&object, error, &context), context)
        .for_each(|result| async move {
            if let Err(kube::runtime::controller::Error::QueueError(error)) = &result {
                tracing::warn!(controller = name, %error, "watch failed; trying again");
            }
        })
        .await;
}

async fn reconcile<R: Reconciler>(object: Arc<R::Object>, context: Arc<Context<R>>) -> Result<Action> {
    let next = context.reconciler.reconcile(object.clone()).await?;
    context.failures().remove(&ObjectRef::from_obj(object.as_ref()));
    Ok(match next {
        Next::Changed => Action::await_change(),
        Next::After(time) => Action::requeue(time),
    })
}

fn on_error<R: Reconciler>(object: &R::Object, error: &Error, context: &Context<R>) -> Action {
    let reference = ObjectRef::from_obj(object);
    let controller = context.reconciler.name();
    match error {
        Error::Conflict { .. } => {
            tracing::debug!(controller, object = %reference, error = %chain(error), "trying again");
            Action::requeue(FIRST_RETRY)
        }
        Error::User { .. } => {
            tracing::warn!(controller, object = %reference, error = %chain(error), "waits for a change");
            Action::requeue(LONGEST_RETRY)
        }
        Error::Transient { .. } | Error::Forbidden { .. } => {
            let failures = {
                let mut all = context.failures();
                let failures = all.entry(reference.clone()).or_default();
                *failures += 1;
                *failures
            };
            let wait = back_off(failures);
            tracing::warn!(controller, object = %reference, error = %chain(error), ?wait, "failed");
            Action::requeue(wait)
        }
    }
}

impl<R: Reconciler> Context<R> {
    fn failures(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectRef<R::Object>, u32>> {
        // Only a count is inside: a panic elsewhere has not broken it.
        self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Doubles with every failure in a row.
fn back_off(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sooner_look_counts() {
        let (short, long) = (Next::After(Duration::from_secs(1)), Next::After(Duration::from_secs(9)));
        assert_eq!(short.or(long), short);
        assert_eq!(Next::Changed.or(long), long);
        assert_eq!(Next::Changed.or(Next::Changed), Next::Changed);
    }

    #[test]
    fn back_off_grows_and_ends() {
        assert_eq!(back_off(1), FIRST_RETRY);
        assert_eq!(back_off(2), FIRST_RETRY * 2);
        assert_eq!(back_off(40), LONGEST_RETRY);
    }
}
