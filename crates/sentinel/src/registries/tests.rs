//! Which servers are asked for an image, and with what.

use super::*;

fn registries(text: &str) -> Registries {
    Registries::parse(text).expect("YAML")
}

fn image(name: &str) -> ImageReference {
    ImageReference::parse(name).expect(name)
}

/// The addresses of the description of an image, or why a server is not asked.
fn asked(file: &str, name: &str) -> Vec<String> {
    let image = image(name);
    let text = |endpoint: Result<Endpoint, ConfigError>| match endpoint {
        Ok(endpoint) => endpoint.manifest(&image.version()).expect("short").to_string(),
        Err(error) => error.to_string(),
    };
    registries(file).endpoints(&image).into_iter().map(text).collect()
}

#[test]
fn mirrors_are_asked_before_the_registry() {
    let hub = "https://index.docker.io/v2/rancher/x/manifests/v1";
    let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let by_digest = format!("r.example/x@sha256:{digest}");
    let mirrored = format!("https://m.example/v2/x/manifests/sha256:{digest}?ns=r.example");
    let own = format!("https://r.example/v2/x/manifests/sha256:{digest}");
    let table: &[(&str, &str, &[&str])] = &[
        ("", "rancher/x:v1", &[hub]),
        ("mirrors:", "rancher/x:v1", &[hub]),
        ("mirrors: {docker.io: }", "rancher/x:v1", &[hub]),
        ("mirrors: {other.example: {endpoint: ['https://m.example']}}", "rancher/x:v1", &[hub]),
        (
            "mirrors: {docker.io: {endpoint: ['https://m.example:5000', n.example/sub//path/]}}",
            "rancher/x:v1",
            &[
                "https://m.example:5000/v2/rancher/x/manifests/v1?ns=docker.io",
                "https://n.example/sub/path/rancher/x/manifests/v1?ns=docker.io",
                hub,
            ],
        ),
        (
            "mirrors: {index.docker.io: {endpoint: ['https://m.example/v2']}}",
            "rancher/x:v1",
            &["https://m.example/v2/rancher/x/manifests/v1?ns=docker.io", hub],
        ),
        // The registry itself in the list is not a mirror.
        (
            "mirrors: {r.example: {endpoint: ['https://r.example'], rewrite: {x: y}}}",
            "r.example/x:v1",
            &["https://r.example/v2/x/manifests/v1", "https://r.example/v2/x/manifests/v1"],
        ),
        ("mirrors: {'*': {endpoint: ['https://m.example']}}", &by_digest, &[&mirrored, &own]),
        (
            "mirrors: {'r.example:443': {endpoint: ['https://m.example']}, '*': {endpoint: ['https://n.example']}}",
            "r.example/x:v1",
            &["https://m.example/v2/x/manifests/v1?ns=r.example", "https://r.example/v2/x/manifests/v1"],
        ),
        // An entry without servers hides the one for any.
        (
            "mirrors: {'r.example:5000': {}, '*': {endpoint: ['https://n.example']}}",
            "r.example:5000/x:v1",
            &["https://r.example:5000/v2/x/manifests/v1"],
        ),
        (
            "mirrors: {'r.example:5000': {endpoint: ['https://[::1]:5000']}}",
            "r.example:5000/x:v1",
            &[
                "https://[::1]:5000/v2/x/manifests/v1?ns=r.example%3A5000",
                "https://r.example:5000/v2/x/manifests/v1",
            ],
        ),
    ];
    for (file, name, expected) in table {
        assert_eq!(asked(file, name), *expected, "{file} {name}");
    }
}

