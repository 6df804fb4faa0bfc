//! The proxy of a machine: the environment of k3s, the downloads of the agent, and its credentials.

#![cfg(test)]

use std::collections::BTreeMap;

use capstan_api::bootstrap::CapstanConfigSpec;
use capstan_distro::cost::{Setup, classify};
use capstan_distro::{
    Cost, Endpoint, Heal, InputError, Inputs, Maintenance, Network, Rendered, Role, SecretFiles, Software,
    check, render, secret_keys,
};
use capstan_plan::{
    Action, AgentProgram, Capabilities, Capability, Content, Digest, SecretText, Source, SourceProxy, Step,
};
use serde_json::{Value, json};

const PASSWORD: &str = "p@ss: word/7%";
const IN_URL: &str = "p%40ss%3A%20word%2F7%25";

fn config(proxy: &Value) -> CapstanConfigSpec {
    serde_json::from_value(json!({ "proxy": proxy })).unwrap()
}

fn with_credentials() -> Value {
    json!({"httpProxy": "http://proxy.example:3128", "httpsProxy": "http://proxy.example:3129/",
        "credentialsRef": {"name": "proxy"}})
}

fn credentials(username: &str, password: &str) -> SecretFiles {
    let key = |key: &str| ("proxy".to_owned(), key.to_owned());
    BTreeMap::from([(key("username"), Content::from(username)), (key("password"), Content::from(password))])
}

fn source(url: &str) -> Source {
    Source::new(url.parse().unwrap())
}

struct Machine {
    role: Role,
    capabilities: Capabilities,
    network: Network,
    secrets: SecretFiles,
    agent: Option<AgentProgram>,
    sources: Vec<Source>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            role: Role::Worker,
            capabilities: Capabilities::all(),
            network: Network::default(),
            secrets: credentials("web", PASSWORD),
            agent: None,
            sources: vec![source("https://mirror.example/k3s")],
        }
    }
}

impl Machine {
    fn rendered(&self, config: &CapstanConfigSpec) -> Result<Rendered, InputError> {
        render(&Inputs {
            role: self.role,
            others_serve: false,
            version: "v1.36.0+k3s1",
            node_name: "n",
            provider_id: "p",
            endpoint: &Endpoint { host: "api.example".to_owned(), port: 6443 },
            network: &self.network,
            token: &SecretText::new("t"),
            agent_token: None,
            ca: None,
            certificates: None,
            labels: &BTreeMap::new(),
            taints: &[],
            capabilities: &self.capabilities,
            agent: self.agent.as_ref(),
            config,
            maintenance: &Maintenance::ANY_TIME,
            secrets: &self.secrets,
            restart_after: None,
            heal: Heal::default(),
            software: &Software { sha256: Digest::of(b"k3s"), size: 3, sources: self.sources.clone() },
            images: None,
            former: None,
            snapshot: None,
        })
    }
}

fn step<'a>(rendered: &'a Rendered, name: &str) -> Option<&'a Step> {
    rendered.steps.iter().find(|step| step.name.as_str() == name)
}

