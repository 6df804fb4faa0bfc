//! `capstan host registrations`, `approve` and `deny`: machines that dial out and wait for a person.

use anyhow::{Context, Result, bail};
use capstan_api::conditions::get;
use capstan_api::infrastructure::{APPROVED, Host, HostRegistration, approved_reasons};
use capstan_api::wait::causes;
use capstan_infrastructure::host::is_reachable;
use capstan_infrastructure::host_token::{HostToken, secret_name};
use capstan_infrastructure::hostregistration::{approves, host};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;
use std::io::Write as _;

use super::args::{ApproveArgs, DenyArgs, RegistrationsArgs};
use super::{read, refuse};
use crate::client::{ASKING, Place};
use crate::describe::age;
use crate::progress::waiting;
use crate::table::table;
use crate::terminal::harmless;

fn registrations(place: &Place) -> Api<HostRegistration> {
    Api::namespaced(place.client.clone(), &place.namespace)
}

pub(super) async fn list(args: &RegistrationsArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let found = waiting(ASKING, async { registrations(&place).list(&ListParams::default()).await }).await;
    let found = found.with_context(|| format!("cannot list HostRegistrations in {}", place.namespace))?.items;
    let text = match args.output {
        Some(output) => output.print(&json!({"apiVersion": "v1", "kind": "List", "items": found}))?,
        None if found.is_empty() => {
            eprintln!("no machine has registered in namespace {}: see `capstan host token`", place.namespace);
            return Ok(());
        }
        None => rows(&found, Timestamp::now()),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

/// What machines report about themselves is made harmless for terminals.
fn rows(registrations: &[HostRegistration], now: Timestamp) -> String {
    let rows: Vec<[String; 7]> = registrations
        .iter()
        .map(|registration| {
            let facts = registration.spec.facts.clone().unwrap_or_default();
            let text =
                |value: Option<String>| harmless(&value.unwrap_or_default()).replace(['\n', '\t'], " ");
            [
                registration.name_any(),
                state(registration).to_owned(),
                registration.spec.host.clone().unwrap_or_default(),
                text(facts.hostname),
                text(facts.os_image),
                registration.spec.token.clone(),
                registration.creation_timestamp().map(|created| age(created.0, now)).unwrap_or_default(),
            ]
        })
        .collect();
    table(&["NAME", "STATE", "HOST", "HOSTNAME", "OS", "TOKEN", "AGE"], &rows)
}

/// The reason of the condition Approved; a registration that no manager has seen has none.
fn state(registration: &HostRegistration) -> &str {
    get(registration, APPROVED).map_or("Unknown", |condition| condition.reason.as_str())
}

fn is_approved(registration: &HostRegistration) -> bool {
    state(registration) == approved_reasons::APPROVED
}

async fn find(place: &Place, name: &str) -> Result<HostRegistration> {
    let namespace = &place.namespace;
    let found = registrations(place).get_opt(name).await;
    found.with_context(|| format!("cannot read HostRegistration {namespace}/{name}"))?.with_context(|| {
        format!("there is no HostRegistration {name} in namespace {namespace} (see `capstan host registrations -n {namespace}`)")
    })
}

pub(super) async fn approve(args: &ApproveArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let registration = find(&place, &args.registration).await?;
    refuse(obstacle(&registration))?;
    if args.host.is_none() {
        refuse(former(&hosts(&place).await?, &registration))?;
    }
    let approved = match &args.host {
        Some(name) => replace(&place, name, &registration).await?,
        None => create(&place, args, &registration).await?,
    };
    let printed = match args.output {
        Some(output) => output.print(&approved)?,
        None => format!("host/{} approved\n", approved.name_any()),
    };
    crate::progress::clear();
    std::io::stdout().write_all(printed.as_bytes()).map_err(Into::into)
}

/// Why the registration must not be approved, and what to do instead.
fn obstacle(registration: &HostRegistration) -> Option<String> {
    let name = registration.name_any();
    if let Some(host) = registration.spec.host.as_ref().filter(|_| is_approved(registration)) {
        return Some(format!("HostRegistration {name} is approved already: Host {host} has the machine"));
    }
    let condition = get(registration, APPROVED);
    let Some(condition) = condition else {
        return Some(format!(
            "HostRegistration {name} was not checked yet: see that a manager runs, and try again"
        ));
    };
    let waits = condition.reason == causes::WAITING_FOR_APPROVAL.reason;
    (!waits).then(|| format!("HostRegistration {name} cannot be approved: {}", harmless(&condition.message)))
}

async fn hosts(place: &Place) -> Result<Vec<Host>> {
    let listed = place.hosts().list(&ListParams::default()).await;
    Ok(listed.with_context(|| format!("cannot list Hosts in {}", place.namespace))?.items)
}

/// Why the machine gets no other Host: it has one. With a second one, two clusters could claim it.
fn former(hosts: &[Host], registration: &HostRegistration) -> Option<String> {
    let has_key = |host: &&Host| {
        let access = host.spec.registration.as_ref();
        access.is_some_and(|access| access.public_key == registration.spec.public_key)
    };
    let (host, name) = (hosts.iter().find(has_key)?.name_any(), registration.name_any());
    Some(format!(
        "Host {host} has the machine of HostRegistration {name} already: give it this registration with `capstan host approve {name} --host {host}`"
    ))
}

/// Makes a Host, with the labels of the join token.
async fn create(place: &Place, args: &ApproveArgs, registration: &HostRegistration) -> Result<Host> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => host_name(registration),
    };
    let token = &registration.spec.token;
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    let secret =
        secrets.get_opt(&secret_name(token)).await.context("cannot read the Secret of the join token")?;
    let token = secret.and_then(|secret| HostToken::read(token, &secret).ok());
    let mut host = host(&name, registration, token.as_ref());
    host.labels_mut().extend(args.label.iter().cloned());
    host.metadata.labels = host.metadata.labels.filter(|labels| !labels.is_empty());
    if args.failure_domain.is_some() {
        host.spec.failure_domain.clone_from(&args.failure_domain);
    }
    match place.hosts().create(&PostParams::default(), &host).await {
        Err(kube::Error::Api(status)) if status.code == 409 => bail!(
            "there is a Host {name} already: choose another name with --name, or give it this machine with --host {name}"
        ),
        made => made.with_context(|| format!("cannot make Host {}/{name}", place.namespace)),
    }
}

