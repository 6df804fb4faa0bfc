//! MachinePools, with the two objects that they refer to.

use capstan_api::core::MachinePool;
use capstan_controller::{Error, Grounds, Result, destroy};
use capstan_topology::metadata::POOL_NAME;
use kube::ResourceExt as _;
use kube::api::Api;

use super::super::names::events;
use super::super::observe::{Pool, topology_names, value};
use super::base::change;
use super::template::Created;
use super::{Writer, named};

const VERSION: &str = "/spec/template/spec/version";

impl Writer<'_> {
    /// Creates, changes and deletes MachinePools.
    pub(super) async fn machine_pools(&mut self) -> Result<()> {
        let objects = self.objects;
        let api = self.core.api::<MachinePool>(&self.namespace);
        let wanted: Vec<String> = self.computed.desired.machine_pools.keys().cloned().collect();
        let mut existing = None;
        for name in &wanted {
            match objects.machine_pools.get(name) {
                Some(current) => Box::pin(self.update_pool(&api, name, current)).await?,
                None => {
                    if self.computed.progress.machine_pools.pending_create.contains(name) {
                        continue;
                    }
                    let existing = match &mut existing {
                        Some(existing) => existing,
                        unread => {
                            let cluster = self.cluster.name_any();
                            unread.insert(topology_names(&api, &cluster, POOL_NAME).await?)
                        }
                    };
                    if !existing.contains(name) {
                        Box::pin(self.create_pool(&api, name)).await?;
                    }
                }
            }
        }
        for (name, current) in &objects.machine_pools {
            if !wanted.contains(name) && current.object.metadata.deletion_timestamp.is_none() {
                self.ensure_topology_is_current().await?;
                let grounds = Grounds::asked("it is not in the topology of its Cluster any more");
                destroy::delete(&api, &current.object.metadata, &grounds).await?;
                let message = format!("Deleted MachinePool {}", self.quoted(&current.object.name_any()));
                self.note(events::DELETED, message);
            }
        }
        Ok(())
    }

    async fn create_pool(&mut self, api: &Api<MachinePool>, name: &str) -> Result<()> {
        let Some(desired) = self.computed.desired.machine_pools.get(name).cloned() else { return Ok(()) };
        let mut created = Vec::new();
        for part in [&desired.infrastructure, &desired.bootstrap] {
            match self.create_part(part).await {
                Ok(made) => created.extend(made),
                Err(error) => {
                    self.discard(created, &error).await;
                    return Err(error);
                }
            }
        }
        if let Err(error) = self.create(api, &desired.object).await {
            self.discard(created, &error).await;
            return Err(error);
        }
        let message = format!("Created MachinePool {}", self.quoted(named(&desired.object).1));
        self.note(events::CREATED, message);
        Ok(())
    }

    async fn create_part(&mut self, part: &serde_json::Value) -> Result<Option<Created>> {
        if self.found(part).await?.is_some() {
            return Ok(None);
        }
        let api = self.api_of(part).await?;
        let made = self.create(&api, part).await?;
        let (kind, name) = named(part);
        self.note(events::CREATED, format!("Created {kind} {}", self.quoted(name)));
        Ok(made.map(|made| Created { api, metadata: made.metadata }))
    }

    async fn update_pool(&mut self, api: &Api<MachinePool>, name: &str, current: &Pool) -> Result<()> {
        let of_kind = current.object.name_any();
        // It would be rolled out twice.
        let is_pending = self.computed.progress.machine_pools.pending.contains(&of_kind);
        if is_pending || current.object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let Some(desired) = self.computed.desired.machine_pools.get(name).cloned() else { return Ok(()) };
        self.object(current.infrastructure.as_ref(), &desired.infrastructure, None).await?;
        self.object(current.bootstrap.as_ref(), &desired.bootstrap, None).await?;
        let is_changed = self.apply(api, current.object.as_ref(), &desired.object).await?;
        if is_changed {
            let change = change(&value(current.object.as_ref())?, &desired.object, VERSION);
            let message = format!("Updated MachinePool {}{change}", self.quoted(&of_kind));
            self.note(events::UPDATED, message);
        }
        Ok::<(), Error>(())
    }
}
