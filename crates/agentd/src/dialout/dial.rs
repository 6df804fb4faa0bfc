//! `capstan-agent dial`: waits for the approval, then watches the registration and executes its instructions, until the
//! registration is deleted.

use capstan_plan::instruction::{HostScript, InstructionAnswer, InstructionJournal, ScriptOutput};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::mailbox::{Outside, Recipient, obey};
use super::places::Places;
use super::registration::{HostKey, Registration};
use super::{execute, register};
use crate::api::{ApiError, Client, follow};
use crate::backoff::Backoff;
use crate::paths::Paths;
use crate::{Failure, files, proxy, say};

/// Waits between two looks for the approval, which nothing announces: a join token cannot watch.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);

/// Runs until the registration is deleted, or it is told to stop.
pub(crate) async fn run(paths: &Paths) -> Result<(), Failure> {
    let mut term = signal(SignalKind::terminate()).map_err(Failure::new)?;
    let mut int = signal(SignalKind::interrupt()).map_err(Failure::new)?;
    let places = Places(paths);
    tokio::select! {
        ended = work(&places) => ended,
        _ = term.recv() => Ok(()),
        _ = int.recv() => Ok(()),
    }
}

async fn work(places: &Places<'_>) -> Result<(), Failure> {
    let missing = || Failure::new("this machine is not registered: run `capstan-agent register`");
    let registration = Registration::read(places)?.ok_or_else(missing)?;
    let mut registration = registration.through(proxy::route(places.0)?);
    let key = HostKey::take(places)?;
    if registration.credential.is_none() && !wait_for_credential(places, &key, &mut registration).await? {
        say!("the registration {} was denied or deleted", registration.name);
        return Ok(());
    }
    say!("registered at {} as {}", registration.server, registration.name);
    serve(places, &key, registration).await
}

