//! Images from a registry: how the program asks for them, and which it refuses.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_plan::Digest;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

use crate::server::{Answer, Asked, Server};
use crate::stage::{Agent, eventually, spawn, write};

/// Content of a repository by the end of its address, such as `manifests/v1`.
#[derive(Clone, Default)]
struct Content(BTreeMap<String, Vec<u8>>);

impl Content {
    /// Adds a layer, and returns its descriptor.
    fn layer(&mut self, bytes: &[u8]) -> Value {
        self.blob("blobs", bytes)
    }

    fn blob(&mut self, kind: &str, bytes: &[u8]) -> Value {
        let digest = format!("sha256:{}", Digest::of(bytes));
        self.0.insert(format!("{kind}/{digest}"), bytes.to_vec());
        json!({"digest": digest, "size": bytes.len()})
    }

    /// Adds an image with this tag, in a list of platforms.
    fn image(&mut self, tag: &str, layers: &[Value]) {
        let mut image = self.blob("manifests", json!({"layers": layers}).to_string().as_bytes());
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        image["platform"] = json!({"os": "linux", "architecture": architecture});
        let other =
            json!({"digest": "sha256:x", "platform": {"os": "windows", "architecture": architecture}});
        let list = json!({"manifests": [other, image]}).to_string();
        self.0.insert(format!("manifests/{tag}"), list.into_bytes());
    }

    fn answer(&self, request: &Asked, repository: &str) -> Answer {
        let path =
            request.line.split_whitespace().nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
        let name = path.strip_prefix(&format!("/v2/{repository}/")).unwrap_or_default();
        match self.0.get(name) {
            Some(bytes) => Answer::ok(bytes.clone()),
            None => {
                let error = json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "hunter2"}]});
                Answer { status: "404 Not Found", ..Answer::ok(error.to_string()) }
            }
        }
    }
}

fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn link(target: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_mode(0o777);
    header.set_size(0);
    header.set_mode(0o777);
    builder.append_link(&mut header, "link", target).unwrap();
    builder.into_inner().unwrap()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A machine with plans in a folder.
struct Machine(TempDir);

impl Machine {
    /// With this `registries.yaml`.
    fn new(registries: &str) -> Self {
        let machine = Self(TempDir::new().unwrap());
        let at = |name: &str| machine.0.path().join(name);
        std::fs::create_dir(at("plans")).unwrap();
        write(&at("registries.yaml"), registries);
        let config = json!({
            "workDirectory": at("work"), "imagesDirectory": at("images"), "localEnabled": true,
            "localPlanDirectory": at("plans"), "agentRegistriesFile": at("registries.yaml"),
        });
        write(&at("config.json"), &config.to_string());
        machine
    }

    /// Adds a plan with an instruction that has this image.
    fn plan(&self, name: &str, image: &str) {
        let instruction = json!({"name": "i", "image": image, "saveOutput": true});
        let path = self.0.path().join("plans").join(format!("{name}.plan"));
        write(&path, &json!({"instructions": [instruction]}).to_string());
    }

    fn start(&self) -> Agent {
        spawn(
            Path::new(env!("CARGO_BIN_EXE_capstan-agent")),
            self.0.path(),
            &self.0.path().join("config.json"),
        )
    }

    fn position(&self, name: &str) -> Value {
        let path = self.0.path().join("plans").join(format!("{name}.pos"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap_or_default()).unwrap_or_default()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.0.path().join("log")).unwrap_or_default()
    }

    /// What the instruction of a plan has printed.
    async fn printed(&self, name: &str) -> String {
        let position = eventually("applied plan", async || {
            let position = self.position(name);
            assert_eq!(position.get("failedChecksum"), None, "{}", self.log());
            position.get("appliedChecksum").is_some().then_some(position)
        })
        .await;
        let packed = BASE64_STANDARD.decode(position["output"].as_str().unwrap()).unwrap();
        let output: Value = capstan_sentinel::output::unpack(&packed);
        crate::stage::text_of(&output["i"])
    }
}

/// Answers only requests that have this token, and gives it to a user with a password.
fn with_token(port: u16, request: &Asked, answer: impl Fn() -> Answer) -> Answer {
    let basic = format!("Basic {}", BASE64_STANDARD.encode("user:hunter2"));
    if request.line.starts_with("GET /token?service=test&scope=repository%3A") {
        let is_user = request.authorization.as_deref() == Some(&basic);
        return if is_user { Answer::ok(r#"{"token":"hunter3"}"#) } else { Answer::status("403 Forbidden") };
    }
    match request.authorization.as_deref() {
        Some("Bearer hunter3") => answer(),
        _ => Answer::status("401 Unauthorized").with(format!(
            "www-authenticate: Bearer realm=\"https://localhost:{port}/token\",service=\"test\",scope=\"repository:x:pull\""
        )),
    }
}

#[tokio::test]
async fn an_image_is_pulled_from_a_mirror_with_a_token_and_run() {
    let mut content = Content::default();
    let script = "#!/bin/sh\necho from the image; ls; cat data/new\n";
    let lower = content.layer(&gz(&tar(&[
        ("run.sh", "old"),
        ("data/old", "old"),
        ("data/new", "old"),
        ("gone", "gone"),
    ])));
    let upper =
        tar(&[("run.sh", script), ("data/.wh..wh..opq", ""), ("data/new", "new\n"), (".wh.gone", "")]);
    let (upper, top) = (content.layer(&upper), content.layer(&tar(&[("run.sh", script)])));
    content.image("v1", &[lower.clone(), upper]);
    // The same layer twice.
    content.image("v2", &[lower.clone(), lower, top]);
    let mirror = Server::start(move |port, request| {
        with_token(port, request, || content.answer(request, "mirror/app"))
    })
    .await;
    let port = mirror.port;
    let folder = TempDir::new().unwrap();
    let ca = folder.path().join("ca.pem");
    write(&ca, &mirror.ca);
    let machine = Machine::new(&format!(
        "mirrors:
  registry.test:5000:
    endpoint: ['http://localhost:1', 'https://localhost:{port}']
    rewrite: {{'^team/(.*)': 'mirror/$1'}}
configs:
  localhost:{port}:
    auth: {{username: user, password: hunter2}}
    tls: {{ca_file: '{}'}}
",
        ca.display()
    ));
    machine.plan("a", "registry.test:5000/team/app:v1");
    machine.plan("b", "registry.test:5000/team/app:v2");
    let _agent = machine.start();
    assert_eq!(machine.printed("a").await, "from the image\ndata\nrun.sh\nnew\n");
    assert_eq!(machine.printed("b").await, "from the image\ndata\ngone\nrun.sh\nold");
    let lines: Vec<String> = mirror.asked().into_iter().map(|request| request.line).collect();
    let expected = "GET /v2/mirror/app/manifests/v1?ns=registry.test%3A5000";
    assert!(lines.iter().any(|line| line == expected), "{lines:?}");
    let log = machine.log();
    assert!(log.contains("pulled the image registry.test:5000/team/app:v1 (sha256:"), "{log}");
    assert!(!log.contains("hunter"), "{log}");
    assert!(!machine.0.path().join("work.capstan/images").exists());
}

#[tokio::test]
async fn an_identity_token_is_exchanged_and_tokens_that_expire_are_renewed() {
    let mut content = Content::default();
    let layer = content.layer(&tar(&[("run.sh", "#!/bin/sh\necho renewed\n")]));
    content.image("v1", &[layer]);
    // Each token is good for two requests.
    let uses = AtomicUsize::new(0);
    let registry = Server::start(move |port, request| {
        let number = uses.load(Ordering::Relaxed) / 2;
        if request.line == "POST /token" {
            let values = [
                "grant_type=refresh_token",
                "refresh_token=hunter2",
                "service=test",
                "scope=repository%3Ax%3Apull",
            ];
            let is_whole = values.iter().all(|value| request.body.split('&').any(|part| part == *value));
            return match is_whole && request.authorization.is_none() {
                true => Answer::ok(format!("{{\"access_token\":\"hunter{number}\"}}")),
                false => Answer::status("400 Bad Request"),
            };
        }
        if request.authorization == Some(format!("Bearer hunter{number}")) {
            uses.fetch_add(1, Ordering::Relaxed);
            return content.answer(request, "x");
        }
        let challenge =
            format!("www-authenticate: Bearer realm=\"https://localhost:{port}/token\",service=\"test\"");
        Answer::status("401 Unauthorized").with(challenge)
    })
    .await;
    let port = registry.port;
    let folder = TempDir::new().unwrap();
    let ca = folder.path().join("ca.pem");
    write(&ca, &registry.ca);
    let machine = Machine::new(&format!(
        "configs: {{'localhost:{port}': {{auth: {{identity_token: hunter2}}, tls: {{ca_file: '{}'}}}}}}",
        ca.display()
    ));
    machine.plan("a", &format!("localhost:{port}/x:v1"));
    let _agent = machine.start();
    assert_eq!(machine.printed("a").await, "renewed\n");
    assert_eq!(registry.asked().iter().filter(|request| request.line == "POST /token").count(), 2);
    assert!(!machine.log().contains("hunter"), "{}", machine.log());
}

#[tokio::test]
async fn a_redirect_to_another_server_has_no_credential() {
    let mut content = Content::default();
    let layer = tar(&[("run.sh", "#!/bin/sh\necho moved\n")]);
    let descriptor = content.layer(&layer);
    content.image("v1", &[descriptor]);
    let storage = Server::start(move |_, _| Answer::ok(layer.clone())).await;
    let target = format!("https://127.0.0.1:{}/layer?signature=hunter4", storage.port);
    let registry = Server::start(move |port, request| {
        with_token(port, request, || match request.line.contains("/blobs/") {
            true if request.line.contains("/plain/") => {
                Answer::status("302 Found").with("location: http://127.0.0.1:1/x?hunter4".to_owned())
            }
            true if request.line.contains("/loop/") => Answer::status("302 Found")
                .with(format!("location: {}", request.line.split(' ').nth(1).unwrap())),
            true => Answer::status("307 Temporary Redirect").with(format!("location: {target}")),
            false => {
                let repository = request.line.split('/').nth(2).unwrap();
                content.answer(request, repository)
            }
        })
    })
    .await;
    let (port, other) = (registry.port, storage.port);
    let folder = TempDir::new().unwrap();
    let ca = |server: &Server, name: &str| {
        write(&folder.path().join(name), &server.ca);
        folder.path().join(name).display().to_string()
    };
    let machine = Machine::new(&format!(
        "configs:
  localhost:{port}: {{auth: {{username: user, password: hunter2}}, tls: {{ca_file: '{}'}}}}
  127.0.0.1:{other}: {{tls: {{ca_file: '{}'}}}}
",
        ca(&registry, "registry.pem"),
        ca(&storage, "storage.pem"),
    ));
    machine.plan("a", &format!("localhost:{port}/x:v1"));
    machine.plan("b", &format!("localhost:{port}/plain:v1"));
    machine.plan("c", &format!("localhost:{port}/loop:v1"));
    let _agent = machine.start();
    assert_eq!(machine.printed("a").await, "moved\n");
    let asked = storage.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].line.as_str(), &asked[0].authorization), ("GET /layer?signature=hunter4", &None));
    eventually("two failures", async || {
        let log = machine.log();
        let has_both = log.contains("it redirected to an address that is not https://")
            && log.contains("it redirected more than 5 times");
        has_both.then_some(())
    })
    .await;
    assert!(!machine.log().contains("hunter"), "{}", machine.log());
}

