//! Simulated hosts as the infrastructure provider reaches them.

use capstan_api::core::{MachineAddress, MachineAddressType};
use capstan_api::infrastructure::{Host, HostFacts};
use capstan_infrastructure::driver::{HostDriver, HostKey, Reached};
use capstan_infrastructure::{BootstrapData, BootstrapState, DriverError, FollowState, HandOver, ResetState};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::net::IpAddr;
use tokio::sync::broadcast::error::RecvError;

use crate::fault::Fault;
use crate::host::{CPUS, KERNEL, MEMORY, OS_IMAGE};
use crate::sim::Sim;

impl HostDriver for Sim {
    fn facts<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<Reached, DriverError>> {
        Box::pin(async move {
            let sim_host = self.reach(host).await?;
            let vm = &sim_host.vm;
            let (machine_id, boot_id) = vm.look(|state| (state.machine_id.clone(), state.boot_id.clone()));
            let address = |type_, address: &str| MachineAddress { type_, address: address.to_owned() };
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
                    address(kind_of(self.address()), self.address()),
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