/// The name that the machine reports, as far as it can be the name of an object.
fn host_name(registration: &HostRegistration) -> String {
    let reported =
        registration.spec.facts.as_ref().and_then(|facts| facts.hostname.clone()).unwrap_or_default();
    let label = reported.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = !label.is_empty()
        && label.len() <= 63
        && label != "localhost"
        && label.bytes().all(is_good)
        && !label.starts_with('-')
        && !label.ends_with('-');
    if is_label { label } else { registration.name_any() }
}

/// Why the Host keeps its machine: it is another one, and it responds. Without its registration it would stop dialing out, with all
/// that runs on it.
fn displaced(host: &Host, registration: &HostRegistration) -> Option<String> {
    let is_other = host.spec.registration.as_ref()?.public_key != registration.spec.public_key;
    (is_other && is_reachable(host)).then(|| {
        format!(
            "Host {} has another machine, which responds. If the machine of HostRegistration {} takes its place, run \
             `capstan-agent unregister` on that one, and try again when the Host is Unreachable",
            host.name_any(),
            registration.name_any()
        )
    })
}

/// Gives an existing Host the machine: it has registered again, or was installed anew.
async fn replace(place: &Place, name: &str, registration: &HostRegistration) -> Result<Host> {
    let host = read(place, name).await?;
    if host.spec.registration.is_none() {
        bail!("Host {name} does not dial out: it is reached in another way");
    }
    refuse(displaced(&host, registration))?;
    let patch = json!({
        "metadata": {"resourceVersion": host.resource_version()},
        "spec": {"registration": {
            "name": registration.name_any(), "publicKey": registration.spec.public_key,
        }},
    });
    match place.hosts().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            bail!("Host {name} has changed meanwhile; try again")
        }
        done => done.with_context(|| format!("cannot change Host {}/{name}", place.namespace)),
    }
}

/// Why the registration cannot be denied: a Host approves it. The manager may not have recorded that Host yet.
fn approval(hosts: &[Host], registration: &HostRegistration) -> Option<String> {
    let name = registration.name_any();
    let recorded = registration.spec.host.clone().filter(|_| is_approved(registration));
    let host =
        recorded.or_else(|| Some(hosts.iter().find(|host| approves(host, registration))?.name_any()))?;
    Some(format!("HostRegistration {name} is approved: remove the machine with `capstan host remove {host}`"))
}

