//! `registries.yaml`, as K3s, RKE2 and rancher/system-agent read it: which servers have the images of a registry, and the
//! credentials and certificates for them. Pure.

pub mod answer;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::image::ImageReference;
use capstan_plan::{Digest, HttpsUrl, SecretText};
use regex::bytes::RegexBuilder;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

use crate::config::{ConfigError, wrong};

/// Docker Hub in names of images.
const HUB: &str = "docker.io";

/// The server of Docker Hub.
const HUB_SERVER: &str = "index.docker.io";

/// The entry for every registry without one of its own.
const ANY: &str = "*";

/// Largest memory of a regular expression.
const PATTERN: usize = 1024 * 1024;

/// The file. Nothing of it is printed.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub struct Registries {
    mirrors: Option<BTreeMap<String, Option<Mirror>>>,
    configs: Option<BTreeMap<String, Option<Server>>>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Mirror {
    endpoint: Option<Vec<String>>,
    rewrite: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Server {
    auth: Option<Auth>,
    tls: Option<Tls>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Auth {
    username: Option<String>,
    password: Option<String>,
    auth: Option<String>,
    identity_token: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Tls {
    ca_file: Option<String>,
    cert_file: Option<String>,
    key_file: Option<String>,
    insecure_skip_verify: Option<bool>,
}

impl fmt::Debug for Registries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registries")
    }
}

/// A server that may have an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The root of its API, without a slash at its end.
    root: HttpsUrl,
    /// The repository there.
    repository: String,
    /// The registry that it stands for, if it is a mirror.
    namespace: Option<String>,
}

/// What a server gets to know who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// User and password.
    pub basic: Option<(String, SecretText)>,
    /// A token that is exchanged for others.
    pub identity_token: Option<SecretText>,
}

/// Files with certificates, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// CAs that are trusted besides those of the operating system.
    pub ca: Option<String>,
    /// Client certificate and its key.
    pub client: Option<(String, String)>,
}

impl Registries {
    /// Reads the file.
    ///
    /// # Errors
    /// If it is not YAML of this kind.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        // An error of the parser quotes the text.
        match serde_saphyr::from_str::<Option<Self>>(text) {
            Ok(read) => Ok(read.unwrap_or_default()),
            Err(_) => wrong("the content is not a list of mirrors and configs in YAML"),
        }
    }

    /// The servers that may have an image, in the order in which they are asked: mirrors, then the registry itself. An error is
    /// in the place of a server that is not asked.
    pub fn endpoints(&self, image: &ImageReference) -> Vec<Result<Endpoint, ConfigError>> {
        let registry = image.registry();
        let mut names = vec![registry.to_owned()];
        if registry == HUB {
            names.push(HUB_SERVER.to_owned());
        } else if !has_port(registry) {
            names.extend([format!("{registry}:443"), format!("{registry}:80")]);
        }
        let found = find(self.mirrors.as_ref(), &names);
        let mirror = found.and_then(|(_, mirror)| mirror.as_ref());
        let name = found.map_or("", |(name, _)| name);
        let listed = mirror.and_then(|mirror| mirror.endpoint.as_deref()).unwrap_or_default();
        let mut endpoints: Vec<Result<Endpoint, ConfigError>> = listed
            .iter()
            .enumerate()
            .map(|(number, text)| {
                let field = format!("mirrors.\"{name}\".endpoint[{number}]");
                let root = root(text, &field)?;
                let rewrites = mirror.and_then(|mirror| mirror.rewrite.as_ref());
                let is_mirror = namespace(root.authority()) != namespace(registry);
                let image = match rewrites.filter(|_| is_mirror) {
                    Some(rewrites) => rewritten(image, rewrites, name)?,
                    None => image.clone(),
                };
                Ok(Endpoint {
                    root,
                    repository: image.repository().to_owned(),
                    namespace: is_mirror.then(|| namespace(registry).to_owned()),
                })
            })
            .collect();
        let own = if registry == HUB { HUB_SERVER } else { registry };
        endpoints.push(root(own, "the registry of the image").map(|root| Endpoint {
            root,
            repository: image.repository().to_owned(),
            namespace: None,
        }));
        endpoints
    }

    /// The credential for a server; empty if there is none.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn credential(&self, authority: &str) -> Result<Credential, ConfigError> {
        let Some((name, auth)) =
            self.server(authority).and_then(|(name, server)| Some((name, server.auth.as_ref()?)))
        else {
            return Ok(Credential::default());
        };
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let basic = match text(&auth.auth) {
            Some(encoded) => {
                let decoded =
                    BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                let pair = decoded.as_deref().and_then(|pair| pair.split_once(':'));
                let Some((user, password)) = pair else {
                    return wrong(format!("configs.\"{name}\".auth.auth is not base64 of USER:PASSWORD"));
                };
                // Docker pads it with zeros.
                Some((user.to_owned(), SecretText::new(password.trim_end_matches('\0'))))
            }
            None => match (text(&auth.username), text(&auth.password)) {
                (Some(user), password) => Some((user, SecretText::new(password.unwrap_or_default()))),
                (None, Some(_)) => {
                    return wrong(format!(
                        "configs.\"{name}\".auth.username is missing, and password is set"
                    ));
                }
                (None, None) => None,
            },
        };
        Ok(Credential { basic, identity_token: text(&auth.identity_token).map(SecretText::new) })
    }

    /// The certificates for a server.
    ///
    /// # Errors
    /// If they cannot be used, or if the server is not to be verified.
    pub fn certificates(&self, authority: &str) -> Result<Certificates, ConfigError> {
        let Some((name, tls)) =
            self.server(authority).and_then(|(name, server)| Some((name, server.tls.as_ref()?)))
        else {
            return Ok(Certificates::default());
        };
        if tls.insecure_skip_verify == Some(true) {
            return wrong(format!(
                "configs.\"{name}\".tls.insecure_skip_verify is not supported; name the CA of the server in ca_file"
            ));
        }
        let file = |field: &str, text: &Option<String>| match text.as_deref() {
            None | Some("") => Ok(None),
            Some(path) if path.starts_with('/') => Ok(Some(path.to_owned())),
            Some(_) => wrong(format!("configs.\"{name}\".tls.{field} must be an absolute path")),
        };
        let ca = file("ca_file", &tls.ca_file)?;
        let client = match (file("cert_file", &tls.cert_file)?, file("key_file", &tls.key_file)?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return wrong(format!("configs.\"{name}\".tls.cert_file and key_file belong together")),
        };
        Ok(Certificates { ca, client })
    }

    fn server(&self, authority: &str) -> Option<(&str, &Server)> {
        let mut names = vec![authority.to_owned()];
        if authority == HUB_SERVER {
            names.push(HUB.to_owned());
        } else if let Some(host) = authority.strip_suffix(":443") {
            names.push(host.to_owned());
        } else if !has_port(authority) {
            names.push(format!("{authority}:443"));
        }
        let (name, server) = find(self.configs.as_ref(), &names)?;
        Some((name, server.as_ref()?))
    }
}

