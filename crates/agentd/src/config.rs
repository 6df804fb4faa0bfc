//! The configuration of the agent: the identity of the machine and its management plane, from the bootstrap data.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::follow::Allegiance;
use capstan_agent::obey::Identity;
use capstan_agent::route::Route;
use capstan_plan::{
    Digest, Epoch, HttpsUrl, MachineId, MachineIdentity, MachineName, PublicKey, SecretText, SourceUrl,
    Successions,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

use crate::paths::Paths;
use crate::{Failure, files, proxy};

/// `agent.json`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: Version,
    kind: ConfigKind,
    server: String,
    ca_data: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<SecretText>,
    namespace: String,
    machine: MachineName,
    #[serde(rename = "machineID")]
    machine_id: MachineId,
    plan_public_key: String,
    /// How plan keys have followed each other, if one ever was replaced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    plan_key_successions: String,
    /// Which plane that is, whatever its address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    plane: String,
    /// The how manieth manager of this machine it has.
    #[serde(default, skip_serializing_if = "is_first")]
    epoch: Epoch,
}

fn is_first(epoch: &Epoch) -> bool {
    *epoch == Epoch::default()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Version {
    #[serde(rename = "agent.capstan.dev/v1alpha1")]
    V1Alpha1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ConfigKind {
    AgentConfig,
}

/// Who the machine is, and whom it obeys.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    document: Document,
    /// Where the management plane is.
    pub(crate) server: HttpsUrl,
    /// Authorities that speak for it, in PEM.
    pub(crate) ca: Vec<u8>,
    /// Who we are, and whose plans we carry out.
    pub(crate) identity: Identity,
    /// How the management plane is reached, or why that is not known: then the agent does without it.
    route: Result<Route, String>,
}

impl Config {
    /// Reads it. An error repeats nothing of it: the token is in there.
    pub(crate) fn read(paths: &Paths) -> Result<Self, Failure> {
        let path = paths.config();
        let wrong = |what: &str| Failure::new(format!("{}: {what}", path.display()));
        let bytes = files::read(&path).map_err(|error| wrong(&error.to_string()))?;
        let bytes =
            bytes.ok_or_else(|| wrong("there is none; it comes with the machine's bootstrap data"))?;
        let config = Self::parse(&bytes).map_err(|what| wrong(&what))?;
        Ok(Self { route: proxy::route(paths).map_err(|error| error.to_string()), ..config })
    }

    /// How the management plane is reached.
    pub(crate) fn route(&self) -> Result<Route, Failure> {
        self.route.clone().map_err(Failure::new)
    }

    /// Reads one that somebody sends. An error repeats nothing of it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let document: Document = serde_json::from_slice(bytes).map_err(|error| {
            format!("is not an AgentConfig (line {} column {})", error.line(), error.column())
        })?;
        let is_name = |text: &str| {
            !text.is_empty()
                && text.len() <= 63
                && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
        };
        if !is_name(&document.namespace) {
            return Err("namespace is not the name of a namespace: use 1 to 63 of a-z, 0-9 and -".to_owned());
        }
        // The address of a folder, so that paths can be added to it.
        let server = format!("{}/", document.server.trim_end_matches('/'));
        let Ok(SourceUrl::Https(server)) = SourceUrl::new(server) else {
            return Err("server must be https://host[:port]".to_owned());
        };
        let ca = BASE64_STANDARD.decode(&document.ca_data).map_err(|_| "caData is not base64")?;
        let key =
            BASE64_STANDARD.decode(&document.plan_public_key).map_err(|_| "planPublicKey is not base64")?;
        let plan_key = PublicKey::from_bytes(&key).map_err(|error| format!("planPublicKey: {error}"))?;
        let machine =
            MachineIdentity { name: document.machine.clone(), machine_id: document.machine_id.clone() };
        let successions = BASE64_STANDARD
            .decode(&document.plan_key_successions)
            .map_err(|_| "planKeySuccessions is not base64")?;
        let successions = Successions::from_bytes(&successions)
            .map_err(|_| "planKeySuccessions is not a list of links between keys")?;
        let identity = Identity { machine, plan_key, successions, epoch: document.epoch };
        Ok(Self { document, server, ca, identity, route: Ok(Route::default()) })
    }

    /// Whom we obey, as far as a hand-over is concerned. `known` is the key in the journal, if that has one.
    pub(crate) fn allegiance(&self, known: Option<PublicKey>) -> Allegiance {
        let Identity { machine, plan_key, successions, .. } = &self.identity;
        Allegiance {
            machine: machine.clone(),
            namespace: self.document.namespace.clone(),
            plan_key: successions.heir(known.unwrap_or(*plan_key)),
            successions: successions.clone(),
            plane: self.document.plane.clone(),
            epoch: self.document.epoch,
            server: self.document.server.clone(),
            ca: self.ca.clone(),
        }
    }

    /// Names the plane, where it is and who speaks for it: what is got from one is of no use at another.
    pub(crate) fn stamp(&self) -> String {
        let Document { plane, server, ca_data, .. } = &self.document;
        Digest::of(format!("{plane}\n{server}\n{ca_data}").as_bytes()).short()
    }

    /// Whether it says the same, word for word, the token included.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.document == other.document
    }

    /// Writes it down.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_vec(&self.document).map_err(Failure::new)?;
        files::write(path, &text)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
    }

    /// Which plane we obey, for people.
    pub(crate) fn plane(&self) -> &str {
        &self.document.plane
    }

    pub(crate) const fn epoch(&self) -> Epoch {
        self.document.epoch
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.document.namespace
    }

    /// Where the management plane is, for people.
    pub(crate) fn address(&self) -> &str {
        &self.document.server
    }

    /// Name of the machine.
    pub(crate) fn machine(&self) -> &str {
        self.document.machine.as_str()
    }

    pub(crate) fn machine_id(&self) -> &str {
        self.document.machine_id.as_str()
    }

    pub(crate) fn token(&self) -> Option<&SecretText> {
        self.document.token.as_ref()
    }

    /// Takes the token away: it has done its work.
    pub(crate) fn forget_token(&mut self, path: &Path) -> Result<(), Failure> {
        if self.document.token.take().is_none() {
            return Ok(());
        }
        self.write(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn document() -> Value {
        json!({
            "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "AgentConfig", "server": "https://10.0.0.1:6443",
            "caData": "UEVN", "token": "one-time", "namespace": "default", "machine": "web-0", "machineID": "0123",
            "planPublicKey": BASE64_STANDARD.encode([7; 32]),
        })
    }

    fn parse(value: &Value) -> Result<Config, String> {
        Config::parse(value.to_string().as_bytes())
    }

    #[test]
    fn the_configuration_of_bootstrap_data_is_read() {
        let config = parse(&document()).expect("a configuration");
        assert_eq!((config.server.host(), config.server.port()), ("10.0.0.1", 6443));
        assert_eq!(config.token().map(SecretText::expose), Some("one-time"));
        assert!(!format!("{config:?}").contains("one-time"));
    }

    #[test]
    fn what_is_wrong_is_named_and_no_secret_is() {
        for (field, value) in [
            ("server", json!("http://10.0.0.1")),
            ("server", json!("https://user:pass@host")),
            ("caData", json!("?")),
            ("namespace", json!("a/b")),
            ("namespace", json!("")),
            ("planPublicKey", json!("AAAA")),
            ("planKeySuccessions", json!("AAAA")),
        ] {
            let mut document = document();
            document[field] = value;
            let error = parse(&document).expect_err(field);
            assert!(error.contains(field) && !error.contains("one-time"), "{error}");
        }
        let mut unknown = document();
        unknown["surprise"] = json!("x");
        assert!(!parse(&unknown).expect_err("unknown").contains("one-time"));
    }

    #[test]
    fn what_is_got_at_one_plane_is_of_no_use_at_another() {
        let stamp = |change: &dyn Fn(&mut Value)| {
            let mut document = document();
            change(&mut document);
            parse(&document).expect("a configuration").stamp()
        };
        let original = stamp(&|_| {});
        assert_eq!(original, stamp(&|document| document["token"] = json!("another")));
        for (field, value) in [("server", "https://10.0.0.2"), ("caData", "QQ=="), ("plane", "b")] {
            assert_ne!(original, stamp(&|document| document[field] = json!(value)), "{field}");
        }
    }

    #[test]
    fn the_token_is_taken_out_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.json");
        let mut config = parse(&document()).expect("a configuration");
        config.forget_token(&path).expect("written");
        let mut expected = document();
        expected.as_object_mut().expect("an object").shift_remove("token");
        let written: Value = serde_json::from_slice(&std::fs::read(&path).expect("there")).expect("JSON");
        assert_eq!(written, expected);
        assert!(Config::parse(written.to_string().as_bytes()).expect("still one").token().is_none());
    }
}
