//! What a machine starts with. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_api::bootstrap::BootstrapFormat;
use serde_json::{Value, json};

use crate::Plane;

/// Where the agent looks for its configuration. Readable by root only: it holds the one-time token.
pub const AGENT_CONFIG_PATH: &str = "/etc/capstan/agent.json";

/// What makes the machine trade its token for a credential of its own and wait for its plan.
pub const ENROLL: [&str; 2] = ["/opt/capstan/capstan-agent", "enroll"];

/// Who the machine is, and whom it obeys.
pub(crate) struct Agent<'a> {
    pub(crate) plane: &'a Plane,
    pub(crate) token: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) machine: &'a str,
    pub(crate) machine_id: &'a str,
    pub(crate) plan_public_key: &'a [u8],
}

impl Agent<'_> {
    fn config(&self) -> Value {
        json!({
            "apiVersion": "agent.capstan.dev/v1alpha1",
            "kind": "AgentConfig",
            "server": self.plane.server,
            "caData": BASE64_STANDARD.encode(&self.plane.ca),
            "token": self.token,
            "namespace": self.namespace,
            "machine": self.machine,
            "machineID": self.machine_id,
            "planPublicKey": BASE64_STANDARD.encode(self.plan_public_key),
        })
    }

    /// The bootstrap data in a format, and what the contract calls that format.
    pub(crate) fn render(&self, format: BootstrapFormat) -> (String, &'static str) {
        let config = self.config().to_string();
        match format {
            BootstrapFormat::CloudConfig => (cloud_config(&config), "cloud-config"),
            BootstrapFormat::Script => (script(&config), "script"),
        }
    }
}

fn cloud_config(agent: &str) -> String {
    let document = json!({
        "write_files": [{
            "path": AGENT_CONFIG_PATH,
            "owner": "root:root",
            "permissions": "0600",
            "content": agent,
        }],
        "runcmd": [ENROLL],
    });
    let yaml = serde_saphyr::to_string(&document).expect("texts and lists can be written as YAML");
    format!("#cloud-config\n{yaml}")
}

fn script(agent: &str) -> String {
    // What is between is one line of JSON without a quote of the shell's: addresses, names, digits and base64.
    let agent = agent.replace('\'', r"'\''");
    let folder = "/etc/capstan";
    let enroll = ENROLL.join(" ");
    format!(
        "#!/bin/sh\nset -eu\numask 077\nmkdir -p {folder}\nprintf '%s' '{agent}' > {AGENT_CONFIG_PATH}\n{enroll}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(plane: &Plane) -> Agent<'_> {
        Agent {
            plane,
            token: "one-time",
            namespace: "default",
            machine: "web-0",
            machine_id: "0123",
            plan_public_key: &[7; 32],
        }
    }

    #[test]
    fn cloud_config_holds_the_agent_and_nothing_else() {
        let plane = Plane { server: "https://10.0.0.1:6443".to_owned(), ca: b"PEM".to_vec() };
        let (text, format) = agent(&plane).render(BootstrapFormat::CloudConfig);
        assert_eq!(format, "cloud-config");
        assert!(text.starts_with("#cloud-config\n"));
        let document: Value = serde_saphyr::from_str(&text).expect("YAML");
        assert_eq!(document["runcmd"], json!([["/opt/capstan/capstan-agent", "enroll"]]));
        assert_eq!(document["write_files"].as_array().map(Vec::len), Some(1));
        let file = &document["write_files"][0];
        assert_eq!((&file["path"], &file["permissions"]), (&json!(AGENT_CONFIG_PATH), &json!("0600")));
        let config: Value = serde_json::from_str(file["content"].as_str().expect("text")).expect("JSON");
        assert_eq!(config["server"], "https://10.0.0.1:6443");
        assert_eq!(config["caData"], "UEVN");
        assert_eq!(config["token"], "one-time");
        assert_eq!(config["machine"], "web-0");
        assert_eq!(config["machineID"], "0123");
        assert_eq!(config["planPublicKey"], BASE64_STANDARD.encode([7; 32]));
    }

    #[test]
    fn a_script_does_the_same() {
        let plane = Plane { server: "https://o'brien:6443".to_owned(), ca: Vec::new() };
        let (text, format) = agent(&plane).render(BootstrapFormat::Script);
        assert_eq!(format, "script");
        assert!(text.contains(r"https://o'\''brien:6443"), "{text}");
        assert!(text.ends_with("/opt/capstan/capstan-agent enroll\n"));
    }
}
