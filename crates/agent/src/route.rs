//! How the agent itself reaches servers: directly, or through an HTTP proxy. The settings come from files of the agent only, never from
//! its environment.

use capstan_plan::{ProxyCredentials, SecretText, SourceProxy, TcpAddress, limits, no_proxy};
use serde::{Deserialize, Serialize};

/// What is always reached directly: the machine itself.
const THIS_MACHINE: [&str; 3] = ["localhost", "127.0.0.0/8", "::1"];

/// Largest number of entries of `noProxy`.
const ENTRIES: usize = 256;

/// The proxy of the agent, as it is written in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProxySettings {
    /// The proxy, as `http://HOST[:PORT]`.
    pub url: String,
    /// Servers that are reached directly: names, domains, addresses and CIDR blocks, or `*` for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_proxy: Vec<String>,
    /// The user name for the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password for the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretText>,
}

/// An invalid field of [`ProxySettings`]. It never repeats a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct RouteError {
    field: &'static str,
    problem: &'static str,
}

/// How servers are reached. The default is directly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    proxy: Option<SourceProxy>,
    direct: Vec<String>,
}

impl Route {
    /// The route that settings describe.
    ///
    /// # Errors
    /// If a field is invalid.
    pub fn of(settings: &ProxySettings) -> Result<Self, RouteError> {
        let wrong = |field, problem| Err(RouteError { field, problem });
        let Some(address) = address(&settings.url) else {
            return wrong(
                "url",
                "must be http://HOST[:PORT]; user and password are in username and password",
            );
        };
        let is_entry = |entry: &String| {
            (1..=253).contains(&entry.len()) && entry.bytes().all(|c| c.is_ascii_graphic() && c != b',')
        };
        if settings.no_proxy.len() > ENTRIES || !settings.no_proxy.iter().all(is_entry) {
            return wrong(
                "noProxy",
                "must be a list of at most 256 names, domains, addresses and CIDR blocks",
            );
        }
        let credentials = match (&settings.username, &settings.password) {
            (None, None) => None,
            (Some(username), Some(password)) => {
                let fits = |text: &str| {
                    (1..=limits::CREDENTIAL_BYTES).contains(&text.len()) && !text.contains(char::is_control)
                };
                if !fits(username) || username.contains(':') {
                    return wrong("username", "must be one line of 1 to 1024 bytes without a colon");
                }
                if !fits(password.expose()) {
                    return wrong("password", "must be one line of 1 to 1024 bytes");
                }
                Some(ProxyCredentials { username: username.clone(), password: password.clone() })
            }
            (Some(_), None) => return wrong("password", "is missing: set it, or remove username"),
            (None, Some(_)) => return wrong("username", "is missing: set it, or remove password"),
        };
        let direct = THIS_MACHINE.map(str::to_owned).into_iter().chain(settings.no_proxy.iter().cloned());
        Ok(Self { proxy: Some(SourceProxy { address, credentials }), direct: direct.collect() })
    }

    /// The proxy for a server; `None` if it is reached directly.
    pub fn to(&self, host: &str, port: u16) -> Option<&SourceProxy> {
        self.proxy.as_ref().filter(|_| !no_proxy::is_listed(&self.direct, host, port))
    }

    /// The variables that make other programs take the same route.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let Some(proxy) = &self.proxy else { return Vec::new() };
        let user = proxy.credentials.as_ref().map(|ProxyCredentials { username, password }| {
            format!("{}:{}@", encoded(username), encoded(password.expose()))
        });
        let url = format!("http://{}{}", user.unwrap_or_default(), proxy.address);
        let direct = self.direct.join(",");
        // curl and Python read the lower case, other programs the upper case.
        vec![
            ("https_proxy", url.clone()),
            ("HTTPS_PROXY", url),
            ("no_proxy", direct.clone()),
            ("NO_PROXY", direct),
        ]
    }
}

fn address(url: &str) -> Option<TcpAddress> {
    let authority = url.strip_prefix("http://")?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    TcpAddress::new(authority).or_else(|_| TcpAddress::new(format!("{authority}:80"))).ok()
}

/// A text as a part of a URL.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let part = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str, no_proxy: &[&str]) -> ProxySettings {
        let no_proxy = no_proxy.iter().map(|entry| (*entry).to_owned()).collect();
        ProxySettings { url: url.to_owned(), no_proxy, ..ProxySettings::default() }
    }

    #[test]
    fn servers_are_reached_through_the_proxy_unless_they_are_listed() {
        let route = Route::of(&settings("http://proxy.example:3128/", &["10.0.0.0/8", ".corp.example"]))
            .expect("a route");
        let through = |host: &str| route.to(host, 6443).map(|proxy| proxy.address.to_string());
        for host in ["plane.example", "192.0.2.7", "corp.example", "fd00::1"] {
            assert_eq!(through(host).as_deref(), Some("proxy.example:3128"), "{host}");
        }
        for host in ["10.20.0.1", "plane.corp.example", "127.0.0.1", "localhost", "::1"] {
            assert_eq!(through(host), None, "{host}");
        }
        assert!(Route::default().to("plane.example", 6443).is_none());
        assert!(Route::default().environment().is_empty());
        let plain = Route::of(&settings("http://proxy.example", &[])).expect("a route");
        assert_eq!(plain.to("a", 1).map(|proxy| proxy.address.port()), Some(80));
    }

    #[test]
    fn other_programs_take_the_same_route() {
        let with_user = ProxySettings {
            username: Some("web".to_owned()),
            password: Some(SecretText::new("p@ss: 7")),
            ..settings("http://[fd00::1]:3128", &["10.0.0.0/8"])
        };
        let environment = Route::of(&with_user).expect("a route").environment();
        let value =
            |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
        assert_eq!(value("https_proxy"), Some("http://web:p%40ss%3A%207@[fd00::1]:3128"));
        assert_eq!(value("NO_PROXY"), Some("localhost,127.0.0.0/8,::1,10.0.0.0/8"));
        assert_eq!((value("HTTPS_PROXY"), value("NO_PROXY")), (value("https_proxy"), value("no_proxy")));
    }

    #[test]
    fn what_is_wrong_is_named_and_no_password_is() {
        let credentials = |username: Option<&str>, password: Option<&str>| ProxySettings {
            username: username.map(str::to_owned),
            password: password.map(SecretText::new),
            ..settings("http://p:1", &[])
        };
        for (settings, field) in [
            (settings("", &[]), "url"),
            (settings("proxy.example:3128", &[]), "url"),
            (settings("https://proxy.example:3128", &[]), "url"),
            (settings("http://me:hunter2@proxy.example:3128", &[]), "url"),
            (settings("http://proxy.example:3128/path", &[]), "url"),
            (settings("http://p:1", &["a,b"]), "noProxy"),
            (settings("http://p:1", &[""]), "noProxy"),
            (credentials(Some("a:b"), Some("hunter2")), "username"),
            (credentials(Some("a"), Some("hunter2\n")), "password"),
            (credentials(Some("a"), None), "password"),
            (credentials(None, Some("hunter2")), "username"),
        ] {
            let error = Route::of(&settings).expect_err(field).to_string();
            assert!(error.starts_with(field) && !error.contains("hunter2"), "{error}");
        }
        assert!(!format!("{:?}", credentials(Some("a"), Some("hunter2"))).contains("hunter2"));
    }
}