#[test]
fn mirrors_have_images_under_other_names() {
    let first = |rewrite: &str| {
        let file = format!("mirrors: {{docker.io: {{endpoint: ['https://m.example'], rewrite: {rewrite}}}}}");
        asked(&file, "rancher/x:v1").remove(0)
    };
    let at = |repository: &str| format!("https://m.example/v2/{repository}/manifests/v1?ns=docker.io");
    assert_eq!(first("{'^rancher/(.*)': 'mirror/images/$1'}"), at("mirror/images/x"));
    assert_eq!(first("{'^(\\w+)/([a-z]*)$': '${2}/${1}'}"), at("x/rancher"));
    assert_eq!(first("{'^other/': 'no/', '^rancher': 'yes'}"), at("yes/x"));
    assert_eq!(first("{'^other/': 'no/'}"), at("rancher/x"));
    assert!(first("{'(': x}").contains("is not a regular expression"));
    assert!(first("{'^rancher': '..'}").contains("does not make the name of a repository"));
    assert!(first("{'^rancher': 'a?b'}").contains("does not make the name of a repository"));
    assert!(first("{'(a{1000}){1000}': x}").contains("is not a regular expression"));
}

#[test]
fn servers_without_tls_are_not_asked() {
    let first = |endpoint: &str| {
        asked(&format!("mirrors: {{docker.io: {{endpoint: ['{endpoint}']}}}}"), "rancher/x:v1").remove(0)
    };
    assert_eq!(
        first("http://hunter2@m.example"),
        "mirrors.\"docker.io\".endpoint[0] is plain HTTP, which is not supported; use https://"
    );
    for bad in [
        "https://user:hunter2@m.example",
        "ftp://m.example",
        "",
        "https://",
        "https://m.example/a?b",
        "https://m.example/../a",
    ] {
        let error = first(bad);
        assert_eq!(error, "mirrors.\"docker.io\".endpoint[0] must be https://host[:port][/path]", "{bad}");
    }
}

#[test]
fn credentials_and_certificates_are_those_of_the_server() {
    let file = registries(
        "configs:
  r.example: {auth: {username: u, password: hunter2}, tls: {ca_file: /ca, cert_file: /c, key_file: /k}}
  r.example:5000: {auth: {auth: dTpodW50ZXI6Mg==}}
  docker.io: {auth: {identity_token: hunter2}}
  none.example:
  '*': {auth: {username: any, password: hunter2}, tls: {ca_file: ''}}
",
    );
    let basic = |user: &str, password: &str| Credential {
        basic: Some((user.to_owned(), SecretText::new(password))),
        identity_token: None,
    };
    for (server, expected) in [
        ("r.example", basic("u", "hunter2")),
        ("r.example:443", basic("u", "hunter2")),
        ("r.example:5000", basic("u", "hunter:2")),
        ("index.docker.io", Credential { basic: None, identity_token: Some(SecretText::new("hunter2")) }),
        ("none.example", Credential::default()),
        ("other.example", basic("any", "hunter2")),
    ] {
        assert_eq!(file.credential(server), Ok(expected), "{server}");
    }
    assert_eq!(
        file.certificates("r.example"),
        Ok(Certificates { ca: Some("/ca".into()), client: Some(("/c".into(), "/k".into())) })
    );
    for server in ["r.example:5000", "none.example", "other.example"] {
        assert_eq!(file.certificates(server), Ok(Certificates::default()), "{server}");
    }
    assert!(!format!("{file:?} {:?}", file.credential("r.example")).contains("hunter2"));
}

#[test]
fn what_cannot_be_used_is_named_without_secrets() {
    let tls = |text: &str| {
        registries(&format!("configs: {{r: {{tls: {text}}}}}")).certificates("r").expect_err(text).to_string()
    };
    assert!(
        tls("{insecure_skip_verify: true}")
            .contains("configs.\"r\".tls.insecure_skip_verify is not supported")
    );
    assert!(tls("{cert_file: /c}").contains("belong together"));
    assert!(tls("{ca_file: ca.pem}").contains("ca_file must be an absolute path"));
    let auth = |text: &str| {
        registries(&format!("configs: {{r: {{auth: {text}}}}}")).credential("r").expect_err(text).to_string()
    };
    assert!(auth("{auth: hunter2}").contains("auth.auth is not base64"));
    assert!(auth("{password: hunter2}").contains("auth.username is missing"));
    for bad in ["mirrors: hunter2", "- hunter2", "configs: {r: {auth: hunter2}}", "{"] {
        let error = Registries::parse(bad).expect_err(bad).to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
