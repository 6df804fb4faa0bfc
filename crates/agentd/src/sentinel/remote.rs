//! The plan in a Secret of a management cluster, and the report in the same Secret.
//!
//! The agent needs get, list, watch and update of this one Secret. It writes the whole Secret, and changes only its own
//! keys. After a conflict it reads the Secret again and decides again what to write.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::SystemClock;
use capstan_agent::https::Trust;
use capstan_plan::Digest;
use capstan_sentinel::config::{Access, Pem};
use capstan_sentinel::decide::{Decision, decide};
use capstan_sentinel::output::{self, Periodics};
use capstan_sentinel::plan::Plan;
use capstan_sentinel::probe::Statuses;
use capstan_sentinel::progress::Identity;
use capstan_sentinel::report::{self, Run};
use capstan_sentinel::secret::{Data, keys};
use capstan_sentinel::time;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::sync::watch;

use super::{Connection, Order, Sentinel, until, wrong};
use crate::api::{Api, ApiError, Client, follow};
use crate::backoff::Backoff;
use crate::{Failure, files, say};

/// Number of resource versions that are remembered as seen.
const VERSIONS: usize = 16;

/// What is known of the Secret.
#[derive(Clone)]
enum Seen {
    Unknown,
    Nothing,
    Secret(Box<Value>),
}

pub(super) async fn run(sentinel: &Sentinel, connection: Connection) -> Result<(), Failure> {
    let Connection { info, file } = connection;
    let access = Access::of(&info.kube_config).map_err(|error| wrong(&file, &error))?;
    let client = Client::new(api(sentinel, access).map_err(|error| wrong(&file, &error))?);
    let (namespace, name) = (&info.namespace, &info.secret_name);
    if ["HTTPS_PROXY", "https_proxy"].iter().any(|name| std::env::var_os(name).is_some()) {
        say!("HTTPS_PROXY is not used by the agent itself: name the proxy in proxy of the configuration");
    }
    say!("applying the plan in the Secret {namespace}/{name}");
    let collection = format!("/api/v1/namespaces/{namespace}/secrets");
    let (sender, seen) = watch::channel(Seen::Unknown);
    let on = |object: Option<Value>| {
        sender.send_replace(object.map_or(Seen::Nothing, |object| Seen::Secret(Box::new(object))));
        ControlFlow::Continue(())
    };
    let said = RefCell::new(None);
    let note = |how: Result<(), &ApiError>| {
        let how = how.err().map(ToString::to_string);
        if said.replace(how.clone()) != how {
            say!("{}", how.as_deref().unwrap_or("connected to the management cluster"));
        }
    };
    let mut secret = Secret {
        sentinel,
        client: client.clone(),
        path: format!("{collection}/{name}"),
        current: None,
        versions: VecDeque::new(),
        uid: String::new(),
        is_first: true,
        reported: None,
        refused: None,
        backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(60)),
    };
    tokio::select! {
        () = follow(&client, &collection, name, on, note) => Ok(()),
        ended = secret.work(seen) => ended,
    }
}

fn api(sentinel: &Sentinel, access: Access) -> Result<Api, Failure> {
    let paths = &sentinel.paths;
    let read = |pem: Pem| match pem {
        Pem::Data(data) => Ok(data),
        Pem::File(path) => {
            let path = paths.below(&path);
            let read = files::read(&path).map_err(Failure::new)?;
            read.ok_or_else(|| Failure::new(format!("{} does not exist", path.display())))
        }
    };
    let is_strict =
        std::env::var("CATTLE_AGENT_STRICT_VERIFY").is_ok_and(|text| text.eq_ignore_ascii_case("true"));
    if is_strict && access.ca.is_none() {
        return Err(Failure::new("kubeConfig has no CA, and CATTLE_AGENT_STRICT_VERIFY is true"));
    }
    let ca = access.ca.map(read).transpose()?;
    let identity = match access.identity {
        Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
        None => None,
    };
    let trust = Trust::with(ca.as_deref(), identity).map_err(Failure::new)?;
    let route = access.proxy.unwrap_or_else(|| sentinel.route.clone());
    Ok(Api::new(access.server, trust, route, access.token))
}

/// The Secret, as far as this process knows it.
struct Secret<'a> {
    sentinel: &'a Sentinel,
    client: Client,
    path: String,
    current: Option<Value>,
    versions: VecDeque<String>,
    uid: String,
    /// Whether no plan of this Secret was applied or left alone by this process.
    is_first: bool,
    reported: Option<(Run, Data)>,
    refused: Option<Digest>,
    backoff: Backoff,
}

