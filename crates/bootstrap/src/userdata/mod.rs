//! The bootstrap data: the identity of the machine, the key that verifies its plans, and a script that installs the
//! agent. Pure.

mod script;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_api::bootstrap::BootstrapFormat;
use capstan_artifacts::{AGENT, Catalog, VERSION};
use serde_json::{Value, json};

use crate::PlaneAddress;
use script::{Paths, Script};

/// Path of the agent's configuration. Only root can read it, because it contains the one-time token.
pub const AGENT_CONFIG_PATH: &str = "/etc/capstan/agent.json";

/// Path of the agent.
pub const AGENT_PATH: &str = "/opt/capstan/capstan-agent";

/// Path of the script that installs the agent, written by cloud-init.
pub const INSTALL_PATH: &str = "/etc/capstan/install-agent";

/// Who the machine is, and whom it obeys.
pub(crate) struct Agent<'a> {
    pub(crate) plane: &'a PlaneAddress,
    pub(crate) token: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) machine: &'a str,
    pub(crate) machine_id: &'a str,
    pub(crate) plan_public_key: &'a [u8],
    /// How plan keys have followed each other, for a machine that knows an earlier one.
    pub(crate) plan_key_successions: &'a [u8],
    /// Name of the plane, whatever its address.
    pub(crate) plane_name: &'a str,
    /// The how manieth manager of this machine it has.
    pub(crate) epoch: u64,
}

impl Agent<'_> {
    /// What the agent reads.
    pub(crate) fn config(&self) -> Value {
        let mut config = json!({
            "apiVersion": "agent.capstan.dev/v1alpha1",
            "kind": "AgentConfig",
            "server": self.plane.server,
            "caData": BASE64_STANDARD.encode(&self.plane.ca),
            "token": self.token,
            "namespace": self.namespace,
            "machine": self.machine,
            "machineID": self.machine_id,
            "planPublicKey": BASE64_STANDARD.encode(self.plan_public_key),
            "plane": self.plane_name,
            "epoch": self.epoch,
        });
        // Agents of earlier versions refuse what they do not know.
        if !self.plan_key_successions.is_empty() {
            config["planKeySuccessions"] = BASE64_STANDARD.encode(self.plan_key_successions).into();
        }
        config
    }

    /// The bootstrap data in a format, and what the contract calls that format.
    pub(crate) fn render(&self, format: BootstrapFormat, software: &Catalog) -> (String, &'static str) {
        let config = self.config().to_string();
        let agents: Vec<_> = software.of(AGENT, VERSION).collect();
        let script = Script { paths: Paths::default(), config: None, agents, tries: script::TRIES };
        match format {
            BootstrapFormat::CloudConfig => (cloud_config(&config, &script.text()), "cloud-config"),
            BootstrapFormat::Script => (Script { config: Some(config), ..script }.text(), "script"),
        }
    }
}

fn cloud_config(agent: &str, script: &str) -> String {
    let file = |path: &str, content: &str| json!({"path": path, "owner": "root:root", "permissions": "0600", "content": content});
    let document = json!({
        "write_files": [file(AGENT_CONFIG_PATH, agent), file(INSTALL_PATH, script)],
        "runcmd": [["sh", INSTALL_PATH]],
    });
    let yaml = serde_saphyr::to_string(&document).expect("texts and lists can be written as YAML");
    // Whoever carries it out may do so again if the machine stops meanwhile.
    format!("#cloud-config\n# capstan.dev/repeatable\n{yaml}")
}
