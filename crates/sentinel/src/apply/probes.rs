//! Probes of a plan, all at the same time.

use capstan_agent::machine::HttpGet;
use capstan_agent::{Clock, Machine};
use futures::future::join_all;

use super::{Applier, Registry};
use crate::plan::{Plan, Probe};
use crate::probe::Statuses;
use crate::work;

impl<M: Machine, R: Registry> Applier<M, R> {
    /// Runs every probe once, and counts the results. After the plan was applied, each waits for its initial delay.
    /// Statuses of probes that the plan does not have are left out.
    pub async fn probe(
        &self,
        plan: &Plan,
        before: &Statuses,
        is_applied_now: bool,
        clock: &impl Clock,
    ) -> Statuses {
        let asked = plan.probes.iter().map(async |(name, probe)| {
            let delay = probe.initial_delay();
            if is_applied_now && !delay.is_zero() {
                clock.sleep_until_elapsed(clock.elapsed() + delay).await;
            }
            let mut status = before.get(name).cloned().unwrap_or_default();
            status.observe(probe, self.is_healthy(probe).await);
            (name.clone(), status)
        });
        join_all(asked).await.into_iter().collect()
    }

    async fn is_healthy(&self, probe: &Probe) -> bool {
        let get = &probe.http_get;
        let identity = match (work::path(&get.client_cert), work::path(&get.client_key)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => None,
        };
        let request = HttpGet {
            url: get.url.clone(),
            is_insecure: get.insecure,
            identity,
            ca: work::path(&get.ca_cert),
        };
        let answer = self.machine.http_get(&request, probe.timeout()).await;
        answer.is_ok_and(|status| (200..300).contains(&status))
    }
}
