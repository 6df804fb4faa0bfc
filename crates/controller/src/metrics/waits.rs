//! What objects wait for, as a metric. Written from memory at each scrape. Pure: objects in, text out.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::{Condition, Conditioned};
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostPool};
use capstan_api::wait::{Owner, Wait};
use capstan_text::exposition::{declare, escape};
use kube::{Resource, ResourceExt as _};
use std::any::Any;
use std::fmt::Write as _;

use super::caches::AnyObject;

const NAME: &str = "capstan_wait_start_time_seconds";
const HELP: &str = "Since when an object waits, in seconds since 1970, by reason and by who must act.";

/// Writes a sample for each condition that waits for a known cause.
pub(super) fn write(text: &mut String, objects: &[AnyObject]) {
    let mut samples = String::new();
    for object in objects {
        let Some(found) = READERS.iter().find_map(|read| read(object.as_ref())) else { continue };
        for condition in found.conditions {
            let Some(wait) = Wait::read(condition).filter(|wait| wait.owner != Owner::Unknown) else {
                continue;
            };
            let labels = [
                ("kind", found.kind.as_str()),
                ("namespace", &found.namespace),
                ("name", &found.name),
                ("condition", &condition.type_),
                ("reason", &wait.reason),
                ("owner", wait.owner.word()),
            ];
            samples.push_str(NAME);
            for (index, (label, value)) in labels.into_iter().enumerate() {
                samples.extend([if index == 0 { "{" } else { "," }, label, "=\""]);
                escape(&mut samples, value);
                samples.push('"');
            }
            // Writing to a String cannot fail.
            _ = writeln!(samples, "}} {}", condition.last_transition_time.0.as_second());
        }
    }
    if !samples.is_empty() {
        declare(text, NAME, "gauge", HELP);
        text.push_str(&samples);
    }
}

struct Found<'a> {
    kind: String,
    namespace: String,
    name: String,
    conditions: &'a [Condition],
}

type Read = fn(&(dyn Any + Send + Sync)) -> Option<Found<'_>>;

/// All kinds that may wait.
const READERS: [Read; 10] = [
    found::<Cluster>,
    found::<Machine>,
    found::<MachineSet>,
    found::<MachineDeployment>,
    found::<CapstanControlPlane>,
    found::<CapstanConfig>,
    found::<Host>,
    found::<HostCluster>,
    found::<HostMachine>,
    found::<HostPool>,
];

fn found<K>(object: &(dyn Any + Send + Sync)) -> Option<Found<'_>>
where
    K: Resource<DynamicType = ()> + Conditioned + 'static,
{
    let object = object.downcast_ref::<K>()?;
    Some(Found {
        kind: K::kind(&()).into_owned(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        conditions: object.conditions(),
    })
}
