//! The templates of a class.

use capstan_api::core::{ClusterClass, ClusterClassTemplateReference, Topology};
use capstan_controller::Result;
use capstan_topology::blueprint::{Blueprint, WorkerTemplates};
use capstan_topology::contract::Contract;
use serde_json::Value;
use std::collections::BTreeMap;

use super::value;
use crate::{Core, clusterclass};

/// The templates of a class.
pub(in crate::topology) struct Templates {
    pub(in crate::topology) infrastructure_cluster: Value,
    pub(in crate::topology) control_plane: Value,
    pub(in crate::topology) control_plane_machines: Option<Value>,
    /// By the name of the class.
    pub(in crate::topology) machine_deployments: BTreeMap<String, WorkerTemplates>,
    /// By the name of the class.
    pub(in crate::topology) machine_pools: BTreeMap<String, WorkerTemplates>,
}

impl Templates {
    pub(in crate::topology) fn blueprint<'a>(
        &'a self,
        class: &'a ClusterClass,
        topology: &'a Topology,
    ) -> Blueprint<'a> {
        Blueprint {
            class,
            topology,
            infrastructure_cluster: &self.infrastructure_cluster,
            control_plane: &self.control_plane,
            control_plane_machines: self.control_plane_machines.as_ref(),
            machine_deployment_templates: self.machine_deployments.clone(),
            machine_pool_templates: self.machine_pools.clone(),
        }
    }
}

/// Reads all templates of a class, each in the version that the class names.
pub(in crate::topology) async fn templates(core: &Core, class: &ClusterClass) -> Result<Templates> {
    let spec = &class.spec;
    let machines = spec.control_plane.machine_infrastructure.as_ref();
    let mut templates = Templates {
        infrastructure_cluster: one(core, class, &spec.infrastructure.template_ref).await?,
        control_plane: one(core, class, &spec.control_plane.template_ref).await?,
        control_plane_machines: match machines {
            Some(machines) => Some(one(core, class, &machines.template_ref).await?),
            None => None,
        },
        machine_deployments: BTreeMap::new(),
        machine_pools: BTreeMap::new(),
    };
    let Some(workers) = &spec.workers else { return Ok(templates) };
    for of in &workers.machine_deployments {
        let bootstrap = one(core, class, &of.bootstrap.template_ref).await?;
        let infrastructure = one(core, class, &of.infrastructure.template_ref).await?;
        templates.machine_deployments.insert(of.class.clone(), WorkerTemplates { bootstrap, infrastructure });
    }
    for of in &workers.machine_pools {
        let bootstrap = one(core, class, &of.bootstrap.template_ref).await?;
        let infrastructure = one(core, class, &of.infrastructure.template_ref).await?;
        templates.machine_pools.insert(of.class.clone(), WorkerTemplates { bootstrap, infrastructure });
    }
    Ok(templates)
}

async fn one(core: &Core, class: &ClusterClass, reference: &ClusterClassTemplateReference) -> Result<Value> {
    let template = clusterclass::template(core, class, reference).await?;
    value(&template)
}

/// The contract that the control plane implements in the version that the class names.
pub(in crate::topology) async fn contract(core: &Core, templates: &Templates) -> Result<Contract> {
    let text = |field: &str| templates.control_plane.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let kind = kind.strip_suffix("Template").unwrap_or(kind);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    // The usual case, without a request.
    if core.externals.resource(group, kind).await?.api_version == api_version {
        return Ok(Contract::V1Beta2);
    }
    let is_older = !core.externals.implements(api_version, kind, "v1beta2").await?
        && core.externals.implements(api_version, kind, "v1beta1").await?;
    Ok(if is_older { Contract::V1Beta1 } else { Contract::V1Beta2 })
}