/// The entry of the first of these names, or that for any.
fn find<'a, T>(map: Option<&'a BTreeMap<String, T>>, names: &[String]) -> Option<(&'a str, &'a T)> {
    let mut names = names.iter().map(String::as_str).chain([ANY]);
    names.find_map(|name| map?.get_key_value(name)).map(|(name, value)| (name.as_str(), value))
}

fn has_port(authority: &str) -> bool {
    authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'))
}

/// The registry that a server is.
fn namespace(authority: &str) -> &str {
    if authority == HUB_SERVER { HUB } else { authority }
}

/// The root of the API of a server: `/v2`, unless the address has a path.
fn root(text: &str, field: &str) -> Result<HttpsUrl, ConfigError> {
    // The address is not repeated: it may contain a password.
    let invalid = format!("{field} must be https://host[:port][/path]");
    let rest = match text.split_once("://") {
        None => text,
        Some(("https", rest)) => rest,
        Some(("http", _)) => {
            return wrong(format!("{field} is plain HTTP, which is not supported; use https://"));
        }
        Some(_) => return wrong(invalid),
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if path.contains(['?', '%']) || parts.iter().any(|part| matches!(*part, "." | "..")) {
        return wrong(invalid);
    }
    let path = if parts.is_empty() { "v2".to_owned() } else { parts.join("/") };
    match HttpsUrl::new(format!("https://{authority}/{path}")) {
        Ok(root) => Ok(root),
        Err(_) => wrong(invalid),
    }
}

/// The image in the repository of a mirror: by the first expression that changes its name.
fn rewritten(
    image: &ImageReference,
    rewrites: &BTreeMap<String, String>,
    name: &str,
) -> Result<ImageReference, ConfigError> {
    for (pattern, replacement) in rewrites {
        let field = || format!("mirrors.\"{name}\".rewrite.\"{pattern}\"");
        let Ok(expression) = RegexBuilder::new(pattern).unicode(false).size_limit(PATTERN).build() else {
            return wrong(format!("{} is not a regular expression", field()));
        };
        let before = image.repository().as_bytes();
        let after = expression.replace_all(before, replacement.as_bytes());
        if *after != *before {
            let changed = std::str::from_utf8(&after).ok().and_then(|path| image.in_repository(path));
            return changed
                .map_or_else(|| wrong(format!("{} does not make the name of a repository", field())), Ok);
        }
    }
    Ok(image.clone())
}

impl Endpoint {
    /// Host and port, as the address has them.
    pub fn authority(&self) -> &str {
        self.root.authority()
    }

    /// The address of a description of the image: by tag, or by digest with `sha256:`. `None`: it would be too long.
    pub fn manifest(&self, version: &str) -> Option<HttpsUrl> {
        self.url(&format!("manifests/{version}"))
    }

    /// The address of a layer.
    pub fn blob(&self, digest: Digest) -> Option<HttpsUrl> {
        self.url(&format!("blobs/sha256:{digest}"))
    }

    /// What a token has to permit.
    pub fn scope(&self) -> String {
        format!("repository:{}:pull", self.repository)
    }

    fn url(&self, what: &str) -> Option<HttpsUrl> {
        let query =
            self.namespace.as_ref().map(|name| format!("?ns={}", answer::encoded(name))).unwrap_or_default();
        HttpsUrl::new(format!("{}/{}/{what}{query}", self.root, self.repository)).ok()
    }
}

#[cfg(test)]
mod tests;
