//! `capstan host add`: adds an existing machine to the inventory as a Host, with its credential in its own Secret.

use anyhow::{Context, Result, bail};
use capstan_api::infrastructure::{Host, HostSpec, SecretReference, SshAccess};
use capstan_api::meta::labels;
use capstan_ssh::access::{Credential, PinnedKeys, keys};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use super::OF_HOST;
use super::args::AddArgs;
use crate::progress;

pub(super) async fn run(args: &AddArgs) -> Result<()> {
    let host_keys: Vec<String> = args.host_key.iter().map(|key| without_name(key).to_owned()).collect();
    // Before anything is written: what cannot be read now would not be read later either.
    PinnedKeys::read(&host_keys, &args.address).context("--host-key")?;
    let data = credential(args)?;

    let place = args.place.connect().await?;
    let (namespace, hosts) = (&place.namespace, place.hosts());
    let exists = hosts
        .get_opt(&args.name)
        .await
        .with_context(|| format!("cannot read Host {namespace}/{}", args.name))?;
    if exists.is_some() {
        bail!(
            "there is a Host {} in namespace {namespace} already: change it with `kubectl edit`, or take it out with `capstan host remove`",
            args.name
        );
    }
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), namespace);
    let secret = match (&args.credentials, data) {
        (None, Some(data)) => {
            let name = format!("{}-ssh", args.name);
            put(&secrets, secret(&name, args, data)).await?;
            name
        }
        (credentials, _) => credentials.clone().unwrap_or_default(),
    };
    let host = hosts
        .create(&PostParams::default(), &host(args, host_keys, &secret))
        .await
        .with_context(|| format!("cannot make Host {namespace}/{}", args.name))?;
    if args.credentials.is_none() {
        // So that it goes with the host.
        let owner = json!({"metadata": {"ownerReferences": [host.owner_ref(&())]}});
        secrets
            .patch(&secret, &PatchParams::default(), &Patch::Merge(owner))
            .await
            .with_context(|| format!("cannot tie Secret {secret} to its Host"))?;
    }
    let printed = match args.output {
        Some(output) => output.print(&host)?,
        None => format!("host/{0} added; see `capstan host check {0} -n {namespace}`\n", host.name_any()),
    };
    progress::clear();
    std::io::stdout().write_all(printed.as_bytes()).map_err(Into::into)
}

/// What ssh-keyscan prints begins with the name of the host.
fn without_name(key: &str) -> &str {
    let key = key.trim();
    let is_sort = |word: &str| ["ssh-", "ecdsa-", "sk-"].iter().any(|prefix| word.starts_with(prefix));
    match key.split_once(' ') {
        Some((first, rest)) if !is_sort(first) && rest.split(' ').next().is_some_and(is_sort) => {
            rest.trim_start()
        }
        _ => key,
    }
}

/// What goes into the Secret, tried before it goes there.
fn credential(args: &AddArgs) -> Result<Option<BTreeMap<String, ByteString>>> {
    let mut data = BTreeMap::new();
    let mut put =
        |key: &str, value: &str| _ = data.insert(key.to_owned(), ByteString(value.as_bytes().to_vec()));
    if let Some(path) = &args.identity_file {
        let key = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let passphrase = args.passphrase_stdin.then(from_stdin).transpose()?;
        Credential::key(&key, passphrase.as_deref())
            .with_context(|| format!("cannot use {} (see --passphrase-stdin)", path.display()))?;
        put(keys::PRIVATE_KEY, &key);
        if let Some(passphrase) = &passphrase {
            put(keys::PASSPHRASE, passphrase);
        }
    } else if args.password_stdin {
        put(keys::PASSWORD, &from_stdin()?);
    } else {
        return Ok(None);
    }
    Ok(Some(data))
}

fn from_stdin() -> Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    let text = text.trim_end_matches(['\r', '\n']).to_owned();
    if text.is_empty() {
        bail!("standard input is empty");
    }
    Ok(text)
}

fn secret(name: &str, args: &AddArgs, data: BTreeMap<String, ByteString>) -> Secret {
    let type_ = if data.contains_key(keys::PRIVATE_KEY) { "kubernetes.io/ssh-auth" } else { "Opaque" };
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            // It moves with its Host, which clusterctl does not know to need it.
            labels: Some(
                [
                    (OF_HOST.to_owned(), args.name.clone()),
                    (labels::CLUSTERCTL_MOVE.to_owned(), String::new()),
                ]
                .into(),
            ),
            ..Default::default()
        },
        type_: Some(type_.to_owned()),
        data: Some(data),
        ..Default::default()
    }
}

/// Makes the Secret, or replaces what an earlier try has left.
async fn put(secrets: &Api<Secret>, secret: Secret) -> Result<()> {
    let name = secret.name_any();
    match secrets.get_opt(&name).await.with_context(|| format!("cannot read Secret {name}"))? {
        Some(found) if found.labels().get(OF_HOST) == secret.labels().get(OF_HOST) => {
            secrets
                .delete(&name, &Default::default())
                .await
                .with_context(|| format!("cannot replace Secret {name}"))?;
        }
        Some(_) => bail!(
            "Secret {name} exists and was not made for this host: use it with --credentials {name}, or delete it"
        ),
        None => {}
    }
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .with_context(|| format!("cannot make Secret {name}"))?;
    Ok(())
}

fn host(args: &AddArgs, host_keys: Vec<String>, secret: &str) -> Host {
    let ssh = SshAccess {
        address: args.address.clone(),
        port: args.port.into(),
        user: args.user.clone(),
        sudo: args.sudo.then_some(true),
        credentials_ref: SecretReference { name: secret.to_owned() },
        host_keys,
        trust_on_first_use: args.trust_on_first_use.then_some(true),
    };
    let spec = HostSpec {
        ssh: Some(ssh),
        simulated: None,
        registration: None,
        failure_domain: args.failure_domain.clone(),
        unschedulable: None,
        claim: None,
        quarantine: None,
        config: None,
        windows: Vec::new(),
    };
    let mut host = Host::new(&args.name, spec);
    if !args.label.is_empty() {
        host.labels_mut().extend(args.label.iter().cloned());
    }
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_as_ssh_keyscan_prints_them() {
        for (line, key) in [
            ("ssh-ed25519 AAAA", "ssh-ed25519 AAAA"),
            ("10.0.0.1 ssh-ed25519 AAAA", "ssh-ed25519 AAAA"),
            ("[10.0.0.1]:2222 ecdsa-sha2-nistp256 AAAA\n", "ecdsa-sha2-nistp256 AAAA"),
            ("ssh-ed25519 AAAA root@rack-1", "ssh-ed25519 AAAA root@rack-1"),
        ] {
            assert_eq!(without_name(line), key);
        }
    }
}
