//! The probes of a machine with k3s. They are asked again and again, so they must cost next to nothing.
//!
//! What only later agents understand is no input of the plan: a machine gets it with its next plan, and no plan is written for
//! it.

use capstan_plan::{Capability, HttpUrl, Probe, Target, TcpAddress};

use super::steps::name;
use super::unit;
use crate::inputs::Inputs;

/// Where the kubelet says how it is.
const KUBELET: &str = "http://127.0.0.1:10248/healthz";

/// The setting with the address that a server listens on instead of all.
const BIND_ADDRESS: &str = "bind-address";

pub(super) fn of(inputs: &Inputs<'_>) -> Vec<Probe> {
    let kubelet = HttpUrl::new(KUBELET).expect("an address of this module");
    let mut probes = vec![Probe::new(name("kubelet"), Target::Http(kubelet))];
    if !inputs.capabilities.has(Capability::Targets) {
        return probes;
    }
    let unit = format!("{}.service", unit::name(inputs.role)).parse().expect("a name of this module");
    // It starts a program, which costs more than a request.
    probes.push(Probe { interval_seconds: 60, ..Probe::new(name("unit"), Target::Unit(unit)) });
    if inputs.role.is_server() && !inputs.config.settings.contains_key(BIND_ADDRESS) {
        // There is no port yet while a configuration is checked before there is a cluster.
        let address = TcpAddress::new(format!("127.0.0.1:{}", inputs.listen_port())).ok();
        probes.extend(address.map(|address| Probe::new(name("api-server"), Target::Tcp(address))));
    }
    probes
}
