//! `capstan host token`: makes a join token, and prints the line with which a machine registers itself.

use anyhow::{Context, Result, bail};
use capstan_infrastructure::host_token::{
    Approval, HostToken, INSTRUCTION_KEY, INSTRUCTION_KEY_TYPE, LONGEST_NAME, PRIVATE, SECRET_TYPE,
    secret_name,
};
use capstan_infrastructure::hostregistration::APPROVAL_TIME;
use capstan_pki::pem;
use capstan_plan::host_join::{JoinKey, JoinToken};
use capstan_plan::{Digest, SecretText, SigningKey};
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::{Config, ResourceExt as _};
use serde_json::json;
use std::io::Write as _;
use std::net::IpAddr;

use super::args::TokenArgs;
use crate::client::Place;

pub(super) async fn run(args: &TokenArgs) -> Result<()> {
    if let Some(name) = &args.revoke {
        return revoke(&args.place.connect().await?, name).await;
    }
    let (server, ca) = plane(args, &args.place.plane.config().await?)?;
    let fetch =
        args.agent_url.as_deref().map(|url| Fetch::of(url, args.agent_sha256.as_deref())).transpose()?;
    let place = args.place.connect().await?;
    let token = token(args)?;
    let instruction_key = instruction_key(&place).await?.public();
    let bearer = make(&place, &token).await.with_context(|| {
        format!(
            "the join token {0} is not complete; remove it with `capstan host token --revoke {0}`",
            token.name
        )
    })?;
    let join = JoinToken {
        server,
        ca,
        namespace: place.namespace.clone(),
        name: token.name.clone(),
        key: token.key.clone(),
        bearer,
        instruction_key,
    };
    let join = join.encode();
    let line = line(&join, fetch.as_ref());
    crate::progress::clear();
    let printed = match args.output {
        Some(output) => output.print(&json!({
            "name": token.name, "namespace": place.namespace, "expires": token.expires, "uses": token.uses,
            "token": join.expose(), "command": line,
        }))?,
        None => {
            eprintln!(
                "join token {} for {} machines until {}; anyone who has this line can register a machine:",
                token.name, token.uses, token.expires
            );
            if fetch.is_none() {
                eprintln!("(the machine must have capstan-agent; with --agent-url the line downloads it)");
            }
            format!("{line}\n")
        }
    };
    std::io::stdout().write_all(printed.as_bytes()).map_err(Into::into)
}

/// The join token that the arguments describe.
fn token(args: &TokenArgs) -> Result<HostToken> {
    let name = args.name.clone().unwrap_or_else(|| format!("t-{:08x}", rand::random::<u32>()));
    let expires = Timestamp::now().checked_add(args.expires).context("--expires")?;
    // Seconds are enough for people.
    let expires = Timestamp::from_second(expires.as_second()).unwrap_or(expires);
    let approval = match args.approve.as_slice() {
        [] => Approval::Manual,
        rules => rules.join("\n").parse().context("--approve")?,
    };
    Ok(HostToken {
        name,
        key: JoinKey::new(rand::random()),
        expires,
        uses: args.uses,
        labels: args.label.iter().cloned().collect(),
        failure_domain: args.failure_domain.clone(),
        approval,
    })
}

/// The address and the CA bundle of the plane, as machines use them.
fn plane(args: &TokenArgs, config: &Config) -> Result<(String, String)> {
    let server = match &args.server {
        Some(server) => server.trim_end_matches('/').to_owned(),
        None => {
            let ours = config.cluster_url.to_string();
            if is_loopback(&config.cluster_url) {
                bail!(
                    "machines cannot reach {ours}: pass --server with the address of the management plane for machines"
                );
            }
            ours.trim_end_matches('/').to_owned()
        }
    };
    if !server.starts_with("https://") {
        bail!("--server {server} must begin with https://");
    }
    let ca = match &args.ca_file {
        Some(file) => {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
        }
        None => {
            let certificates = config.root_cert.iter().flatten();
            certificates.map(|der| pem::encode(pem::CERTIFICATE, der)).collect()
        }
    };
    if !ca.contains("-----BEGIN CERTIFICATE-----") {
        bail!("there is no CA certificate of the management plane: pass --ca-file");
    }
    Ok((server, ca))
}

fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || plain.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The key that signs instructions to the machines of the namespace. Made once.
async fn instruction_key(place: &Place) -> Result<SigningKey> {
    let api: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    let doing = || format!("cannot read Secret {}/{INSTRUCTION_KEY}", place.namespace);
    let read = |secret: &Secret| {
        let key = secret.data.as_ref().and_then(|data| data.get(PRIVATE));
        key.and_then(|key| SigningKey::from_pkcs8(&key.0).ok()).with_context(|| {
            format!("Secret {}/{INSTRUCTION_KEY} has no signing key in data.{PRIVATE}", place.namespace)
        })
    };
    if let Some(found) = api.get_opt(INSTRUCTION_KEY).await.with_context(doing)? {
        return read(&found);
    }
    let key = SigningKey::generate()?;
    let secret = Secret {
        metadata: ObjectMeta { name: Some(INSTRUCTION_KEY.to_owned()), ..ObjectMeta::default() },
        type_: Some(INSTRUCTION_KEY_TYPE.to_owned()),
        data: Some([(PRIVATE.to_owned(), ByteString(key.to_pkcs8()?))].into()),
        ..Secret::default()
    };
    match api.create(&PostParams::default(), &secret).await {
        Ok(_) => Ok(key),
        // Another command was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            read(&api.get(INSTRUCTION_KEY).await.with_context(doing)?)
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot make Secret {}/{INSTRUCTION_KEY}", place.namespace))
        }
    }
}

/// Makes the objects of a join token, and requests its bearer token.
async fn make(place: &Place, token: &HostToken) -> Result<SecretText> {
    let (client, namespace) = (&place.client, &place.namespace);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = match secrets.create(&PostParams::default(), &token.secret()).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            bail!("there is a join token {} in namespace {namespace} already", token.name)
        }
        made => made.context("cannot make its Secret")?,
    };
    let rights = token.rights(namespace, &secret);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let create = PostParams::default();
    let account =
        accounts.create(&create, &rights.account).await.context("cannot make its ServiceAccount")?;
    let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
    roles.create(&create, &rights.role).await.context("cannot make its Role")?;
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    bindings.create(&create, &rights.binding).await.context("cannot make its RoleBinding")?;
    // A machine that waits for its approval looks for it with this token.
    let life = token.expires.duration_since(Timestamp::now()) + APPROVAL_TIME;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(Vec::new()),
            expiration_seconds: Some(life.as_secs()),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let made = accounts.create_token_request(&account.name_any(), &create, &request).await;
    let made =
        made.context("cannot get a token of its ServiceAccount")?.status.and_then(|status| status.token);
    made.map(SecretText::new).context("the management plane has given no token")
}

/// Ends a join token. Machines that were approved are not affected; registrations that wait for approval are refused.
async fn revoke(place: &Place, name: &str) -> Result<()> {
    let api: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    let secret = secret_name(name);
    let found = api.get_opt(&secret).await.with_context(|| format!("cannot read Secret {secret}"))?;
    if found.is_none_or(|found| found.type_.as_deref() != Some(SECRET_TYPE)) {
        bail!("there is no join token {name} in namespace {}", place.namespace);
    }
    // Its ServiceAccount and its rights go with it.
    let deleted = api.delete(&secret, &DeleteParams::background()).await;
    deleted.with_context(|| format!("cannot delete Secret {secret}"))?;
    crate::progress::clear();
    writeln!(std::io::stdout(), "join token {name} revoked").map_err(Into::into)
}

/// Where the machine gets the agent, and how it knows that it is the right one.
#[derive(Debug, PartialEq, Eq)]
struct Fetch {
    url: String,
    sha256: Digest,
}

