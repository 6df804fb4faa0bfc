//! The systemd of a virtual machine: its units and the commands on them. Units that run k3s make the machine join a
//! cluster; other units only have a state.

use capstan_agent::machine::MachineError;

use super::machine::{Said, VmMachine};
use super::program::Systemctl;
use super::state::{K3sRole, Membership, State, Unit};
use crate::cluster::Start;

const FOLDER: &str = "/etc/systemd/system";

impl State {
    /// Whether a unit is active.
    pub fn is_active(&self, unit: &str) -> bool {
        self.units.get(unit).is_some_and(|unit| unit.active)
    }

    fn has_unit_file(&self, unit: &str) -> bool {
        self.files.read(&format!("{FOLDER}/{unit}")).is_some()
    }

    fn started(&mut self, unit: &str, running: Option<Membership>) {
        let unit = self.units.entry(unit.to_owned()).or_default();
        unit.runs += 1;
        unit.active = true;
        unit.running = running;
    }
}

impl VmMachine {
    pub(super) async fn systemctl(&self, order: Systemctl) -> Result<Said, MachineError> {
        match order {
            Systemctl::Reload => self.change(|state| {
                let gone: Vec<String> = state
                    .units
                    .iter()
                    .filter(|(name, unit)| !unit.active && !unit.enabled && !state.has_unit_file(name))
                    .map(|(name, _)| name.clone())
                    .collect();
                gone.iter().for_each(|name| drop(state.units.remove(name)));
                done()
            }),
            Systemctl::Enable(name) => self.enable(&name, true),
            Systemctl::Disable(name) => self.enable(&name, false),
            Systemctl::Restart(name) => self.start(&name).await,
            Systemctl::Start(name) if self.vm.look(|state| state.is_active(&name)) => done(),
            Systemctl::Start(name) => self.start(&name).await,
            Systemctl::Stop(name) => self.stop(&name).await,
            Systemctl::IsActive(name) => Ok(match self.vm.look(|state| state.is_active(&name)) {
                true => (0, "active".to_owned()),
                false => (3, "inactive".to_owned()),
            }),
            Systemctl::Show(name) => {
                let unit = self.vm.look(|state| state.units.get(&name).cloned().unwrap_or_default());
                Ok((0, show(&unit)))
            }
            // Units of virtual machines do not fail by themselves.
            Systemctl::ResetFailed(_) => done(),
        }
    }

    fn enable(&self, name: &str, enabled: bool) -> Result<Said, MachineError> {
        self.change(|state| {
            if !state.has_unit_file(name) {
                return Ok((1, format!("Failed to enable unit: Unit file {name} does not exist.")));
            }
            state.units.entry(name.to_owned()).or_default().enabled = enabled;
            done()
        })
    }

    pub(super) async fn start(&self, name: &str) -> Result<Said, MachineError> {
        let Some(kind) = K3sRole::of_unit(name) else {
            return self.change(|state| match state.has_unit_file(name) {
                true => {
                    state.started(name, None);
                    done()
                }
                false => Ok(not_found(name)),
            });
        };
        let start = match self.vm.look(|state| Start::read(state, kind, self.vm.name())) {
            Ok(start) => start,
            Err(complaint) => return Ok((1, complaint)),
        };
        match self.clusters.start(start).await {
            Ok(membership) => self.change(|state| {
                state.data = Some(membership.clone());
                state.started(name, Some(membership));
                done()
            }),
            Err(complaint) => Ok((1, format!("Job for {name} failed: {complaint}"))),
        }
    }

    /// It is no error if there is no such unit.
    pub(super) async fn stop(&self, name: &str) -> Result<Said, MachineError> {
        let running = |state: &State| state.units.get(name).and_then(|unit| unit.running.clone());
        if let Some(membership) = self.vm.look(running) {
            self.clusters.stop(&membership, false).await;
        }
        self.change(|state| {
            if let Some(unit) = state.units.get_mut(name) {
                (unit.active, unit.running) = (false, None);
            }
            done()
        })
    }
}

fn done() -> Result<Said, MachineError> {
    Ok((0, String::new()))
}

fn not_found(name: &str) -> Said {
    (5, format!("Unit {name} not found."))
}

fn show(unit: &Unit) -> String {
    let active = if unit.active { "active" } else { "inactive" };
    let run = if unit.runs == 0 { String::new() } else { format!("{:032x}", unit.runs) };
    let enabled = if unit.enabled { "enabled" } else { "disabled" };
    format!("ActiveState={active}\nInvocationID={run}\nUnitFileState={enabled}\n")
}
