//! Health of the controllers in this process: whether they run, and whether their caches are synced.
//!
//! Readiness needs all of it. Liveness fails only if a controller has ended although nothing has stopped it: the others do
//! its work no more than a second replica that waits for the Lease.

use capstan_controller::Caches;
use capstan_text::health::{Check, Health};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::stop::Stop;

/// How long a kind that is watched later than at the start may take for its first list.
const FIRST_LIST: Duration = Duration::from_secs(30);

/// Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ControllerHealth(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Groups of controllers that are to run, and have not been started.
    awaited: BTreeMap<&'static str, Awaited>,
    /// Every task, with its group.
    tasks: Vec<(&'static str, Phase)>,
    caches: Option<Caches>,
    /// Whether all caches have been synced at once.
    has_synced: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Start,
    /// Another replica leads.
    Lease,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Running,
    /// The process was told to stop.
    Stopped,
    /// It ended by itself.
    Ended,
}

/// One task. Dropped when it ends, also by a panic.
pub(crate) struct Task {
    health: ControllerHealth,
    number: usize,
    stop: Stop,
}

impl ControllerHealth {
    /// These groups are going to be started.
    pub(crate) fn expect(&self, groups: impl IntoIterator<Item = &'static str>) {
        self.lock().awaited.extend(groups.into_iter().map(|group| (group, Awaited::Start)));
    }

    /// This replica waits for the Lease: groups that only the leader runs do not count.
    pub(crate) fn stand_by(&self, groups: impl IntoIterator<Item = &'static str>) {
        let mut state = self.lock();
        for group in groups {
            if let Some(awaited) = state.awaited.get_mut(group) {
                *awaited = Awaited::Lease;
            }
        }
    }

    /// Controllers read from these caches.
    pub(crate) fn read_from(&self, caches: &Caches) {
        self.lock().caches = Some(caches.clone());
    }

    /// A task of a group, which is starting.
    pub(crate) fn task(&self, group: &'static str, stop: &Stop) -> Task {
        let mut state = self.lock();
        state.awaited.remove(group);
        state.tasks.push((group, Phase::Starting));
        Task { health: self.clone(), number: state.tasks.len() - 1, stop: stop.clone() }
    }

    /// Runs a controller as a task of a group. It is starting from this call on, and runs once it was polled: then it has
    /// begun its watches.
    pub(crate) fn run<F>(
        &self,
        group: &'static str,
        stop: &Stop,
        controller: F,
    ) -> impl Future<Output = ()> + Send + 'static + use<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = self.task(group, stop);
        async move {
            let mut controller = Box::pin(controller);
            let mut is_running = false;
            std::future::poll_fn(|context| {
                let polled = controller.as_mut().poll(context);
                if !is_running {
                    task.is_running();
                    is_running = true;
                }
                polled
            })
            .await;
        }
    }

    /// The check for `/readyz` and `/livez`.
    pub(crate) fn check(&self) -> Check {
        let health = self.clone();
        Check::new("controllers", move || health.health())
    }

    fn health(&self) -> Health {
        let mut state = self.lock();
        let in_phase = |phase| {
            let groups = state.tasks.iter().filter(|(_, is)| *is == phase).map(|(group, _)| *group);
            let mut groups: Vec<&str> = groups.collect();
            groups.dedup();
            (!groups.is_empty()).then(|| groups.join(", "))
        };
        if let Some(groups) = in_phase(Phase::Ended) {
            return Health::NeedsRestart(format!("a controller has ended by itself: {groups}"));
        }
        if let Some(groups) = in_phase(Phase::Stopped) {
            return Health::NotReady(format!("controllers are stopping: {groups}"));
        }
        let awaited: Vec<&str> =
            state.awaited.iter().filter(|(_, is)| **is == Awaited::Start).map(|(group, _)| *group).collect();
        if !awaited.is_empty() {
            return Health::NotReady(format!("controllers are not started: {}", awaited.join(", ")));
        }
        if let Some(groups) = in_phase(Phase::Starting) {
            return Health::NotReady(format!("controllers are starting: {groups}"));
        }
        let since = if state.has_synced { FIRST_LIST } else { Duration::ZERO };
        let unsynced = state.caches.as_ref().map(|caches| caches.unsynced(since)).unwrap_or_default();
        if !unsynced.is_empty() {
            return Health::NotReady(format!("caches are not synced: {}", unsynced.join(", ")));
        }
        state.has_synced |= state.caches.is_some();
        Health::Ok
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// The task has started.
    pub(crate) fn is_running(&self) {
        self.set(Phase::Running);
    }

    fn set(&self, phase: Phase) {
        if let Some(task) = self.health.lock().tasks.get_mut(self.number) {
            task.1 = phase;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let was_stopped = self.stop.peek().is_some() && !std::thread::panicking();
        self.set(if was_stopped { Phase::Stopped } else { Phase::Ended });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop;
    use capstan_apiserver::{ApiServer, Options, Storage, User};
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::sync::oneshot;

    fn is_ready(health: &ControllerHealth) -> bool {
        health.health() == Health::Ok
    }

    fn needs_restart(health: &ControllerHealth) -> bool {
        matches!(health.health(), Health::NeedsRestart(_))
    }

    #[tokio::test]
    async fn controllers_are_ready_once_all_of_them_run() {
        let health = ControllerHealth::default();
        assert!(is_ready(&health), "a process without controllers");
        health.expect(["core", "hooks"]);
        assert!(!is_ready(&health) && !needs_restart(&health));
        health.stand_by(["core"]);
        assert!(!is_ready(&health), "hooks are served by every replica");

        let (finish, finished) = oneshot::channel::<()>();
        let stop = stop::when(async { _ = finished.await });
        let hooks = tokio::spawn(health.run("hooks", &stop, stop.clone()));
        assert!(!is_ready(&health));
        tokio::task::yield_now().await;
        assert!(is_ready(&health), "another replica leads");
        let core = tokio::spawn(health.run("core", &stop, stop.clone()));
        assert!(!is_ready(&health));
        tokio::task::yield_now().await;
        assert!(is_ready(&health));

        finish.send(()).expect("they run");
        hooks.await.expect("it ends");
        core.await.expect("it ends");
        assert!(!is_ready(&health) && !needs_restart(&health), "a process that stops is not restarted");
    }

    #[tokio::test]
    async fn a_controller_that_ends_by_itself_needs_a_restart() {
        let stop = stop::when(std::future::pending());
        let health = ControllerHealth::default();
        tokio::spawn(health.run("core", &stop, async {})).await.expect("it ends");
        assert!(needs_restart(&health));

        let health = ControllerHealth::default();
        let panicked =
            tokio::spawn(health.run("core", &stop, async { panic!("a bug, for this test") })).await;
        assert!(panicked.is_err() && needs_restart(&health));
    }

    #[tokio::test]
    async fn controllers_are_ready_once_their_caches_are_synced() {
        let server = ApiServer::open(Options::new(Storage::Memory)).await.expect("a server");
        let caches = |user| Caches::new(kube::Client::new(server.service(user), "default"));

        let health = ControllerHealth::default();
        let forbidden = caches(User::new("nobody", Vec::<String>::new()));
        health.read_from(&forbidden);
        let _cache = forbidden.of::<ConfigMap>();
        assert_eq!(health.health(), Health::NotReady("caches are not synced: ConfigMap".to_owned()));

        let allowed = caches(User::admin());
        health.read_from(&allowed);
        allowed.of::<ConfigMap>().all().await.expect("a list");
        assert_eq!(health.health(), Health::Ok);
        server.shutdown().await;
    }
}
