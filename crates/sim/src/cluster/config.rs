//! The k3s configuration on a machine. Pure.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::token::JoinToken;
use crate::vm::state::{K3sRole, Membership, State};

const CONFIG: &str = "/etc/rancher/k3s/config.yaml";
const TLS: &str = "/var/lib/rancher/k3s/server/tls";
/// Where k3s listens when nothing is said.
const DEFAULT_PORT: u16 = 6443;

/// The configuration of a k3s process that is about to start.
#[derive(Clone)]
pub struct Start {
    /// Role: server or agent.
    pub kind: K3sRole,
    /// Whether it starts a new cluster (`cluster-init`).
    pub is_init: bool,
    /// The port of the API server of its cluster.
    pub port: u16,
    /// Join token: a server that starts a cluster sets it, every other machine must present it. Never printed.
    pub token: JoinToken,
    /// On servers: the token that workers must present, if it is another one.
    pub agent_token: Option<JoinToken>,
    /// Whether the machine has joined before: its client certificate counts as much as its token.
    pub has_certificate: bool,
    /// The Node that it registers.
    pub node: NodeFacts,
    /// CAs and certificate names; servers only.
    pub authorities: Option<Authorities>,
}

/// The properties of a machine that its Node reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name of the Node.
    pub name: String,
    /// Provider ID of the machine.
    pub provider_id: Option<String>,
    /// Version of the kubelet.
    pub version: String,
    /// Labels that the Node registers with.
    pub labels: Vec<(String, String)>,
    /// Taints that the Node registers with: key, value, effect.
    pub taints: Vec<(String, Option<String>, String)>,
    /// Machine ID of the operating system.
    pub machine_id: String,
    /// Boot ID; changes with every boot.
    pub boot_id: String,
}

/// The CAs of a server, as PEM.
#[derive(Clone)]
pub struct Authorities {
    /// CA that signs serving certificates.
    pub server_ca: String,
    /// Key of the serving CA.
    pub server_ca_key: String,
    /// CA bundle for client certificates.
    pub client_ca: String,
    /// Additional names and addresses that the serving certificate must contain.
    pub names: Vec<String>,
}

/// The keys of `config.yaml` that matter here. The rest is for the real one.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Config {
    cluster_init: bool,
    server: Option<String>,
    token: Option<String>,
    agent_token: Option<String>,
    node_name: Option<String>,
    kubelet_arg: Words,
    https_listen_port: Option<u16>,
    tls_san: Words,
    node_label: Words,
    node_taint: Words,
}

/// A word or a list of them, as k3s allows.
#[derive(Default)]
struct Words(Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Shape {
            One(String),
            Many(Vec<String>),
        }
        Ok(Self(match Shape::deserialize(deserializer)? {
            Shape::One(word) => vec![word],
            Shape::Many(words) => words,
        }))
    }
}

impl Start {
    /// Reads the k3s configuration of a machine. The error text is what k3s would print.
    ///
    /// # Errors
    /// If k3s is not installed, or its configuration is incomplete.
    pub fn read(state: &State, kind: K3sRole, host: &str) -> Result<Self, String> {
        let version = state.version(kind)?;
        let config = state.files.read(CONFIG).ok_or_else(|| format!("cannot read {CONFIG}"))?;
        let config = parse(config)?;
        let is_init = config.cluster_init && kind == K3sRole::Server;
        let port = match (&config.server, is_init) {
            (_, true) => config.https_listen_port.unwrap_or(DEFAULT_PORT),
            (Some(server), false) => {
                port_of(server).ok_or_else(|| format!("server: {server} is not https://host:port"))?
            }
            (None, false) => {
                return Err(format!("{CONFIG} names no server to join, and cluster-init is not set"));
            }
        };
        let node = NodeFacts {
            name: config.node_name.unwrap_or_else(|| host.to_owned()),
            provider_id: config
                .kubelet_arg
                .0
                .iter()
                .find_map(|arg| arg.strip_prefix("provider-id=").map(str::to_owned)),
            version,
            labels: config.node_label.0.iter().filter_map(|label| pair(label)).collect(),
            taints: config.node_taint.0.iter().filter_map(|taint| self::taint(taint)).collect(),
            machine_id: state.machine_id.clone(),
            boot_id: state.boot_id.clone(),
        };
        let authorities = match kind {
            K3sRole::Server => Some(authorities(state, config.tls_san.0)?),
            K3sRole::Agent => None,
        };
        let token = JoinToken::parse(&config.token.unwrap_or_default())?;
        let agent_token = config.agent_token.filter(|token| !token.is_empty() && kind == K3sRole::Server);
        let agent_token = agent_token.map(|token| JoinToken::parse(&token)).transpose()?;
        let is_own = |data: &Membership| (data.port, data.kind) == (port, kind) && data.node == node.name;
        let has_certificate = state.data.as_ref().is_some_and(is_own);
        Ok(Self { kind, is_init, port, token, agent_token, has_certificate, node, authorities })
    }
}