/// Waits until there is a credential. Whether there is one: the registration may be denied.
async fn wait_for_credential(
    places: &Places<'_>,
    key: &HostKey,
    registration: &mut Registration,
) -> Result<bool, Failure> {
    let mut backoff = Backoff::new(FIRST, LONGEST);
    let mut said = String::new();
    loop {
        match look(places, key, registration).await {
            Ok(Approval::Given) => return Ok(true),
            Ok(Approval::Denied) => return Ok(false),
            Ok(Approval::Open) => said.clear(),
            Err(error) => {
                let words = error.to_string();
                if said != words {
                    say!("{words}");
                    said = words;
                }
            }
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

enum Approval {
    Given,
    Open,
    Denied,
}

async fn look(
    places: &Places<'_>,
    key: &HostKey,
    registration: &mut Registration,
) -> Result<Approval, Failure> {
    register::create(places, key, registration).await?;
    let path = format!("{}/{}", registration.collection(), registration.name);
    match registration.api()?.get(&path).await {
        Ok(object) => match registration.renewed(key, &object) {
            Some(credential) => {
                registration.take_credential(credential);
                registration.write(places)?;
                Ok(Approval::Given)
            }
            None => Ok(Approval::Open),
        },
        Err(error) if error.is_status(404) => Ok(Approval::Denied),
        Err(error) => Err(Failure::new(error)),
    }
}

/// What was last seen of the registration, and over the how manieth connection.
#[derive(Clone, Debug, Default)]
struct Seen {
    object: Option<Value>,
    is_deleted: bool,
    connection: u64,
}

async fn serve(places: &Places<'_>, key: &HostKey, registration: Registration) -> Result<(), Failure> {
    let client = Client::new(registration.api()?);
    let (collection, name) = (registration.collection(), registration.name.clone());
    let (sender, receiver) = watch::channel(Seen::default());
    let last_message = RefCell::new(String::new());
    let watching = follow(
        &client,
        &collection,
        &name,
        |object| {
            sender.send_modify(|seen| {
                // A deletion is said once, and an object that comes later is another one.
                seen.is_deleted |= object.is_none();
                seen.object = object;
            });
            ControlFlow::Continue(())
        },
        |went| note(went, &last_message, &sender),
    );
    tokio::select! {
        () = watching => Ok(()),
        ended = answer(places, key, registration, &client, receiver) => ended,
    }
}

/// Says what goes wrong, once, and counts connections.
fn note(went: Result<(), &ApiError>, last_message: &RefCell<String>, sender: &watch::Sender<Seen>) {
    let words = went.err().map(ToString::to_string).unwrap_or_default();
    if *last_message.borrow() == words && sender.borrow().connection > 0 {
        return;
    }
    match words.is_empty() {
        // The next object comes over it, and wakes the reader.
        true => {
            _ = sender.send_if_modified(|seen| {
                seen.connection += 1;
                false
            });
        }
        false => say!("{words}"),
    }
    last_message.replace(words);
}

/// Executes the instructions in what is seen, until the registration is deleted.
async fn answer(
    places: &Places<'_>,
    key: &HostKey,
    mut registration: Registration,
    client: &Client,
    mut seen: watch::Receiver<Seen>,
) -> Result<(), Failure> {
    let recipient = Recipient {
        host: registration.host(key),
        private_key: key.private(),
        instruction_key: registration.instruction_key,
    };
    let status = format!("{}/{}/status", registration.collection(), registration.name);
    let mut outside = Real { places, client, registration: registration.name.clone(), status };
    let mut backoff = Backoff::new(Duration::from_secs(1), LONGEST);
    let mut told = 0;
    loop {
        let Seen { object, is_deleted, connection } = seen.borrow_and_update().clone();
        if is_deleted {
            say!(
                "the registration {} was deleted: this machine is no longer in the inventory",
                registration.name
            );
            return Ok(());
        }
        if let Some(object) = object {
            if let Some(credential) = registration.renewed(key, &object) {
                registration.take_credential(credential);
                registration.write(places)?;
                client.become_(registration.api()?);
            }
            let done = async {
                if told != connection {
                    outside.hello().await?;
                }
                obey(&recipient, &object, &mut outside).await
            };
            if let Err(error) = done.await {
                say!("{error}");
                tokio::time::sleep(backoff.next()).await;
                continue;
            }
            told = connection;
            backoff.succeeded();
        }
        if seen.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// This machine and its registration.
struct Real<'r> {
    places: &'r Places<'r>,
    client: &'r Client,
    /// Name of the registration.
    registration: String,
    /// Path of its status.
    status: String,
}

/// The journal on the disk. That of an earlier registration says nothing about this one.
#[derive(Serialize, Deserialize)]
struct JournalFile {
    registration: String,
    instructions: InstructionJournal,
}

impl Real<'_> {
    /// Says that the machine is there.
    async fn hello(&self) -> Result<(), Failure> {
        let hello = json!({"status": {
            "agentVersion": env!("CARGO_PKG_VERSION"),
            "connectedAt": seconds(Timestamp::now()),
        }});
        self.client.api().merge(&self.status, &hello).await.map(|_| ()).map_err(Failure::new)
    }
}

/// The API accepts times without a fraction.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

impl Outside for Real<'_> {
    fn journal(&self) -> Result<InstructionJournal, Failure> {
        let path = self.places.journal();
        let wrong = |what: &str| Failure::new(format!("{}: {what}", path.display()));
        match files::read(&path).map_err(|error| wrong(&error.to_string()))? {
            // What was executed is not known if it is damaged, so nothing is executed.
            Some(bytes) => {
                let file: JournalFile = serde_json::from_slice(&bytes).map_err(|_| wrong("is damaged"))?;
                Ok(if file.registration == self.registration {
                    file.instructions
                } else {
                    Default::default()
                })
            }
            None => Ok(InstructionJournal::default()),
        }
    }

    fn write_journal(&mut self, journal: &InstructionJournal) -> Result<(), Failure> {
        let path = self.places.journal();
        let file = JournalFile { registration: self.registration.clone(), instructions: journal.clone() };
        let text = serde_json::to_vec(&file).map_err(Failure::new)?;
        files::write(&path, &text)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
    }

    async fn run(&mut self, script: &HostScript) -> ScriptOutput {
        // A script may fetch something from the management plane, such as the program of the agent.
        let environment = proxy::route(self.places.0).map(|route| route.environment()).unwrap_or_default();
        execute::run(script, &environment).await
    }

    async fn answer(&mut self, answer: &InstructionAnswer) -> Result<(), Failure> {
        let InstructionAnswer { number, outcome, message, sealed } = answer;
        // Null takes away what an earlier answer had.
        let answer = json!({"number": number, "outcome": outcome, "message": message, "sealed": sealed});
        let patch = json!({"status": {"answer": answer}});
        self.client.api().merge(&self.status, &patch).await.map(|_| ()).map_err(Failure::new)
    }
}
