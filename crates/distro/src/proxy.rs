//! The HTTP proxy of a machine: the environment of the distribution, and the proxy of each download.

use capstan_api::bootstrap;
use capstan_plan::{ProxyCredentials, SecretText, Source, SourceProxy, SourceUrl, TcpAddress, no_proxy};
use std::fmt::Write as _;

use crate::error::InputError;
use crate::inputs::Inputs;

/// Keys of the Secret with the credentials.
pub(crate) const USERNAME: &str = "username";
pub(crate) const PASSWORD: &str = "password";

/// What is always reached directly: the machine itself.
const THIS_MACHINE: [&str; 3] = ["localhost", "127.0.0.0/8", "::1"];

/// Networks of pods and Services, and the domain of Services, of a cluster that leaves them to k3s.
const PODS: &str = "10.42.0.0/16";
const SERVICES: &str = "10.43.0.0/16";
const DOMAIN: &str = "cluster.local";

/// Bytes of a user name or password that a plan may have.
const MOST: usize = capstan_plan::limits::CREDENTIAL_BYTES;

/// The proxy of a machine, with its credentials.
pub(crate) struct Proxy {
    http: Option<TcpAddress>,
    https: Option<TcpAddress>,
    credentials: Option<ProxyCredentials>,
    /// Servers that are reached directly.
    direct: Vec<String>,
}

impl Proxy {
    /// The proxy in the configuration, if there is one.
    pub(crate) fn of(inputs: &Inputs<'_>) -> Result<Option<Self>, InputError> {
        let Some(spec) = &inputs.config.proxy else { return Ok(None) };
        let address = |name: &str, url: Option<&String>| url.map(|url| address(name, url)).transpose();
        Ok(Some(Self {
            http: address("httpProxy", spec.http_proxy.as_ref())?,
            https: address("httpsProxy", spec.https_proxy.as_ref())?,
            credentials: credentials(inputs, spec)?,
            direct: direct(inputs, spec),
        }))
    }

    /// The environment, as a file for systemd.
    pub(crate) fn environment(&self) -> String {
        let mut text = "# Written by Capstan.\n".to_owned();
        for (name, address) in [("HTTP_PROXY", &self.http), ("HTTPS_PROXY", &self.https)] {
            if let Some(address) = address {
                // Writing to a String cannot fail.
                _ = writeln!(text, "{name}=http://{}{address}", self.user_info());
            }
        }
        _ = writeln!(text, "NO_PROXY={}", self.direct.join(","));
        text
    }

    /// `USER:PASSWORD@` of a URL.
    fn user_info(&self) -> String {
        let credentials = self.credentials.as_ref();
        credentials.map_or_else(String::new, |ProxyCredentials { username, password }| {
            format!("{}:{}@", encoded(username), encoded(password.expose()))
        })
    }

    /// Texts that must not appear in a report: the password, as it is and as in a URL.
    pub(crate) fn redact(&self) -> Vec<SecretText> {
        let Some(credentials) = &self.credentials else { return Vec::new() };
        let (plain, in_url) = (credentials.password.expose(), encoded(credentials.password.expose()));
        let in_url = (in_url != plain).then(|| SecretText::new(in_url));
        [credentials.password.clone()].into_iter().chain(in_url).collect()
    }

    /// The proxy of a download. The management plane's own server, which has a CA of its own, is reached directly.
    pub(crate) fn of_source(&self, source: &Source) -> Option<SourceProxy> {
        let SourceUrl::Https(url) = &source.url else { return None };
        let is_direct = source.ca.is_some() || no_proxy::is_listed(&self.direct, url.host(), url.port());
        let address = self.https.clone().filter(|_| !is_direct)?;
        Some(SourceProxy { address, credentials: self.credentials.clone() })
    }
}

fn address(name: &str, url: &str) -> Result<TcpAddress, InputError> {
    let authority = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    let address = authority.and_then(|authority| {
        TcpAddress::new(authority).or_else(|_| TcpAddress::new(format!("{authority}:80"))).ok()
    });
    address.ok_or_else(|| {
        let message = "must be http://HOST[:PORT], without user and password: put these into a Secret, and name it in \
                       spec.proxy.credentialsRef";
        InputError::new(format!("spec.proxy.{name}"), message)
    })
}

fn credentials(inputs: &Inputs<'_>, spec: &bootstrap::Proxy) -> Result<Option<ProxyCredentials>, InputError> {
    let Some(reference) = &spec.credentials_ref else { return Ok(None) };
    let wrong = |message: String| InputError::new("spec.proxy.credentialsRef", message);
    let text = |key: &str| {
        let found = inputs.secrets.get(&(reference.name.clone(), key.to_owned())).ok_or_else(|| {
            wrong(format!(
                "there is no Secret {} with the key {key}: make it, or take the reference out",
                reference.name
            ))
        })?;
        let text = std::str::from_utf8(found.as_bytes()).ok().filter(|text| !text.contains(char::is_control));
        let text = text.ok_or_else(|| {
            wrong(format!("the key {key} must be one line of text: remove the line break at its end"))
        })?;
        match (1..=MOST).contains(&text.len()) {
            true => Ok(text.to_owned()),
            false => Err(wrong(format!("the key {key} must have 1 to {MOST} bytes"))),
        }
    };
    let (username, password) = (text(USERNAME)?, SecretText::new(text(PASSWORD)?));
    if username.contains(':') {
        return Err(wrong(format!("the key {USERNAME} must not contain a colon")));
    }
    Ok(Some(ProxyCredentials { username, password }))
}

/// What is reached directly, each once.
fn direct(inputs: &Inputs<'_>, spec: &bootstrap::Proxy) -> Vec<String> {
    let network = inputs.network;
    let blocks = |blocks: &[String], usual: &str| match blocks.is_empty() {
        true => vec![usual.to_owned()],
        false => blocks.to_vec(),
    };
    let domain = network.domain.as_deref().unwrap_or(DOMAIN);
    let all = THIS_MACHINE
        .map(str::to_owned)
        .into_iter()
        .chain(blocks(&network.pods, PODS))
        .chain(blocks(&network.services, SERVICES))
        .chain([".svc".to_owned(), format!(".{domain}"), inputs.endpoint.host.clone()])
        .chain(spec.no_proxy.iter().cloned());
    let mut direct: Vec<String> = Vec::new();
    for entry in all.filter(|entry| !entry.is_empty()) {
        if !direct.contains(&entry) {
            direct.push(entry);
        }
    }
    direct
}

/// A text as a part of a URL.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            // Writing to a String cannot fail.
            _ => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    encoded
}
