//! Configuration, connection information and kubeconfig, as upstream has them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::route::{ProxySettings, Route};
use capstan_plan::{HttpsUrl, SecretText, SourceUrl};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A file that cannot be used. It names the field, and no content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

pub(crate) fn wrong<T>(text: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(text.into()))
}

/// Folders of the machine. A folder that contains one of them is not one for execution folders, which are removed.
const OF_MACHINE: [&str; 19] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc/systemd",
    "/home",
    "/lib",
    "/opt",
    "/proc",
    "/root",
    "/run/systemd",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr/bin",
    "/usr/lib",
    "/var/lib/rancher",
    "/var/lib/systemd",
    "/var/log",
];

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// Folder for execution folders.
    pub work_directory: String,
    /// Whether plans in a folder are applied.
    pub local_enabled: bool,
    /// That folder.
    pub local_plan_directory: String,
    /// Folder for the history of applied plans; empty for none.
    pub applied_plan_directory: String,
    /// Whether the plan in a Secret is applied.
    pub remote_enabled: bool,
    /// File that says where the Secret is.
    pub connection_info_file: String,
    /// Whether execution folders are kept.
    pub preserve_work_directory: bool,
    /// Folder with archives of images.
    pub images_directory: String,
    /// Folder with files that keep an installer and a running plan apart; empty for none.
    pub interlock_directory: String,
    /// File that says how registries of images are asked.
    pub agent_registries_file: String,
    /// Proxy for the management cluster and registries. Upstream takes it from the environment.
    pub proxy: Option<ProxySettings>,
    /// For plugins that give credentials for registries, which are not supported.
    pub image_credential_provider_config: String,
    /// The same.
    pub image_credential_provider_bin_directory: String,
}

/// Where the Secret is.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionInfo {
    /// A kubeconfig as text.
    pub kube_config: String,
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret_name: String,
}

/// Reads a file as JSON or YAML, by its name.
///
/// # Errors
/// If its name or its content is that of another kind of file.
pub fn parse<T: DeserializeOwned + Default>(name: &str, bytes: &[u8]) -> Result<T, ConfigError> {
    let read: Result<Option<T>, ()> = if name.contains(".json") {
        serde_json::from_slice(bytes).map_err(drop)
    } else if name.contains(".yaml") {
        std::str::from_utf8(bytes).map_err(drop).and_then(|text| serde_saphyr::from_str(text).map_err(drop))
    } else {
        return wrong(format!("{name}: the name must contain .json or .yaml"));
    };
    match read {
        Ok(read) => Ok(read.unwrap_or_default()),
        Err(()) => wrong(format!("{name}: the content is not what its name says")),
    }
}

impl Config {
    /// Checks what belongs together.
    ///
    /// # Errors
    /// If a field is missing.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !self.local_enabled && !self.remote_enabled {
            return wrong("neither localEnabled nor remoteEnabled is true");
        }
        if self.remote_enabled && self.connection_info_file.is_empty() {
            return wrong("connectionInfoFile is missing, and remoteEnabled is true");
        }
        if self.local_enabled && self.local_plan_directory.is_empty() {
            return wrong("localPlanDirectory is missing, and localEnabled is true");
        }
        for (field, path) in [
            ("workDirectory", &self.work_directory),
            ("localPlanDirectory", &self.local_plan_directory),
            ("appliedPlanDirectory", &self.applied_plan_directory),
            ("interlockDirectory", &self.interlock_directory),
            ("imagesDirectory", &self.images_directory),
            ("agentRegistriesFile", &self.agent_registries_file),
        ] {
            if !path.is_empty() && crate::work::path(path).is_none() {
                return wrong(format!("{field} must be an absolute path, and not /"));
            }
        }
        self.route()?;
        match self.in_work_directory() {
            Some(what) => wrong(format!(
                "workDirectory is removed before each plan, and {what} is in it; name a folder that contains nothing else"
            )),
            None => Ok(()),
        }
    }

    /// How servers are reached.
    ///
    /// # Errors
    /// If `proxy` is invalid.
    pub fn route(&self) -> Result<Route, ConfigError> {
        let route = self.proxy.as_ref().map(Route::of).transpose();
        route.map(Option::unwrap_or_default).or_else(|error| wrong(format!("proxy.{error}")))
    }

    /// What would be lost with the execution folders.
    fn in_work_directory(&self) -> Option<String> {
        let work = crate::work::path(&self.work_directory).filter(|_| !self.preserve_work_directory)?;
        let is_in =
            |path: &str| crate::work::path(path).is_some_and(|path| path == work || path.is_within(&work));
        let configured = [
            ("localPlanDirectory", &self.local_plan_directory),
            ("appliedPlanDirectory", &self.applied_plan_directory),
            ("connectionInfoFile", &self.connection_info_file),
            ("interlockDirectory", &self.interlock_directory),
            ("imagesDirectory", &self.images_directory),
            ("agentRegistriesFile", &self.agent_registries_file),
        ];
        let configured = configured.into_iter().find(|(_, path)| is_in(path)).map(|(field, _)| field);
        configured.or_else(|| OF_MACHINE.into_iter().find(|path| is_in(path))).map(str::to_owned)
    }
}

