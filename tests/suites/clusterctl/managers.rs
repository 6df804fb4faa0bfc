//! The managers of a plane without nodes: processes in place of pods.
//!
//! What the Deployment says is what runs. Only what a node would fill in or a network would carry is put in here: the
//! pod's address, ports that are free on this machine, a folder for the volume, a file for the account's token.

use anyhow::ensure;
use capstan_testkit::eventually;
use capstan_tests::Running;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;

use crate::stage::{DEADLINE, Stage};

pub(crate) struct Managers {
    running: Vec<Running>,
    logs: Vec<PathBuf>,
}

impl Managers {
    /// Starts those of some providers, and waits until each says that it is ready.
    pub(crate) async fn start(stage: &Stage, controllers: &[&str]) -> Self {
        let mut managers = Self { running: Vec::new(), logs: Vec::new() };
        let mut health = Vec::new();
        for controllers in controllers {
            let namespace = format!("capstan-{controllers}-system");
            let name = format!("capstan-{controllers}-manager");
            let deployment = stage.get(&["deployment", &name, "--namespace", &namespace]).await.unwrap();
            let pod = &deployment["spec"]["template"]["spec"];
            let account = pod["serviceAccountName"].as_str().unwrap();
            let token =
                stage.kubectl(&["create", "token", account, "--namespace", &namespace]).await.unwrap();
            let place = Place::new(stage, &namespace, token.trim());
            for volume in pod["volumes"].as_array().unwrap() {
                let token = &volume["projected"]["sources"][0]["serviceAccountToken"];
                if let Some(audience) = token["audience"].as_str() {
                    let audience = format!("--audience={audience}");
                    let words = ["create", "token", account, "--namespace", &namespace, &audience];
                    fs::write(&place.hooks_token, stage.kubectl(&words).await.unwrap()).unwrap();
                }
            }
            let args: Vec<String> = pod["containers"][0]["args"]
                .as_array()
                .unwrap()
                .iter()
                .map(|arg| place.filled_in(arg.as_str().unwrap()))
                .chain([format!("--kubeconfig={}", place.kubeconfig.display())])
                .collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let log = stage.path(&format!("{controllers}.log"));
            managers.running.push(Running::start(&args, &log).unwrap());
            managers.logs.push(log);
            health.push((name, place.health));
        }
        for (name, port) in health {
            eventually(DEADLINE, &format!("{name} to be ready"), async || {
                managers.running.iter_mut().try_for_each(Running::ensure_running)?;
                ensure!(is_ok(port, "/healthz")? && is_ok(port, "/readyz")?, "not yet");
                Ok(())
            })
            .await
            .unwrap();
        }
        managers
    }

    /// Nobody asked for something it may not do.
    pub(crate) fn were_refused_nothing(&self) {
        for log in &self.logs {
            let text = fs::read_to_string(log).unwrap();
            let refused: Vec<&str> = text
                .lines()
                .filter(|line| line.contains("forbidden") || line.contains("Forbidden"))
                .collect();
            assert!(refused.is_empty(), "{}:\n{}", log.display(), refused.join("\n"));
        }
    }
}

/// What a node would give to a pod.
struct Place {
    namespace: String,
    kubeconfig: PathBuf,
    data: PathBuf,
    health: u16,
    hooks: u16,
    hooks_token: PathBuf,
}

impl Place {
    fn new(stage: &Stage, namespace: &str, token: &str) -> Self {
        let mut config: Value = serde_json::from_slice(&fs::read(stage.plane.kubeconfig()).unwrap()).unwrap();
        config["users"][0]["user"] = json!({ "token": token });
        let kubeconfig = stage.path(&format!("{namespace}.kubeconfig"));
        fs::write(&kubeconfig, config.to_string()).unwrap();
        Self {
            namespace: namespace.to_owned(),
            kubeconfig,
            data: stage.path(&format!("{namespace}.data")),
            health: free_port(),
            hooks: free_port(),
            hooks_token: stage.path(&format!("{namespace}.hooks-token")),
        }
    }

    fn filled_in(&self, arg: &str) -> String {
        let arg = arg.replace("$(POD_IP)", "127.0.0.1").replace("$(POD_NAMESPACE)", &self.namespace);
        let Some((name, value)) = arg.split_once('=') else { return arg };
        let value = match name {
            "--data-dir" => self.data.display().to_string(),
            "--health-addr" => format!("127.0.0.1:{}", self.health),
            "--diagnostics-address" => "127.0.0.1:0".to_owned(),
            "--hooks-listen" => format!("127.0.0.1:{}", self.hooks),
            "--hooks-url" => format!("https://127.0.0.1:{}", self.hooks),
            "--hooks-token-file" => self.hooks_token.display().to_string(),
            "--artifacts-listen" => "127.0.0.1:0".to_owned(),
            _ => value.to_owned(),
        };
        format!("{name}={value}")
    }
}

/// A port that nobody has at this moment.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Asks as a kubelet does.
fn is_ok(port: u16, path: &str) -> anyhow::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}