impl Fetch {
    /// A URL of the artifact server of Capstan ends with the digest.
    fn of(url: &str, sha256: Option<&str>) -> Result<Self> {
        if !url.starts_with("https://") || url.contains(['\'', '\\']) || url.chars().any(char::is_whitespace)
        {
            bail!("--agent-url must be an https:// URL");
        }
        let digest = sha256.or_else(|| url.rsplit('/').next()).unwrap_or_default().parse::<Digest>();
        let sha256 = digest.ok().context("pass --agent-sha256 with the SHA-256 digest of the agent")?;
        Ok(Self { url: url.to_owned(), sha256 })
    }
}

/// One line for a POSIX shell. The token goes through a pipe, so it is no argument of a program. The digest decides what is
/// run, so the certificate of the server does not matter.
fn line(token: &SecretText, fetch: Option<&Fetch>) -> String {
    let token = token.expose();
    let root = r#"$(test "$(id -u)" = 0 || echo sudo)"#;
    let Some(Fetch { url, sha256 }) = fetch else {
        return format!("printf %s '{token}' | {root} capstan-agent register");
    };
    format!(
        "(set -e; d=$(mktemp -d); curl -fsSLk -o \"$d/capstan-agent\" '{url}'; \
         echo \"{sha256}  $d/capstan-agent\" | sha256sum -c - >/dev/null; chmod 755 \"$d/capstan-agent\"; \
         printf %s '{token}' | {root} \"$d/capstan-agent\" register; rm -rf \"$d\")"
    )
}

/// Parses the name of a join token: a DNS label that leaves room for what is made of it.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label =
        !text.is_empty() && text.bytes().all(is_good) && !text.starts_with('-') && !text.ends_with('-');
    match is_label && text.len() <= LONGEST_NAME {
        true => Ok(text.to_owned()),
        false => Err(format!("use 1 to {LONGEST_NAME} of a-z, 0-9 and -")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_token_in_no_argument() {
        let token = SecretText::new("capstan-host-1.abc");
        let sha256 = "0".repeat(64);
        let url = format!("https://plane:6444/artifacts/sha256/{sha256}");
        let fetch = Fetch::of(&url, None).unwrap();
        for line in [line(&token, None), line(&token, Some(&fetch))] {
            assert_eq!(line.lines().count(), 1);
            assert!(line.contains("printf %s 'capstan-host-1.abc' | "), "{line}");
            assert!(
                line.contains("capstan-agent register") || line.contains("capstan-agent\" register"),
                "{line}"
            );
        }
        assert!(
            line(&token, Some(&fetch))
                .contains(&format!("echo \"{sha256}  $d/capstan-agent\" | sha256sum -c"))
        );
    }

    #[test]
    fn an_agent_without_a_digest_is_not_downloaded() {
        let digest = "1".repeat(64);
        assert_eq!(Fetch::of("https://x/agent", Some(&digest)).unwrap().sha256.to_string(), digest);
        for (url, sha256) in [
            ("https://x/agent", None),
            ("http://x/agent", Some(digest.as_str())),
            ("https://x/a'b", Some(digest.as_str())),
            ("https://x/agent", Some("abc")),
        ] {
            assert!(Fetch::of(url, sha256).is_err(), "{url}");
        }
    }

    #[test]
    fn an_address_of_this_machine_is_none_for_others() {
        let is_loopback = |url: &str| is_loopback(&url.parse().unwrap());
        assert!(is_loopback("https://127.0.0.1:6443") && is_loopback("https://[::1]:6443"));
        assert!(is_loopback("https://localhost:6443"));
        assert!(!is_loopback("https://10.0.0.1:6443") && !is_loopback("https://plane.example"));
    }

    #[test]
    fn names_are_short_labels() {
        for good in ["a", "edge-1", &"a".repeat(40)] {
            assert!(name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", &"a".repeat(41)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