impl ConnectionInfo {
    /// Checks that nothing is missing.
    ///
    /// # Errors
    /// If a field is missing.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (field, value) in [
            ("kubeConfig", &self.kube_config),
            ("namespace", &self.namespace),
            ("secretName", &self.secret_name),
        ] {
            if value.is_empty() {
                return wrong(format!("{field} is missing"));
            }
        }
        let is_name = |text: &str| {
            text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.'))
        };
        for (field, value) in [("namespace", &self.namespace), ("secretName", &self.secret_name)] {
            if !is_name(value) {
                return wrong(format!("{field} is not the name of an object"));
            }
        }
        Ok(())
    }
}

/// An API server, and the credential for it.
#[derive(Clone, Debug)]
pub struct Access {
    /// Its address.
    pub server: HttpsUrl,
    /// The proxy for it in the kubeconfig, which counts for this server in any case.
    pub proxy: Option<Route>,
    /// CAs, in PEM; those of the operating system if there are none.
    pub ca: Option<Pem>,
    /// Bearer token.
    pub token: Option<SecretText>,
    /// Client certificate and key, in PEM.
    pub identity: Option<(Pem, Pem)>,
}

/// PEM, in the kubeconfig or in a file that it names.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// In the kubeconfig.
    Data(Vec<u8>),
    /// In this file.
    File(String),
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem")
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct KubeConfig {
    current_context: String,
    clusters: Vec<Named>,
    users: Vec<Named>,
    contexts: Vec<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    cluster: Option<Cluster>,
    user: Option<User>,
    context: Option<Context>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority: String,
    certificate_authority_data: String,
    insecure_skip_tls_verify: bool,
    tls_server_name: String,
    proxy_url: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    token: String,
    #[serde(rename = "tokenFile")]
    token_file: String,
    client_certificate: String,
    client_certificate_data: String,
    client_key: String,
    client_key_data: String,
    username: String,
    exec: Option<serde_json::Value>,
    auth_provider: Option<serde_json::Value>,
    #[serde(rename = "as")]
    impersonated: String,
}

impl Access {
    /// Reads a kubeconfig: the cluster and the user of its current context.
    ///
    /// # Errors
    /// If something is missing, or not supported. Everything that would weaken TLS is not supported.
    pub fn of(kubeconfig: &str) -> Result<Self, ConfigError> {
        let Ok(config) = serde_saphyr::from_str::<KubeConfig>(kubeconfig) else {
            return wrong("kubeConfig is not a kubeconfig");
        };
        let find = |list: &[Named], name: &str| list.iter().position(|entry| entry.name == name);
        let context = find(&config.contexts, &config.current_context)
            .and_then(|at| config.contexts[at].context.as_ref());
        let Some(context) = context else { return wrong("kubeConfig: the current context does not exist") };
        let cluster =
            find(&config.clusters, &context.cluster).and_then(|at| config.clusters[at].cluster.clone());
        let Some(cluster) = cluster else {
            return wrong("kubeConfig: the cluster of the context does not exist");
        };
        let user = find(&config.users, &context.user)
            .and_then(|at| config.users[at].user.clone())
            .unwrap_or_default();
        let refused = [
            ("cluster.insecure-skip-tls-verify", cluster.insecure_skip_tls_verify),
            ("cluster.tls-server-name", !cluster.tls_server_name.is_empty()),
            ("user.tokenFile", !user.token_file.is_empty()),
            ("user.username", !user.username.is_empty()),
            ("user.exec", user.exec.is_some()),
            ("user.auth-provider", user.auth_provider.is_some()),
            ("user.as", !user.impersonated.is_empty()),
        ];
        if let Some((field, _)) = refused.iter().find(|(_, is_set)| *is_set) {
            return wrong(format!("kubeConfig: {field} is not supported"));
        }
        let server = format!("{}/", cluster.server.trim_end_matches('/'));
        let Ok(SourceUrl::Https(server)) = SourceUrl::new(server) else {
            return wrong("kubeConfig: cluster.server must be https://host[:port]");
        };
        let settings = ProxySettings { url: cluster.proxy_url.clone(), ..ProxySettings::default() };
        let proxy = match cluster.proxy_url.is_empty() {
            true => None,
            false => Some(Route::of(&settings).or_else(|_| {
                wrong(
                    "kubeConfig: cluster.proxy-url must be http://HOST[:PORT]; a proxy with user and password is named in proxy of \
                     the configuration",
                )
            })?),
        };
        let ca = pem(
            "cluster.certificate-authority",
            &cluster.certificate_authority_data,
            cluster.certificate_authority,
        )?;
        let certificate =
            pem("user.client-certificate", &user.client_certificate_data, user.client_certificate)?;
        let key = pem("user.client-key", &user.client_key_data, user.client_key)?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return wrong("kubeConfig: user.client-certificate and user.client-key belong together"),
        };
        let token = Some(user.token).filter(|token| !token.is_empty()).map(SecretText::new);
        Ok(Self { server, proxy, ca, token, identity })
    }
}