impl Secret<'_> {
    async fn work(&mut self, mut seen: watch::Receiver<Seen>) -> Result<(), Failure> {
        let mut is_news = true;
        loop {
            // There may be news since the wait, or since the pass began.
            if is_news || seen.has_changed().unwrap_or(false) {
                let newest = seen.borrow_and_update().clone();
                self.take(newest).await;
            }
            let wait = self.pass().await?;
            let sleep = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            is_news = tokio::select! {
                changed = seen.changed() => changed.is_ok(),
                () = sleep => false,
            };
        }
    }

    /// Takes what the watch says. It may be older than the answer to the last write. A resource version that is lower
    /// and was never seen is that of a restored backup, or of an event that comes late: the Secret is read to know.
    async fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Unknown => {}
            Seen::Nothing => self.current = None,
            Seen::Secret(object) => {
                let is_older = self.current.as_ref().is_some_and(|current| {
                    let both = (version(current).parse::<u64>(), version(&object).parse::<u64>());
                    uid(current) == uid(&object) && matches!(both, (Ok(now), Ok(new)) if new < now)
                });
                if !is_older {
                    self.set(*object);
                } else if !self.versions.iter().any(|known| known == version(&object)) {
                    self.read_again().await;
                }
            }
        }
    }

    fn set(&mut self, object: Value) {
        let version = version(&object).to_owned();
        if !self.versions.contains(&version) {
            self.versions.push_back(version);
            if self.versions.len() > VERSIONS {
                self.versions.pop_front();
            }
        }
        self.current = Some(object);
    }

    /// Reads the Secret, for as long as that takes.
    async fn read_again(&mut self) {
        loop {
            match self.client.api().get(&self.path).await {
                Ok(object) => return self.set(object),
                Err(error) if error.is_status(404) => return self.current = None,
                Err(error) => {
                    say!("cannot read the Secret: {error}");
                    tokio::time::sleep(self.backoff.next()).await;
                }
            }
        }
    }

    /// Looks at the Secret once, and does what it asks for. Returns when to look again if nothing changes.
    async fn pass(&mut self) -> Result<Option<Duration>, Failure> {
        self.sentinel.check()?;
        let Some(object) = &self.current else { return Ok(None) };
        if uid(object) != self.uid {
            if !self.uid.is_empty() {
                say!("the Secret was created again");
            }
            self.uid = uid(object).to_owned();
            (self.is_first, self.reported, self.refused) = (true, None, None);
        }
        let data = data(object);
        let (Some(bytes), Some(checksum)) = (data.plan(), data.checksum()) else { return Ok(None) };
        let plan = match Plan::parse(bytes) {
            Ok(plan) => plan,
            Err(error) => {
                if self.refused.replace(checksum) != Some(checksum) {
                    say!("{error}");
                    self.store(|data| Some(report::refused(data, &error.to_string()))).await;
                }
                return Ok(None);
            }
        };
        match decide(&data, &checksum, self.is_first, Timestamp::now()) {
            Decision::Apply { begins: true, .. } if !self.begin(&checksum).await => Ok(Some(Duration::ZERO)),
            Decision::Apply { attempt, .. } => Ok(Some(self.apply(&plan, &data, &checksum, attempt).await)),
            Decision::Rest { until } => Ok(self.rest(&plan, &data, &checksum, until).await),
        }
    }

    /// Writes that the run begins. `false`: it is not asked for any more.
    async fn begin(&mut self, checksum: &Digest) -> bool {
        self.store(|data| report::begin(data, checksum)).await
    }

    async fn apply(&mut self, plan: &Plan, data: &Data, checksum: &Digest, attempt: u64) -> Duration {
        let period = data.probe_period();
        let revision = self.current.as_ref().and_then(|object| report::revision(&self::data(object)));
        let run = Run { checksum: *checksum, revision: revision.clone() };
        let attempt_of_identity = revision.is_none().then_some(attempt);
        let identity = Identity {
            source: self.uid.clone(),
            checksum: *checksum,
            revision,
            attempt: attempt_of_identity,
        };
        let is_failing = data.text(keys::FAILED_CHECKSUM) == checksum.to_string();
        let key = if is_failing { keys::FAILED_OUTPUT } else { keys::APPLIED_OUTPUT };
        let saved = output::unpack(data.bytes(key));
        if time::format(Timestamp::now()) == data.text(keys::LAST_APPLY_TIME) {
            // Reports of runs are told apart by their seconds.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let order =
            Order { identity: &identity, plan, bytes: data.plan().unwrap_or_default(), attempt, saved };
        let known: Periodics = output::unpack(data.bytes(keys::PERIODIC_OUTPUT));
        let (outcome, periodics, _) = match self.sentinel.apply(order, &known).await {
            Ok(applied) => applied,
            Err(error) => {
                say!("{error}");
                return self.backoff.next().max(period);
            }
        };
        if report::is_reported(data, &run, &outcome) {
            // An earlier process has ended before it forgot the run. This one is another run.
            self.sentinel.forget(&identity).await;
            return Duration::ZERO;
        }
        self.is_first = false;
        let statuses = self.sentinel.applier.probe(plan, &statuses(data), true, &SystemClock).await;
        let is_reported = self
            .store(|data| {
                let data = report::end(data, &run, &outcome)?;
                report::observed(&data, checksum, &periodics, &statuses)
            })
            .await;
        match (&self.current, is_reported) {
            (Some(object), true) => self.reported = Some((run, self::data(object))),
            _ => say!(
                "plan {}: the result is not reported, because the Secret has another plan",
                checksum.short()
            ),
        }
        self.sentinel.forget(&identity).await;
        period
    }

    async fn rest(
        &mut self,
        plan: &Plan,
        data: &Data,
        checksum: &Digest,
        decide_again: Option<Timestamp>,
    ) -> Option<Duration> {
        if decide_again.is_none() {
            self.is_first = false;
        }
        let period = data.probe_period();
        let known: Periodics = output::unpack(data.bytes(keys::PERIODIC_OUTPUT));
        let (periodics, next) = match self.sentinel.periodics(plan, checksum, &known).await {
            Ok(done) => done,
            Err(error) => {
                say!("{error}");
                (known, Timestamp::now().checked_add(jiff::SignedDuration::from_secs(5)).ok())
            }
        };
        let statuses = self.sentinel.applier.probe(plan, &statuses(data), false, &SystemClock).await;
        let reported = self.reported.clone();
        let has_nothing = plan.periodic_instructions.is_empty() && plan.probes.is_empty();
        self.store(|data| {
            let data = match &reported {
                Some((run, reported)) => report::restored(data, run, reported),
                None => data.clone(),
            };
            // A plan that this process has not applied, and that has nothing to observe, is left alone.
            if has_nothing { Some(data) } else { report::observed(&data, checksum, &periodics, &statuses) }
        })
        .await;
        let times = [decide_again, next].into_iter().flatten().map(until);
        times.chain((!plan.probes.is_empty()).then_some(period)).min()
    }

    /// Writes a change of the data, computed from the newest data. `false`: the change does not apply to that any more,
    /// or the Secret is gone.
    async fn store(&mut self, change: impl Fn(&Data) -> Option<Data>) -> bool {
        loop {
            let Some(object) = self.current.as_ref().filter(|object| uid(object) == self.uid) else {
                return false;
            };
            let before = data(object);
            let Some(after) = change(&before) else { return false };
            if after == before {
                return true;
            }
            let written = self.client.api().replace(&self.path, &with(object, &after)).await;
            match written {
                Ok(object) => {
                    self.backoff.succeeded();
                    self.set(object);
                    return true;
                }
                Err(error) if error.is_status(409) || error.is_status(404) => {}
                Err(error) => {
                    say!("cannot write the Secret: {error}");
                    tokio::time::sleep(self.backoff.next()).await;
                }
            }
            self.read_again().await;
        }
    }
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

fn statuses(data: &Data) -> Statuses {
    serde_json::from_slice(data.bytes(keys::PROBE_STATUSES)).unwrap_or_default()
}

fn data(object: &Value) -> Data {
    let entries = object["data"].as_object().into_iter().flatten();
    let decode = |value: &Value| BASE64_STANDARD.decode(value.as_str()?).ok();
    Data(entries.filter_map(|(key, value)| Some((key.clone(), decode(value)?))).collect())
}

/// The object with this data, and everything else that it had.
fn with(object: &Value, data: &Data) -> Value {
    let mut object = object.clone();
    let entries = data.0.iter().map(|(key, value)| (key.clone(), json!(BASE64_STANDARD.encode(value))));
    object["data"] = Value::Object(entries.collect());
    // Items of a list do not say what they are.
    (object["apiVersion"], object["kind"]) = (json!("v1"), json!("Secret"));
    object
}
