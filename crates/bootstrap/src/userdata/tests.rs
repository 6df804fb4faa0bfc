//! Userdata as texts, and the script run for real: by dash where there is one, against a real server, with each of the
//! tools it can fetch with, in a root of its own.

use capstan_artifacts::server::{CONNECTIONS, Options, Server};
use capstan_artifacts::{Addition, Arch, ArtifactRef, Folder, Source};
use capstan_plan::Digest;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

use super::*;

fn agent(plane: &PlaneAddress) -> Agent<'_> {
    Agent {
        plane,
        token: "one-time",
        namespace: "default",
        machine: "web-0",
        machine_id: "0123",
        plan_public_key: &[7; 32],
        plan_key_successions: &[],
        plane_name: "plane-a",
        epoch: 3,
    }
}

#[test]
fn cloud_config_holds_the_agent_and_nothing_else() {
    let plane = PlaneAddress { server: "https://10.0.0.1:6443".to_owned(), ca: b"PEM".to_vec() };
    let (text, format) = agent(&plane).render(BootstrapFormat::CloudConfig, &Catalog::default());
    assert_eq!(format, "cloud-config");
    assert!(text.starts_with("#cloud-config\n"));
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(document["runcmd"], json!([["sh", "/etc/capstan/install-agent"]]));
    assert_eq!(document["write_files"].as_array().map(Vec::len), Some(2));
    for file in document["write_files"].as_array().unwrap() {
        assert_eq!((&file["owner"], &file["permissions"]), (&json!("root:root"), &json!("0600")));
    }
    let file = &document["write_files"][0];
    assert_eq!(file["path"], json!(AGENT_CONFIG_PATH));
    let config: Value = serde_json::from_str(file["content"].as_str().unwrap()).unwrap();
    assert_eq!(config["server"], "https://10.0.0.1:6443");
    assert_eq!(config["caData"], "UEVN");
    assert_eq!(config["token"], "one-time");
    assert_eq!(config["machine"], "web-0");
    assert_eq!(config["machineID"], "0123");
    assert_eq!((&config["plane"], &config["epoch"]), (&json!("plane-a"), &json!(3)));
    assert_eq!(config["planPublicKey"], BASE64_STANDARD.encode([7; 32]));
    let script = document["write_files"][1]["content"].as_str().unwrap();
    assert!(script.starts_with("#!/bin/sh\n") && !script.contains("one-time"), "{script}");
}

#[test]
fn a_script_does_the_same() {
    let plane = PlaneAddress { server: "https://o'brien:6443".to_owned(), ca: Vec::new() };
    let (text, format) = agent(&plane).render(BootstrapFormat::Script, &Catalog::default());
    assert_eq!(format, "script");
    assert!(text.contains(r"https://o'\''brien:6443"), "{text}");
    assert!(text.contains("\n\"$agent\" enroll\n"), "{text}");
}

#[test]
fn it_is_small_enough_for_any_cloud() {
    let plane = PlaneAddress { server: "https://10.0.0.1:6443".to_owned(), ca: vec![b'x'; 1200] };
    let ca = Some("x".repeat(700));
    let catalog = Arch::ALL.into_iter().fold(Catalog::default(), |catalog, arch| {
        let sources =
            vec![Source { url: "https://10.0.0.1:6441/artifacts/sha256/x".to_owned(), ca: ca.clone() }];
        catalog.with(AGENT, VERSION, arch, ArtifactRef { sha256: Digest::of(b""), size: 1, sources })
    });
    let (text, _) = agent(&plane).render(BootstrapFormat::CloudConfig, &catalog);
    assert_eq!(text.matches(&"x".repeat(700)).count(), 1, "the authority stands there once");
    assert!(text.len() < 16 << 10, "{} bytes", text.len());
}

/// What the script may use beside what is under test.
const TOOLS: [&str; 15] = [
    "uname",
    "mkdir",
    "mv",
    "rm",
    "chmod",
    "sha256sum",
    "cut",
    "mktemp",
    "sleep",
    "cat",
    "grep",
    "sh",
    "printf",
    "echo",
    "touch",
];

/// A machine: a root, and only the tools that were asked for.
struct Machine {
    place: TempDir,
}

