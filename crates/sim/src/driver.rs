//! The [`HostDriver`] of simulated hosts, through which the infrastructure provider reaches them.

use capstan_api::core::{MachineAddress, MachineAddressType};
use capstan_api::infrastructure::{Host, HostFacts};
use capstan_infrastructure::driver::{HostDriver, HostKey, Reached};
use capstan_infrastructure::{BootstrapData, BootstrapState, DriverError, FollowState, HandOver, ResetState};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kube::ResourceExt as _;
use std::net::IpAddr;
use tokio::sync::broadcast::error::RecvError;

use crate::fault::Fault;
use crate::host::{CPUS, KERNEL, MEMORY, OS_IMAGE};
use crate::sim::Sim;

/// Annotation of a Host that overrides the address of its simulated machine, as DHCP may change that of a real one.
pub const ADDRESS_ANNOTATION: &str = "capstan.dev/sim-address";

impl HostDriver for Sim {
    fn facts<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<Reached, DriverError>> {
        Box::pin(async move {
            let sim_host = self.reach(host).await?;
            let vm = &sim_host.vm;
            let (machine_id, boot_id) = vm.look(|state| (state.machine_id.clone(), state.boot_id.clone()));
            let address = |type_, address: &str| MachineAddress { type_, address: address.to_owned() };
            let given = host.annotations().get(ADDRESS_ANNOTATION);
            let reached_at = given.map_or_else(|| self.address(), String::as_str);
            Ok(Reached {
                facts: HostFacts {
                    hostname: Some(vm.name().to_owned()),
                    machine_id: Some(machine_id),
                    boot_id: Some(boot_id),
                    os_image: Some(OS_IMAGE.to_owned()),
                    kernel_version: Some(KERNEL.to_owned()),
                    architecture: Some("amd64".to_owned()),
                    cpus: CPUS.try_into().ok(),
                    memory_bytes: MEMORY.try_into().ok(),
                },
                addresses: vec![
                    address(kind_of(reached_at), reached_at),
                    address(MachineAddressType::Hostname, vm.name()),
                ],
                problems: Vec::new(),
            })
        })
    }

    fn bootstrap<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
        data: &'a BootstrapData,
    ) -> BoxFuture<'a, Result<BootstrapState, DriverError>> {
        Box::pin(async move { self.reach(host).await?.bootstrap(claim_id, data).await })
    }

    fn follow<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
        hand_over: &'a HandOver,
    ) -> BoxFuture<'a, Result<FollowState, DriverError>> {
        Box::pin(async move { self.reach(host).await?.follow(claim_id, hand_over).await })
    }

    fn reset<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
    ) -> BoxFuture<'a, Result<ResetState, DriverError>> {
        Box::pin(async move { self.reach(host).await?.reset(claim_id).await })
    }

    fn forget<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<(), DriverError>> {
        Box::pin(self.drop_host(host))
    }

    fn changes(&self) -> BoxStream<'static, HostKey> {
        futures::stream::unfold(self.subscribe(), |mut receiver| async {
            loop {
                match receiver.recv().await {
                    Ok(key) => return Some((key, receiver)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        })
        .boxed()
    }
}

fn kind_of(address: &str) -> MachineAddressType {
    match address.parse::<IpAddr>() {
        Ok(_) => MachineAddressType::InternalIP,
        Err(_) => MachineAddressType::InternalDNS,
    }
}

/// What a host that is meant to be silent answers.
pub(crate) fn answer(host: &Host) -> Result<Option<Fault>, DriverError> {
    match Fault::of(host) {
        Some(Fault::Unreachable) => Err(DriverError::Unreachable("simulated fault: no answer".to_owned())),
        fault => Ok(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::infrastructure::HostSpec;

    #[tokio::test]
    async fn an_annotation_gives_a_host_another_address() {
        let folder = tempfile::tempdir().expect("a folder");
        let sim = Sim::open(folder.path()).await.expect("a simulation");
        let spec: HostSpec = serde_json::from_str(r#"{"simulated": {}}"#).expect("a spec");
        let mut host = Host::new("h", spec);
        let first = |reached: Reached| reached.addresses[0].address.clone();
        assert_eq!(first(sim.facts(&host).await.expect("an answer")), "127.0.0.1");
        host.annotations_mut().insert(ADDRESS_ANNOTATION.to_owned(), "127.0.0.2".to_owned());
        let reached = sim.facts(&host).await.expect("an answer");
        assert_eq!(reached.addresses[0].type_, MachineAddressType::InternalIP);
        assert_eq!(first(reached), "127.0.0.2");
        sim.close().await;
    }
}
