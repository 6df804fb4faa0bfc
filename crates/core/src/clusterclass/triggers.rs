//! What wakes a ClusterClass's reconcile.

use crate::Core;

use super::ClusterClassReconciler;

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let (cache, scope) = (core.caches.of(), core.scope.clone());
    // Templates, which the class owns.
    let also = core.externals.changes();
    capstan_controller::run::run(ClusterClassReconciler::new(core), cache, scope, also, stop).await;
}