impl Machine {
    fn with(tools: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let bin = place.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for tool in TOOLS.iter().chain(tools) {
            std::os::unix::fs::symlink(find(tool).unwrap(), bin.join(tool)).unwrap();
        }
        Self { place }
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    fn under(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    fn run(&self, script: &Script<'_>) -> Output {
        let file = self.place.path().join("script");
        std::fs::write(&file, script.text()).unwrap();
        let shell = find("dash").or_else(|| find("sh")).unwrap();
        Command::new(shell)
            .arg(file)
            .env_clear()
            .env("PATH", self.place.path().join("bin"))
            .env("TMPDIR", self.place.path())
            .output()
            .unwrap()
    }

    fn script<'a>(&self, agents: Vec<(Arch, &'a ArtifactRef)>, tries: u32) -> Script<'a> {
        Script {
            paths: Paths::under(self.root().to_str().unwrap()),
            config: Some("{\"token\": \"o'ne\"}".to_owned()),
            agents,
            tries,
        }
    }

    /// Everything the script should leave is there, and nothing else.
    fn is_bootstrapped(&self, out: &Output) {
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{stderr}");
        let config = self.under(AGENT_CONFIG_PATH);
        assert_eq!(std::fs::read_to_string(&config).unwrap(), "{\"token\": \"o'ne\"}\n");
        assert_eq!(mode(&config), 0o600);
        assert_eq!(mode(&self.under(AGENT_PATH)), 0o755);
        assert_eq!(std::fs::read_to_string(self.under("/enrolled")).unwrap(), "enroll\n");
        let sentinel = self.under("/run/cluster-api/bootstrap-success.complete");
        assert_eq!(std::fs::read_to_string(sentinel).unwrap(), "success\n");
        assert_eq!(names(&self.under("/opt/capstan")), ["capstan-agent"]);
        assert_eq!(names(&self.under("/etc/capstan")), ["agent.json"]);
        assert_eq!(names(self.place.path()), ["bin", "root", "script"], "its temporary folder is gone");
    }

    /// An agent that says what it was asked for.
    fn agent(&self) -> String {
        format!("#!/bin/sh\necho \"$@\" > {}\n", self.under("/enrolled").display())
    }
}

/// What the system has comes first: elsewhere there may be a script that needs more than itself.
fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    let usual = ["/usr/bin", "/bin"].map(PathBuf::from).into_iter();
    usual.chain(std::env::split_paths(&path)).map(|folder| folder.join(tool)).find(|file| file.is_file())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A plane's server with one agent on it.
struct Depot {
    place: TempDir,
    server: Server,
}

impl Depot {
    async fn with(agent: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path().join("artifacts"));
        let file = place.path().join("agent");
        std::fs::write(&file, agent).unwrap();
        let arch = Arch::of_this_program().unwrap();
        folder
            .add_file(Addition { name: AGENT.to_owned(), version: VERSION.to_owned(), arch }, &file, None)
            .unwrap();
        let options = Options {
            listen: ([127, 0, 0, 1], 0).into(),
            url: None,
            host: None,
            authority: place.path().join("pki"),
            connections: CONNECTIONS,
        };
        let server = Server::start(folder, &options).await.unwrap();
        Self { place, server }
    }

    fn agent(&self) -> ArtifactRef {
        let arch = Arch::of_this_program().unwrap();
        self.server.software().catalog().find(AGENT, VERSION, arch).unwrap().clone()
    }
}