/// The environment of k3s, line by line.
fn environment(rendered: &Rendered) -> Vec<String> {
    let Some(Action::File(file)) = step(rendered, "proxy").map(|step| &step.action) else {
        panic!("no file")
    };
    assert!(file.secret);
    assert_eq!((file.mode.to_string().as_str(), file.owner), ("0600", 0));
    let text = std::str::from_utf8(file.content.as_bytes()).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn unit(rendered: &Rendered) -> String {
    let Some(Action::Unit(unit)) = step(rendered, "start").map(|step| &step.action) else {
        panic!("no unit")
    };
    std::str::from_utf8(unit.content.as_bytes()).unwrap().to_owned()
}

/// The proxy of each download.
fn proxies(rendered: &Rendered) -> Vec<Option<SourceProxy>> {
    let artifacts = rendered.steps.iter().filter_map(|step| match &step.action {
        Action::Artifact(artifact) => Some(&artifact.sources),
        _ => None,
    });
    let sources = artifacts.chain(rendered.agent.as_ref().map(|agent| &agent.sources)).flatten();
    sources.map(|source| source.proxy.clone()).collect()
}

#[test]
fn k3s_gets_the_environment_and_reads_it_last() {
    let proxy = json!({"httpProxy": "http://proxy.example:3128", "httpsProxy": "http://[fd00::1]",
        "noProxy": ["registry.example", ".svc", "10.0.0.0/8"]});
    let rendered = Machine::default().rendered(&config(&proxy)).unwrap();
    assert_eq!(
        environment(&rendered),
        [
            "HTTP_PROXY=http://proxy.example:3128",
            "HTTPS_PROXY=http://[fd00::1]:80",
            "NO_PROXY=localhost,127.0.0.0/8,::1,10.42.0.0/16,10.43.0.0/16,.svc,.cluster.local,api.example,\
             registry.example,10.0.0.0/8",
        ]
    );
    let lines: Vec<String> = unit(&rendered).lines().map(str::to_owned).collect();
    let files: Vec<&String> = lines.iter().filter(|line| line.starts_with("EnvironmentFile=")).collect();
    assert_eq!(
        files,
        ["EnvironmentFile=-/etc/default/k3s-agent", "EnvironmentFile=-/opt/capstan/lib/k3s-proxy.env"]
    );
    let index = |name: &str| rendered.steps.iter().position(|step| step.name.as_str() == name).unwrap();
    assert!(index("drained") < index("proxy") && index("proxy") < index("start"));

    let network = Network {
        pods: vec!["10.1.0.0/16".to_owned(), "fd01::/64".to_owned()],
        services: vec!["10.2.0.0/16".to_owned()],
        domain: Some("example.internal".to_owned()),
        api_server_port: None,
    };
    let server = Machine { role: Role::Server, network, ..Machine::default() };
    let only_http = server.rendered(&config(&json!({"httpProxy": "http://p:1"}))).unwrap();
    assert_eq!(
        environment(&only_http),
        [
            "HTTP_PROXY=http://p:1",
            "NO_PROXY=localhost,127.0.0.0/8,::1,10.1.0.0/16,fd01::/64,10.2.0.0/16,.svc,.example.internal,api.example",
        ]
    );
    assert_eq!(proxies(&only_http), [None], "downloads are over HTTPS");
}

#[test]
fn without_a_proxy_there_is_nothing_of_it() {
    let rendered = Machine::default().rendered(&CapstanConfigSpec::default()).unwrap();
    assert!(step(&rendered, "proxy").is_none());
    assert!(!unit(&rendered).contains("proxy"));
    assert_eq!(proxies(&rendered), [None]);
    assert_eq!(rendered.redact.len(), 1);
}

#[test]
fn credentials_come_from_a_secret_and_are_redacted() {
    let rendered = Machine::default().rendered(&config(&with_credentials())).unwrap();
    let lines = environment(&rendered);
    assert_eq!(lines[0], format!("HTTP_PROXY=http://web:{IN_URL}@proxy.example:3128"));
    assert_eq!(lines[1], format!("HTTPS_PROXY=http://web:{IN_URL}@proxy.example:3129"));
    let redacted: Vec<&str> = rendered.redact.iter().map(SecretText::expose).collect();
    assert!(redacted.contains(&PASSWORD) && redacted.contains(&IN_URL), "{redacted:?}");
    let [Some(proxy)] = &proxies(&rendered)[..] else { panic!("no proxy") };
    assert_eq!(proxy.address.to_string(), "proxy.example:3129");
    let found = proxy.credentials.as_ref().map(|found| (found.username.as_str(), found.password.expose()));
    assert_eq!(found, Some(("web", PASSWORD)));
    let shown = format!("{rendered:?}");
    assert!(!shown.contains(PASSWORD) && !shown.contains(IN_URL), "{shown}");
    let keys = [("proxy", "username"), ("proxy", "password")];
    let keys = keys.map(|(name, key)| (name.to_owned(), key.to_owned()));
    assert_eq!(secret_keys(&config(&with_credentials())), keys);
}

#[test]
fn wrong_proxies_are_refused_with_their_field_and_without_their_values() {
    for (proxy, secrets, field, remedy) in [
        (json!({"httpProxy": "proxy:3128"}), None, "httpProxy", "must be http://HOST"),
        (json!({"httpsProxy": "https://proxy:3128"}), None, "httpsProxy", "must be http://HOST"),
        (json!({"httpsProxy": "http://me:hunter2@proxy"}), None, "httpsProxy", "spec.proxy.credentialsRef"),
        (json!({"httpsProxy": "http://proxy/path"}), None, "httpsProxy", "must be http://HOST"),
        (with_credentials(), Some(SecretFiles::new()), "credentialsRef", "there is no Secret proxy"),
        (
            with_credentials(),
            Some(credentials("web", "hunter2\n")),
            "credentialsRef",
            "remove the line break",
        ),
        (
            with_credentials(),
            Some(credentials("w:b", "hunter2")),
            "credentialsRef",
            "must not contain a colon",
        ),
        (with_credentials(), Some(credentials("", "hunter2")), "credentialsRef", "1 to 1024"),
        (with_credentials(), Some(credentials("web", &"x".repeat(1025))), "credentialsRef", "1 to 1024"),
    ] {
        let is_spec = secrets.is_none();
        let machine = Machine { secrets: secrets.unwrap_or_default(), ..Machine::default() };
        let error = machine.rendered(&config(&proxy)).unwrap_err();
        assert_eq!(error.field, format!("spec.proxy.{field}"), "{proxy}");
        assert!(error.message.contains(remedy) && !error.message.contains("hunter2"), "{error}");
        // Whether a Secret is there is not known beforehand.
        assert_eq!(check(&config(&proxy), Role::Worker).is_err(), is_spec, "{proxy}");
    }
}

#[test]
fn downloads_go_through_the_proxy_unless_they_are_listed_or_of_the_management_plane() {
    let of_plane = Source { ca: Some("PEM".to_owned()), ..source("https://plane.example:6441/k3s") };
    for (no_proxy, source, goes_through) in [
        (vec![], source("https://mirror.example/k3s"), true),
        (vec![], source("file:///srv/k3s"), false),
        (vec![], of_plane, false),
        (vec![], source("https://api.example/k3s"), false),
        (vec![], source("https://10.43.0.7/k3s"), false),
        (vec!["mirror.example"], source("https://mirror.example/k3s"), false),
        (vec!["*"], source("https://mirror.example/k3s"), false),
        (vec![".example"], source("https://mirror.example/k3s"), false),
        (vec!["10.0.0.0/8"], source("https://10.9.8.7/k3s"), false),
        (vec!["10.0.0.0/8"], source("https://11.9.8.7/k3s"), true),
    ] {
        let mut proxy = json!({"httpsProxy": "http://proxy:3128"});
        if !no_proxy.is_empty() {
            proxy["noProxy"] = json!(no_proxy);
        }
        let program = AgentProgram { sha256: Digest::of(b"a"), size: 1, sources: vec![source.clone()] };
        let machine = Machine { agent: Some(program), sources: vec![source.clone()], ..Machine::default() };
        let found = proxies(&machine.rendered(&config(&proxy)).unwrap());
        assert_eq!(found.len(), 2, "k3s, and the agent");
        assert!(found.iter().all(|proxy| proxy.is_some() == goes_through), "{source:?} {no_proxy:?}");
    }
}

#[test]
fn an_agent_that_does_not_understand_it_downloads_directly() {
    let config = config(&json!({"httpsProxy": "http://proxy:3128"}));
    let rendered = |capabilities: Capabilities| {
        Machine { capabilities, ..Machine::default() }.rendered(&config).unwrap()
    };
    let (old, new) =
        (rendered(Capabilities::FIRST_RELEASE), rendered([Capability::Proxy].into_iter().collect()));
    assert_eq!(proxies(&old), [None]);
    assert_eq!(old.left_out, ["spec.proxy (for downloads)"]);
    assert_eq!(environment(&old), environment(&new), "k3s understands it in any case");
    assert!(proxies(&new)[0].is_some() && new.left_out.is_empty());
    let needed = |rendered: &Rendered| {
        Capabilities::needed_by(&rendered.steps, &rendered.probes, &rendered.periodic, &[], None)
    };
    assert!(needed(&old).is_empty());
    assert!(needed(&new).has(Capability::Proxy));
    // The agent that takes its place gets another plan, and k3s is not restarted.
    assert_ne!(old.fingerprint.whole, new.fingerprint.whole);
    assert_eq!(
        (old.fingerprint.restart, old.fingerprint.drain),
        (new.fingerprint.restart, new.fingerprint.drain)
    );
}

#[test]
fn every_change_of_the_proxy_restarts_k3s() {
    let restart = |proxy: Option<&Value>, password: &str| {
        let config = proxy.map(config).unwrap_or_default();
        let machine = Machine { secrets: credentials("web", password), ..Machine::default() };
        machine.rendered(&config).unwrap().fingerprint.restart
    };
    let first = with_credentials();
    let mut listed = with_credentials();
    listed["noProxy"] = json!(["a.example"]);
    let prints = [
        restart(None, "a"),
        restart(Some(&first), "a"),
        restart(Some(&first), "b"),
        restart(Some(&listed), "a"),
        restart(Some(&json!({"httpsProxy": "http://proxy.example:3129"})), "a"),
    ];
    for (index, print) in prints.iter().enumerate() {
        assert!(!prints[..index].contains(print), "{index}");
    }
    assert_eq!(restart(None, "a"), restart(None, "b"));
    let (plain, proxied) = (CapstanConfigSpec::default(), config(&first));
    let setup = |config| Setup { version: "v1.36.0", config };
    let changes = classify(setup(&plain), setup(&proxied));
    assert!(!changes.is_empty() && changes.iter().all(|change| change.cost == Cost::Restart), "{changes:?}");
}