pub(super) async fn deny(args: &DenyArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let registration = find(&place, &args.registration).await?;
    let name = registration.name_any();
    refuse(approval(&hosts(&place).await?, &registration))?;
    // Only what was seen: one that was approved since is another version.
    let only = Preconditions { resource_version: registration.resource_version(), uid: registration.uid() };
    match registrations(&place).delete(&name, &DeleteParams::background().preconditions(only)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            bail!("HostRegistration {name} has changed since it was read; try again")
        }
        deleted => _ = deleted.with_context(|| format!("cannot delete HostRegistration {name}"))?,
    }
    crate::progress::clear();
    writeln!(std::io::stdout(), "hostregistration/{name} denied").map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn registration(hostname: &str, host: &Value, reason: Option<&str>) -> HostRegistration {
        let condition = reason.map(|reason| {
            json!({"type": "Approved", "status": "False", "reason": reason, "message": "the\u{1b}[2J reason",
                "lastTransitionTime": "1970-01-01T00:00:00Z"})
        });
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostRegistration",
            "metadata": {"name": "host-1", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"publicKey": "AAAA", "nonce": "n", "token": "edge", "proof": "0", "host": host,
                "facts": {"hostname": hostname}},
            "status": {"conditions": condition.into_iter().collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    #[test]
    fn only_what_was_accepted_and_waits_can_be_approved() {
        for (host, reason, says) in [
            (json!(null), Some("WaitingForApproval"), None),
            (json!("web-0"), Some("WaitingForApproval"), None),
            (json!("web-0"), Some("Approved"), Some("is approved already: Host web-0")),
            (json!(null), Some("RegistrationRefused"), Some("cannot be approved: the")),
            (json!(null), None, Some("was not checked yet")),
        ] {
            let obstacle = obstacle(&registration("a", &host, reason));
            match says {
                None => assert_eq!(obstacle, None),
                Some(says) => {
                    let obstacle = obstacle.unwrap();
                    assert!(obstacle.contains(says) && !obstacle.contains('\u{1b}'), "{obstacle}");
                }
            }
        }
    }

    #[test]
    fn a_machine_that_has_a_host_is_neither_denied_nor_given_another() {
        let waits = registration("a", &json!(null), Some("WaitingForApproval"));
        let recorded = registration("a", &json!("web-0"), Some("Approved"));
        let own = host("rack-1", &waits, None);
        let mut again = own.clone();
        again.spec.registration.as_mut().unwrap().name = "host-0".to_owned();
        let mut other = own.clone();
        other.spec.registration.as_mut().unwrap().public_key = "BBBB".to_owned();
        for (case, registration, hosts, denied, second) in [
            ("it waits", &waits, vec![], None, None),
            ("another machine", &waits, vec![other], None, None),
            ("a Host was made for it just now", &waits, vec![own.clone()], Some("rack-1"), Some("rack-1")),
            ("it has registered again", &waits, vec![again], None, Some("--host rack-1")),
            ("it is recorded", &recorded, vec![own], Some("web-0"), Some("rack-1")),
        ] {
            for (found, expected) in
                [(approval(&hosts, registration), denied), (former(&hosts, registration), second)]
            {
                assert_eq!(found.is_some(), expected.is_some(), "{case}: {found:?}");
                let says = |text: String| expected.is_some_and(|word| text.contains(word));
                assert!(found.is_none_or(says), "{case}");
            }
        }
    }

    #[test]
    fn a_machine_that_responds_is_not_displaced_by_another() {
        let own = registration("a", &json!(null), Some("WaitingForApproval"));
        let mut other = own.clone();
        other.spec.public_key = "BBBB".to_owned();
        for (case, registration, status, displaces) in [
            ("another machine", &other, "True", true),
            ("the machine was installed again", &other, "False", false),
            ("it has registered again", &own, "True", false),
        ] {
            let mut host = host("rack-1", &own, None);
            let condition = json!({"type": "Reachable", "status": status, "reason": "a", "message": "",
                "lastTransitionTime": "1970-01-01T00:00:00Z"});
            host.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
            assert_eq!(displaced(&host, registration).is_some(), displaces, "{case}");
        }
    }

    #[test]
    fn a_host_is_named_as_its_machine_if_that_is_a_name() {
        for (hostname, expected) in [
            ("edge-7", "edge-7"),
            ("Edge-7.example.com", "edge-7"),
            ("localhost", "host-1"),
            ("", "host-1"),
            ("-x", "host-1"),
            ("ü", "host-1"),
        ] {
            assert_eq!(host_name(&registration(hostname, &json!(null), None)), expected, "{hostname}");
        }
    }

    #[test]
    fn a_registration_is_one_line_without_control_characters() {
        let text = rows(
            &[registration("edge-7\u{1b}[2J", &json!(null), Some("WaitingForApproval"))],
            Timestamp::from_second(60).unwrap(),
        );
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.contains("WaitingForApproval") && text.contains("60s") && !text.contains('\u{1b}'),
            "{text}"
        );
    }
}