#[tokio::test]
async fn images_that_cannot_be_trusted_are_refused() {
    let mut content = Content::default();
    let good = content.layer(&tar(&[("run.sh", "#!/bin/sh\n")]));
    let cut = |descriptor: &Value, size: u64| {
        let mut other = descriptor.clone();
        other["size"] = json!(size);
        other
    };
    let escape = content.layer(&link("../../../../etc"));
    content.image("escape", &[escape]);
    let absolute = content.layer(&gz(&link("/etc")));
    content.image("absolute", &[absolute]);
    content.image("longer", &[cut(&good, 10)]);
    content.image("huge", &[cut(&good, 20 << 30)]);
    content.image("empty", &[cut(&good, 0)]);
    let endless = content.layer(&vec![b'x'; 5000]);
    content.image("endless", &[cut(&endless, 4000)]);
    let wrong = content.layer(b"content that is replaced");
    let key = format!("blobs/{}", wrong["digest"].as_str().unwrap());
    content.0.insert(key, b"replaced by other content".to_vec()[..24].to_vec());
    content.image("wrong", &[wrong]);
    content.image("missing", &[json!({"digest": format!("sha256:{}", Digest::of(b"missing")), "size": 7})]);
    content.image("many", &vec![good.clone(); 200]);
    content.0.insert("manifests/large".to_owned(), vec![b' '; 5 << 20]);
    content.0.insert("manifests/text".to_owned(), b"<html>hunter2</html>".to_vec());
    content.0.insert(
        "manifests/windows".to_owned(),
        json!({"manifests": [{"platform": {"os": "windows", "architecture": "amd64"}}]})
            .to_string()
            .into_bytes(),
    );
    let mut other = content.0["manifests/longer"].clone();
    other.push(b' ');
    let pinned = Digest::of(b"another description");
    content.0.insert(format!("manifests/sha256:{pinned}"), other);
    let endless = endless["digest"].as_str().unwrap().to_owned();
    let registry = Server::start(move |_, request| {
        let answer = content.answer(request, "x");
        if request.line.contains("/denied/") {
            return Answer::status("401 Unauthorized").with("www-authenticate: Basic realm=x".to_owned());
        }
        if request.line.contains("/plain-token/") {
            let realm = "www-authenticate: Bearer realm=\"http://localhost/token\"".to_owned();
            return Answer::status("401 Unauthorized").with(realm);
        }
        Answer { has_length: !request.line.contains(&endless), ..answer }
    })
    .await;
    let port = registry.port;
    let folder = TempDir::new().unwrap();
    let ca = folder.path().join("ca.pem");
    write(&ca, &registry.ca);
    let machine = Machine::new(&format!(
        "configs:
  localhost:{port}: {{auth: {{identity_token: hunter2}}, tls: {{ca_file: '{}'}}}}
  127.0.0.1:{port}: {{tls: {{insecure_skip_verify: true}}}}
",
        ca.display()
    ));
    let by_digest = format!("x@sha256:{pinned}");
    let cases: [(&str, String); 16] = [
        ("x:escape", "leads out of the folder".into()),
        ("x:absolute", "leads out of the folder".into()),
        ("x:longer", "bytes of the layer".into()),
        ("x:huge", "its layers have more than 17179869184 bytes".into()),
        ("x:empty", "a layer has no size".into()),
        ("x:endless", "it sent more than the 4000 bytes that were announced".into()),
        ("x:wrong", "has the digest".into()),
        ("x:missing", "answered 404 (MANIFEST_UNKNOWN)".into()),
        ("x:many", "more than 127 layers".into()),
        ("x:large", "it sent more than 4194304 bytes".into()),
        ("x:text", "is not valid JSON".into()),
        ("x:windows", "the image is not for this architecture".into()),
        (&by_digest, "the description of the image has the digest".into()),
        ("x:unknown", "answered 404 (MANIFEST_UNKNOWN)".into()),
        (
            "denied/x:v1",
            format!("it asks for a user and a password; check configs.\"localhost:{port}\".auth in"),
        ),
        ("plain-token/x:v1", "it names a token server that is not https://".into()),
    ];
    for (number, (image, _)) in cases.iter().enumerate() {
        machine.plan(&format!("{number:02}"), &format!("localhost:{port}/{image}"));
    }
    machine.plan("20", &format!("127.0.0.1:{port}/x:v1"));
    let _agent = machine.start();
    eventually("failure of the last plan", async || machine.position("20").get("failedChecksum").cloned())
        .await;
    for (number, (image, message)) in cases.iter().enumerate() {
        let position = machine.position(&format!("{number:02}"));
        let said = position["message"].as_str().unwrap_or_default();
        assert!(said.contains(message.as_str()), "{image}: {said}");
        assert!(!said.contains("hunter"), "{said}");
    }
    let position = machine.position("20");
    let said = position["message"].as_str().unwrap_or_default();
    assert!(said.contains("insecure_skip_verify is not supported"), "{said}");
    let log = machine.log();
    assert!(!log.contains("hunter"), "{log}");
    assert!(!machine.0.path().join("work.capstan/images").exists(), "nothing is left");
}
