//! Exchanges the enrolment token for the machine's own credential.
//!
//! Everything that is needed after a crash is on the disk before it is used: the key before the request, the credential
//! before the token is removed. So enrolment can be interrupted at any point and repeated.

use capstan_agent::Machine as _;
use capstan_agent::https::Trust;
use capstan_agent::real::Linux;
use capstan_plan::{Facts, ReportedCapabilities};
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use crate::api::{Api, ApiError, Client, follow};
use crate::config::Config;
use crate::credential::{Acceptance, Credential, Key, Request};
use crate::paths::Paths;
use crate::{Failure, say, service};

/// How long to wait before a request that could not be written is written again. Whoever refused it will not change its
/// mind at once, and whoever was away tells nobody that it is back; a machine that enrols should not wait long for that.
const BETWEEN_REQUESTS: Duration = Duration::from_secs(2);

/// Why a credential is asked for.
pub(crate) enum Asking {
    /// We have none, and the token to ask with. The manager takes the token away when we show that we have got our
    /// credential, by our version in the report: what stands there from before would say so too early. With the facts of the
    /// machine and what this agent understands, its plan can be made as soon as it has enrolled.
    ToGetIn {
        /// Facts of the machine.
        facts: Box<Facts>,
        /// What this agent understands.
        capabilities: ReportedCapabilities,
    },
    /// Ours will expire.
    ToStay,
}

/// The MachineReports of a namespace.
pub(crate) fn reports(config: &Config) -> String {
    format!("/apis/agent.capstan.dev/v1alpha1/namespaces/{}/machinereports", config.namespace())
}

/// `capstan-agent enroll`.
pub(crate) async fn run(paths: &Paths, patience: Duration, with_service: bool) -> Result<(), Failure> {
    let config = Config::read(paths)?;
    if with_service {
        // Before the token is traded: if the machine is switched off meanwhile, the service goes on where we were.
        service::install(paths).await?;
    }
    let enrolled = tokio::time::timeout(patience, enrol(paths, &config)).await;
    enrolled.unwrap_or_else(|_| {
        Err(Failure::new(format!("there was no credential within {} seconds", patience.as_secs())))
    })?;
    if with_service {
        service::restart().await?;
    }
    forget_token(paths).await?;
    say!("this machine is enrolled as {} at {}", config.machine(), config.address());
    Ok(())
}

/// Makes sure that the machine has a credential that can be used. Tries until it has.
pub(crate) async fn enrol(paths: &Paths, config: &Config) -> Result<(), Failure> {
    // One at a time: two would ask with different requests, and each wait for the other's answer.
    let _lock = lock(paths).await?;
    let key = Key::take(paths)?;
    let credential = Credential::read(paths, config)?;
    let credential = credential.filter(|credential| !credential.is_over(Timestamp::now()));
    let token = match (credential, config.token()) {
        (Some(_), None) => return Ok(()),
        (Some(credential), Some(token)) => {
            if is_accepted(&credential, config).await? {
                return Ok(());
            }
            token
        }
        (None, Some(token)) => token,
        (None, None) => {
            return Err(Failure::new(
                "this machine has neither a valid credential nor a token to get one with; bootstrap it again",
            ));
        }
    };
    let request = match Request::read(paths, &key)? {
        Some(request) => request,
        None => {
            let request = key.request();
            request.write(paths)?;
            request
        }
    };
    let trust = Trust::pinned(&config.ca).map_err(|error| Failure::new(format!("caData: {error}")))?;
    let client = Client::new(Api::new(config.server.clone(), trust, config.route()?, Some(token.clone())));
    // Without them the machine enrols all the same, and its first report has them.
    let facts = match Linux::rooted(paths.root()) {
        Ok(machine) => machine.facts().await,
        Err(_) => Facts::default(),
    };
    let capabilities = capstan_agent::report::capabilities(paths.is_machine());
    let why = Asking::ToGetIn { facts: Box::new(facts), capabilities };
    ask(&client, config, &key, &request, why).await.write(paths)
}

/// Whether the plane accepts the credential that we have beside a token. Either may be of no use: the credential if our account
/// was deleted, the token if it did its work before we could forget it. Asks until there is an answer.
async fn is_accepted(credential: &Credential, config: &Config) -> Result<bool, Failure> {
    let mut is_told = false;
    loop {
        match credential.acceptance(config).await? {
            Acceptance::Accepted => return Ok(true),
            Acceptance::Refused => return Ok(false),
            Acceptance::Unknown if !is_told => {
                say!(
                    "{} does not answer whether it accepts the credential of this machine; asking again",
                    config.address()
                );
                is_told = true;
            }
            Acceptance::Unknown => tokio::time::sleep(BETWEEN_REQUESTS).await,
        }
    }
}

/// Takes the token out of the configuration: it has done its work. `enroll` and the service it starts both see to it.
pub(crate) async fn forget_token(paths: &Paths) -> Result<(), Failure> {
    let _lock = lock(paths).await?;
    Config::read(paths)?.forget_token(&paths.config())
}

/// Keeps everybody else from changing who we are and whom we obey.
pub(crate) async fn lock(paths: &Paths) -> Result<File, Failure> {
    let folder = paths.etc();
    let wrong = |error: std::io::Error| Failure::new(format!("cannot lock {}: {error}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(wrong)?;
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join("lock"))
        .map_err(wrong)?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(error) => return Err(wrong(error.into())),
        }
    }
}

/// Writes a request into the report of this machine, and waits for the credential that answers it.
pub(crate) async fn ask(
    client: &Client,
    config: &Config,
    key: &Key,
    request: &Request,
    why: Asking,
) -> Credential {
    let collection = reports(config);
    let status = format!("{collection}/{}/status", config.machine());
    let mut patch = json!({"status": {"credentialRequest": request}});
    if let Asking::ToGetIn { facts, capabilities } = &why {
        patch["status"]["agentVersion"] = Value::Null;
        patch["status"]["capabilities"] = json!(capabilities);
        patch["status"]["facts"] = json!(facts);
    }
    let asked = json!(request);
    let last_message = RefCell::new(String::new());
    loop {
        let mut answer = None;
        let mut is_asked = true;
        follow(
            client,
            &collection,
            config.machine(),
            |report| {
                let Some(report) = report.filter(|report| is_ours(report, config)) else {
                    return ControlFlow::Continue(());
                };
                answer = key.open(request, config, &report);
                is_asked = report["status"]["credentialRequest"] == asked;
                if answer.is_some() || !is_asked { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
            |went| print_once(went, &last_message),
        )
        .await;
        if let Some(credential) = answer {
            return credential;
        }
        if !is_asked && let Err(error) = client.api().merge(&status, &patch).await {
            print_once(Err(&error), &last_message);
            tokio::time::sleep(BETWEEN_REQUESTS).await;
        }
    }
}

/// Whether a report is of this life of this machine.
pub(crate) fn is_ours(report: &Value, config: &Config) -> bool {
    report["spec"]["machineID"].as_str() == Some(config.machine_id())
}

/// Says what goes wrong, once.
fn print_once(went: Result<(), &ApiError>, last_message: &RefCell<String>) {
    if let Err(error) = went {
        let words = error.to_string();
        if *last_message.borrow() != words {
            say!("{words}");
            last_message.replace(words);
        }
    }
}