fn served_on_this_machine(agent: &ArtifactRef) -> Vec<(Arch, &ArtifactRef)> {
    vec![(Arch::of_this_program().unwrap(), agent)]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_is_fetched_with_whatever_there_is() {
    for tool in ["curl", "wget", "python3"] {
        if find(tool).is_none() {
            eprintln!("there is no {tool} here: left out");
            continue;
        }
        let machine = Machine::with(&[tool]);
        let depot = Depot::with(&machine.agent()).await;
        let agent = depot.agent();
        let out = machine.run(&machine.script(served_on_this_machine(&agent), 1));
        machine.is_bootstrapped(&out);
        // Again, with the server gone: what is there is right already.
        drop(depot);
        std::fs::remove_file(machine.under("/enrolled")).unwrap();
        machine.is_bootstrapped(&machine.run(&machine.script(served_on_this_machine(&agent), 1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_not_ours_is_passed_over() {
    let machine = Machine::with(&["curl"]);
    let (depot, other) = (Depot::with(&machine.agent()).await, Depot::with("something else").await);
    let right = depot.agent();
    let (near, strange) = (right.sources[0].clone(), other.agent().sources[0].clone());
    // The wrong authority, other bytes than the digest says, nobody there; and then the right one.
    let sources = vec![
        Source { ca: strange.ca.clone(), ..near.clone() },
        strange,
        Source { url: "https://127.0.0.1:1/x".to_owned(), ca: None },
        near,
    ];
    let agent = ArtifactRef { sources, ..right };
    // An old agent is replaced, whole.
    std::fs::create_dir_all(machine.under("/opt/capstan")).unwrap();
    std::fs::write(machine.under(AGENT_PATH), "old").unwrap();
    let out = machine.run(&machine.script(served_on_this_machine(&agent), 1));
    machine.is_bootstrapped(&out);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains("certificate") && stderr.contains("does not have the digest"), "{stderr}");
    assert!(stderr.contains("cannot fetch https://127.0.0.1:1/x"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_authority_is_the_only_one() {
    // The system would trust the server; the script must not, for it was told of another authority.
    for tool in ["curl", "wget", "python3"].into_iter().filter(|tool| find(tool).is_some()) {
        let machine = Machine::with(&[tool]);
        let (depot, other) = (Depot::with(&machine.agent()).await, Depot::with("something else").await);
        let mut agent = depot.agent();
        let trusted = machine.place.path().join("trusted.pem");
        std::fs::write(&trusted, agent.sources[0].ca.take().unwrap()).unwrap();
        agent.sources[0].ca = other.agent().sources[0].ca.clone();
        let file = machine.place.path().join("script");
        std::fs::write(&file, machine.script(served_on_this_machine(&agent), 1).text()).unwrap();
        let run = Command::new("sh")
            .arg(&file)
            .env_clear()
            .env("PATH", machine.place.path().join("bin"))
            .env("SSL_CERT_FILE", &trusted)
            .env("CURL_CA_BUNDLE", &trusted)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && stderr.contains("cannot fetch"), "{tool}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_said_with_its_step() {
    let machine = Machine::with(&["curl"]);
    let depot = Depot::with(&machine.agent()).await;
    let agent = depot.agent();
    drop(depot);
    let out = machine.run(&machine.script(served_on_this_machine(&agent), 2));
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("trying again in 1 s (1 of 2)") && stderr.contains("tried 2 times"), "{stderr}");
    assert!(
        stderr.ends_with(&format!("at: put the agent at {}\n", machine.under(AGENT_PATH).display())),
        "{stderr}"
    );
    assert!(!stderr.contains("o'ne"), "no word of the configuration: {stderr}");
    assert!(!machine.under(AGENT_PATH).exists() && !machine.under("/run").exists());
    assert_eq!(names(machine.place.path()), ["bin", "root", "script"]);

    let other = if Arch::of_this_program() == Some(Arch::S390x) { Arch::Amd64 } else { Arch::S390x };
    let out = machine.run(&machine.script(vec![(other, &agent)], 1));
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains("the management plane has no agent for"), "{stderr}");

    let out = machine.run(&machine.script(Vec::new(), 1));
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains("cannot find the agent") && stderr.contains("--agent-binary"), "{stderr}");

    let bare = Machine::with(&[]);
    let out = bare.run(&bare.script(served_on_this_machine(&agent), 1));
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains("needs one of curl, GNU wget and python3"), "{stderr}");

    // The agent's own code is the script's, and nothing says that all is done.
    let failing = Machine::with(&["curl"]);
    let depot = Depot::with("#!/bin/sh\necho 'no plane' >&2\nexit 7\n").await;
    let out = failing.run(&failing.script(served_on_this_machine(&depot.agent()), 1));
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(7), "{stderr}");
    assert!(
        stderr.contains("no plane") && stderr.ends_with("gave up (exit code 7) at: let the agent enrol\n"),
        "{stderr}"
    );
    assert!(!failing.under("/run").exists());
    drop(depot.place);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_there_is_used() {
    let machine = Machine::with(&[]);
    std::fs::create_dir_all(machine.under("/opt/capstan")).unwrap();
    let path = machine.under(AGENT_PATH);
    std::fs::write(&path, machine.agent()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    machine.is_bootstrapped(&machine.run(&machine.script(Vec::new(), 1)));
}