fn pem(field: &str, data: &str, file: String) -> Result<Option<Pem>, ConfigError> {
    if !data.is_empty() {
        let Ok(data) = BASE64_STANDARD.decode(data) else {
            return wrong(format!("kubeConfig: {field}-data is not base64"));
        };
        return Ok(Some(Pem::Data(data)));
    }
    Ok(Some(file).filter(|file| !file.is_empty()).map(Pem::File))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: a
  cluster: {server: 'https://10.0.0.1:6443/k8s/clusters/local', certificate-authority-data: UEVN}
users:
- name: b
  user:
    token: hunter2
contexts:
- name: here
  context: {cluster: a, user: b}
";

    #[test]
    fn configuration_is_yaml_or_json_by_its_name() {
        let yaml = "workDirectory: /w\nremoteEnabled: true\nconnectionInfoFile: /c.json\nsurprise: 1\n";
        let config: Config = parse("config.yaml", yaml.as_bytes()).expect("YAML");
        let json = r#"{"workDirectory":"/w","remoteEnabled":true,"connectionInfoFile":"/c.json"}"#;
        assert_eq!(parse::<Config>("config.json", json.as_bytes()), Ok(config.clone()));
        assert_eq!(config.check(), Ok(()));
        assert!(parse::<Config>("config", json.as_bytes()).is_err());
        assert!(parse::<Config>("config.json", yaml.as_bytes()).is_err());
        assert!(parse::<Config>("config.yaml", b"- a\n").is_err());
        assert_eq!(parse::<Config>("config.yaml", b""), Ok(Config::default()));
    }

    #[test]
    fn what_is_missing_is_named() {
        let config = |text: &str| parse::<Config>("c.yaml", text.as_bytes()).expect("YAML").check();
        for (text, field) in [
            ("localEnabled: false", "localEnabled"),
            ("remoteEnabled: true", "connectionInfoFile"),
            ("localEnabled: true", "localPlanDirectory"),
            ("localEnabled: true\nlocalPlanDirectory: /p\nworkDirectory: work", "workDirectory"),
        ] {
            assert!(config(text).expect_err(text).to_string().contains(field), "{text}");
        }
        let info =
            |text: &str| parse::<ConnectionInfo>("c.json", text.as_bytes()).and_then(|info| info.check());
        for (text, field) in [
            ("Internal error occurred", "content"),
            (r#"{"namespace":"n","secretName":"s"}"#, "kubeConfig"),
            (r#"{"kubeConfig":"k","secretName":"s"}"#, "namespace"),
            (r#"{"kubeConfig":"k","namespace":"n"}"#, "secretName"),
            (r#"{"kubeConfig":"k","namespace":"n/../x","secretName":"s"}"#, "namespace"),
            (r#"{"kubeConfig":"k","namespace":"n","secretName":"s?x=y"}"#, "secretName"),
        ] {
            assert!(info(text).expect_err(text).to_string().contains(field), "{text}");
        }
        assert_eq!(info(r#"{"kubeConfig":"k","namespace":"n","secretName":"s"}"#), Ok(()));
    }

    /// The folder is removed before each plan: a wrong one would be the end of the machine.
    #[test]
    fn a_work_directory_that_contains_something_else_is_refused() {
        let check = |work: &str, more: &str| {
            let text =
                format!("localEnabled: true\nlocalPlanDirectory: /a/plans\nworkDirectory: {work}\n{more}");
            parse::<Config>("c.yaml", text.as_bytes())
                .expect("YAML")
                .check()
                .map_err(|error| error.to_string())
        };
        for (work, named) in [
            ("/a", "localPlanDirectory"),
            ("/a/plans", "localPlanDirectory"),
            ("/a/b/..//plans/", "localPlanDirectory"),
            ("/etc", "/etc/systemd"),
            ("/usr", "/usr/bin"),
            ("/var", "/var/lib/rancher"),
            ("/var/lib", "/var/lib/rancher"),
            ("/home", "/home"),
        ] {
            let error = check(work, "").expect_err(work);
            assert!(error.contains("workDirectory") && error.contains(named), "{work}: {error}");
        }
        let error = check("/b", "appliedPlanDirectory: /b/applied").expect_err("a folder in it");
        assert!(error.contains("appliedPlanDirectory"), "{error}");
        for work in ["/b", "/a/work", "/a/plans2", "/var/lib/rancher/agent/work", "/opt/work", "/tmp/work"] {
            assert_eq!(check(work, ""), Ok(()), "{work}");
        }
        assert_eq!(check("/a", "preserveWorkDirectory: true"), Ok(()), "nothing is removed");
    }

    #[test]
    fn a_kubeconfig_is_read() {
        let access = Access::of(KUBECONFIG).expect("a kubeconfig");
        assert_eq!((access.server.host(), access.server.port()), ("10.0.0.1", 6443));
        assert_eq!(access.server.path(), "/k8s/clusters/local/");
        assert_eq!(access.ca, Some(Pem::Data(b"PEM".to_vec())));
        assert_eq!(access.token.as_ref().map(SecretText::expose), Some("hunter2"));
        assert!(access.identity.is_none() && !format!("{access:?}").contains("hunter2"));
        let certificate =
            KUBECONFIG.replace("token: hunter2", "client-certificate-data: QQ==\n    client-key: /k");
        let access = Access::of(&certificate).expect("a kubeconfig");
        assert_eq!(access.identity, Some((Pem::Data(b"A".to_vec()), Pem::File("/k".to_owned()))));
    }

    #[test]
    fn a_proxy_comes_from_the_configuration_or_the_kubeconfig() {
        let config = |text: &str| {
            let text = format!("localEnabled: true\nlocalPlanDirectory: /p\n{text}");
            parse::<Config>("c.yaml", text.as_bytes()).expect("YAML")
        };
        let with =
            config("proxy: {url: 'http://p:3128', noProxy: [10.0.0.0/8], username: u, password: hunter2}");
        let route = with.route().expect("a route");
        assert!(route.to("rancher.example", 443).is_some() && route.to("10.0.0.1", 443).is_none());
        assert!(!format!("{with:?}").contains("hunter2"));
        assert_eq!(config("").route(), Ok(Route::default()));
        let error =
            config("proxy: {url: 'p:3128', password: hunter2}").check().expect_err("no URL").to_string();
        assert!(error.starts_with("proxy.url") && !error.contains("hunter2"), "{error}");
        assert!(Access::of(KUBECONFIG).expect("a kubeconfig").proxy.is_none());
        let proxied = KUBECONFIG.replace("certificate-authority-data: UEVN", "proxy-url: 'http://p:3128'");
        let proxy = Access::of(&proxied).expect("a kubeconfig").proxy.expect("a proxy");
        assert!(proxy.to("10.0.0.1", 6443).is_some());
    }

    #[test]
    fn what_is_not_supported_is_refused_by_its_name() {
        let user = |text: &str| KUBECONFIG.replace("token: hunter2", text);
        let cluster = |text: &str| KUBECONFIG.replace("certificate-authority-data: UEVN", text);
        for (kubeconfig, named) in [
            (cluster("insecure-skip-tls-verify: true"), "insecure-skip-tls-verify"),
            (cluster("tls-server-name: x"), "tls-server-name"),
            (cluster("proxy-url: 'https://p'"), "proxy-url"),
            (cluster("proxy-url: 'http://u:hunter2@p'"), "proxy-url"),
            (cluster("certificate-authority-data: '?'"), "certificate-authority-data"),
            (user("tokenFile: /t"), "tokenFile"),
            (user("exec: {command: x}"), "exec"),
            (user("username: x"), "username"),
            (user("client-key: /k"), "belong together"),
            (KUBECONFIG.replace("https://", "http://"), "server"),
            (KUBECONFIG.replace("current-context: here", "current-context: there"), "context"),
            (KUBECONFIG.replace("cluster: a,", "cluster: z,"), "cluster"),
            ("]".to_owned(), "kubeconfig"),
        ] {
            let error = Access::of(&kubeconfig).expect_err(named).to_string();
            assert!(error.contains(named) && !error.contains("hunter2"), "{error}");
        }
    }
}