fn parse(bytes: &[u8]) -> Result<Config, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("{CONFIG} is not text"))?;
    // The parser's own words may quote the file, which holds the token.
    let map: Map<String, Value> =
        serde_saphyr::from_str(text).map_err(|_| format!("{CONFIG} is not a YAML map"))?;
    serde_json::from_value(Value::Object(map))
        .map_err(|_| format!("{CONFIG} has a value of the wrong type among those a simulated machine reads"))
}

fn authorities(state: &State, names: Vec<String>) -> Result<Authorities, String> {
    let read = |name: &str| {
        let path = format!("{TLS}/{name}");
        let bytes = state.files.read(&path).ok_or_else(|| format!("cannot read {path}"))?;
        String::from_utf8(bytes.to_vec()).map_err(|_| format!("{path} is not PEM"))
    };
    Ok(Authorities {
        server_ca: read("server-ca.crt")?,
        server_ca_key: read("server-ca.key")?,
        client_ca: read("client-ca.crt")?,
        names,
    })
}

fn port_of(server: &str) -> Option<u16> {
    let authority = server.strip_prefix("https://")?.split('/').next()?;
    match authority.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse().ok(),
        _ => Some(DEFAULT_PORT),
    }
}

fn pair(text: &str) -> Option<(String, String)> {
    text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
}

fn taint(text: &str) -> Option<(String, Option<String>, String)> {
    let (start, effect) = text.rsplit_once(':')?;
    let (key, value) = match start.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (start, None),
    };
    Some((key.to_owned(), value, effect.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::files::PUBLIC;
    use capstan_plan::MachinePath;

    fn machine(kind: K3sRole, config: &str) -> State {
        let mut state = State::new("h");
        let program = "/opt/capstan/k3s/v1.33.4+k3s1/bin/k3s";
        let unit = format!("[Service]\nExecStart={program} {}\n", kind.word());
        let mut put = |path: &str, text: &str| {
            let path = MachinePath::new(path).expect("a path");
            state.files.write_with_parents(&path, text.as_bytes(), PUBLIC).expect("written");
        };
        put(CONFIG, config);
        put(program, "");
        put(&format!("/etc/systemd/system/{}", kind.unit()), &unit);
        for name in ["server-ca.crt", "server-ca.key", "client-ca.crt"] {
            put(&format!("{TLS}/{name}"), name);
        }
        state
    }

    #[test]
    fn an_init_server_is_read_from_json() {
        let config = r#"{"cluster-init": true, "token": "t", "node-name": "web-0", "https-listen-port": 20123,
            "kubelet-arg": ["provider-id=capstan://ns/h/1", "max-pods=50"], "tls-san": ["127.0.0.1"],
            "node-label": ["a=b"], "node-taint": ["dedicated=db:NoSchedule", "x:NoExecute"], "disable": ["traefik"]}"#;
        let start = Start::read(&machine(K3sRole::Server, config), K3sRole::Server, "h").expect("starts");
        assert!(start.is_init);
        assert_eq!(start.port, 20123);
        assert_eq!(start.node.provider_id.as_deref(), Some("capstan://ns/h/1"));
        assert_eq!(start.node.labels, [("a".to_owned(), "b".to_owned())]);
        assert_eq!(start.node.taints[0].2, "NoSchedule");
        assert_eq!(start.node.taints[1], ("x".to_owned(), None, "NoExecute".to_owned()));
        assert_eq!(start.authorities.expect("authorities").names, ["127.0.0.1"]);
    }

    #[test]
    fn a_worker_is_read_from_yaml() {
        let config = "server: https://127.0.0.1:20123\ntoken: t\nkubelet-arg: provider-id=x\n";
        let start = Start::read(&machine(K3sRole::Agent, config), K3sRole::Agent, "h").expect("starts");
        assert!(!start.is_init && start.authorities.is_none());
        assert_eq!((start.port, start.node.name.as_str()), (20123, "h"));
    }

    #[test]
    fn what_is_missing_is_named_and_no_secret_is() {
        let complaint =
            |kind, config: &str| Start::read(&machine(kind, config), kind, "h").err().unwrap_or_default();
        assert!(complaint(K3sRole::Agent, "token: t").contains("names no server"));
        assert!(complaint(K3sRole::Agent, "server: nonsense\ntoken: t").contains("is not https://"));
        assert!(complaint(K3sRole::Agent, "server: https://a:1").contains("token"));
        let broken = complaint(K3sRole::Agent, "token: [s3cret, {");
        assert!(!broken.is_empty() && !broken.contains("s3cret"));
        let state = machine(K3sRole::Server, "token: t");
        assert!(Start::read(&state, K3sRole::Agent, "h").err().unwrap_or_default().contains("not found"));
    }

    #[test]
    fn ports_are_found_in_addresses() {
        for (server, port) in [
            ("https://127.0.0.1:20123", Some(20123)),
            ("https://api.example", Some(6443)),
            ("https://[::1]:7", Some(7)),
            ("https://[::1]", Some(6443)),
            ("http://a:1", None),
        ] {
            assert_eq!(port_of(server), port, "{server}");
        }
    }
}
