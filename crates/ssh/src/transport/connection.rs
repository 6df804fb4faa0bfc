//! One connection: handshake, host key, login, and scripts over it.

use futures::future::{Either, select};
use russh::client::{self, AuthResult, Handle, KeyboardInteractiveAuthResponse, Msg};
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, PublicKey};
use russh::{Channel, ChannelMsg, MethodKind, MethodSet, Preferred, SshId};
use std::borrow::Cow;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore};

use super::Output;
use super::guard::{Guard, Seen};
use super::root::Elevation;
use crate::access::{Access, Credential, PinnedKeys, fingerprint, place};
use crate::error::SshError;
use crate::settings::Settings;

/// Most bytes of complaints that are kept.
const MOST_COMPLAINTS: usize = 16 << 10;
/// How long is waited until a goodbye is sent.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);
/// Rounds of questions that a login may take.
const MOST_QUESTIONS: usize = 4;

/// An open connection.
pub(super) struct Connection {
    handle: Handle<Guard>,
    address: String,
    sessions: Semaphore,
    used: Mutex<Instant>,
    /// How to become root over it, once that is known.
    pub(super) elevation: OnceCell<Elevation>,
}

impl Connection {
    /// Connects, checks the host's key, and only then logs in. `turns` limits how many shake hands at once; a host that
    /// does not answer holds none of them.
    pub(super) async fn open(
        access: &Access,
        settings: &Settings,
        turns: &Semaphore,
    ) -> Result<Self, SshError> {
        if access.pinned.is_empty() {
            return Err(SshError::NothingPinned { address: access.host.clone() });
        }
        let socket = connect(&access.host, access.port, settings).await?;
        let _turn = turns.acquire().await;
        let (connected, seen) =
            shake_hands(socket, access.address(), access.pinned.clone(), settings).await?;
        let mut handle = connected.map_err(|error| explain(access, &error, &seen))?;
        let login = log_in(&mut handle, access);
        within(settings.connect, access.address(), "logging in", login).await??;
        Ok(Self {
            handle,
            address: access.address(),
            sessions: Semaphore::new(settings.sessions),
            used: Mutex::new(Instant::now()),
            elevation: OnceCell::new(),
        })
    }

    /// Whether it can still be used.
    pub(super) fn is_open(&self) -> bool {
        !self.handle.is_closed()
    }

    /// How long nobody has used it.
    pub(super) fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Where it leads.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Runs a command with this standard input.
    pub(super) async fn run(
        &self,
        doing: &'static str,
        command: &str,
        input: Vec<u8>,
        settings: &Settings,
    ) -> Result<Output, RunError> {
        self.touch();
        // Closed only when the connection is dropped, which holds this.
        let _permit = self.sessions.acquire().await.map_err(|_| RunError::NotBegun(self.lost(doing)))?;
        let opened = tokio::time::timeout(settings.connect, self.handle.channel_open_session()).await;
        let Ok(Ok(channel)) = opened else { return Err(RunError::NotBegun(self.lost(doing))) };
        let ran = self.carry(doing, channel, command, input, settings.output);
        let ran = within(settings.command, self.address.clone(), doing, ran).await;
        self.touch();
        ran.and_then(|inner| inner).map_err(RunError::Begun)
    }

    async fn carry(
        &self,
        doing: &'static str,
        channel: Channel<Msg>,
        command: &str,
        input: Vec<u8>,
        most: usize,
    ) -> Result<Output, SshError> {
        channel.exec(true, command).await.map_err(|_| self.lost(doing))?;
        let (mut from, to) = channel.split();
        let mut output = Output::default();
        let mut ended = false;
        let writing = async {
            // A script that ends early does not read all: what it says counts, not this.
            if to.data_bytes(input).await.is_ok() {
                _ = to.eof().await;
            }
            futures::future::pending::<()>().await;
        };
        let reading = async {
            while let Some(message) = from.wait().await {
                match message {
                    ChannelMsg::Data { data } => output.stdout.extend_from_slice(&data),
                    ChannelMsg::ExtendedData { data, .. } => keep(&mut output.stderr, &data, MOST_COMPLAINTS),
                    ChannelMsg::ExitStatus { exit_status } => {
                        output.code = i32::try_from(exit_status).ok();
                        ended = true;
                    }
                    ChannelMsg::ExitSignal { .. } => ended = true,
                    ChannelMsg::Failure => return Err("the host does not run commands for this user"),
                    ChannelMsg::Close => break,
                    _ => {}
                }
                if output.stdout.len() > most {
                    return Err("it printed more than a host has to say");
                }
            }
            Ok(())
        };
        let read = match select(pin!(reading), pin!(writing)).await {
            Either::Left((read, _)) => read,
            // It waits for ever.
            Either::Right(((), _)) => Ok(()),
        };
        read.map_err(|why| SshError::Failed { doing, why: why.to_owned() })?;
        if ended { Ok(output) } else { Err(self.lost(doing)) }
    }

    fn lost(&self, doing: &'static str) -> SshError {
        SshError::Lost { address: self.address.clone(), doing }
    }

    /// Says goodbye, and does not wait long for a host that hangs.
    pub(super) async fn close(&self) {
        let goodbye = self.handle.disconnect(russh::Disconnect::ByApplication, "", "");
        _ = tokio::time::timeout(LONGEST_GOODBYE, goodbye).await;
    }
}

/// Why a command did not run to its end.
pub(super) enum RunError {
    /// It was never sent: another connection may do better.
    NotBegun(SshError),
    /// It may have run, or may still run.
    Begun(SshError),
}

/// The key that a host shows, without logging in.
pub(super) async fn first_key(
    host: &str,
    port: u16,
    settings: &Settings,
    turns: &Semaphore,
) -> Result<PublicKey, SshError> {
    let socket = connect(host, port, settings).await?;
    let _turn = turns.acquire().await;
    let (connected, seen) = shake_hands(socket, place(host, port), PinnedKeys::default(), settings).await?;
    match (seen.key(), connected) {
        (Some(key), _) => Ok(key),
        (None, Err(error)) => Err(SshError::Protocol { address: place(host, port), why: error.to_string() }),
        (None, Ok(_)) => {
            Err(SshError::Protocol { address: place(host, port), why: "it shows no key".to_owned() })
        }
    }
}

type Connected = (Result<Handle<Guard>, russh::Error>, Seen);

async fn connect(host: &str, port: u16, settings: &Settings) -> Result<TcpStream, SshError> {
    let down = |why: String| SshError::Down { address: place(host, port), why };
    let socket = match tokio::time::timeout(settings.connect, TcpStream::connect((host, port))).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => return Err(down(error.to_string())),
        Err(_) => return Err(down(format!("no answer within {} s", settings.connect.as_secs_f32()))),
    };
    // Scripts and their answers are small: waiting to fill packets would only cost time.
    _ = socket.set_nodelay(true);
    Ok(socket)
}

async fn shake_hands(
    socket: TcpStream,
    address: String,
    pinned: PinnedKeys,
    settings: &Settings,
) -> Result<Connected, SshError> {
    let config = Arc::new(config(&pinned, settings));
    let (guard, seen) = Guard::new(pinned);
    let shaking = client::connect_stream(config, socket, guard);
    let shaken = within(settings.connect, address, "shaking hands", shaking).await?;
    Ok((shaken, seen))
}

fn config(pinned: &PinnedKeys, settings: &Settings) -> client::Config {
    let mut preferred = Preferred::default();
    if pinned.is_empty() {
        let mut sorts = preferred.key.into_owned();
        // SHA-1 is no proof of anything.
        sorts.retain(|sort| *sort != russh::keys::Algorithm::Rsa { hash: None });
        preferred.key = Cow::Owned(sorts);
    } else {
        preferred.key = Cow::Owned(pinned.algorithms());
    }
    client::Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!("SSH-2.0-capstan_", env!("CARGO_PKG_VERSION")))),
        preferred,
        keepalive_interval: Some(settings.keepalive),
        keepalive_max: 3,
        ..client::Config::default()
    }
}

/// What it means for a user that a handshake failed.
fn explain(access: &Access, error: &russh::Error, seen: &Seen) -> SshError {
    let address = access.address();
    let expected = access.pinned.fingerprints();
    match (error, seen.key()) {
        (russh::Error::UnknownKey, Some(key)) => {
            SshError::WrongHostKey { address, seen: fingerprint(&key), expected }
        }
        (russh::Error::NoCommonAlgo { kind: russh::AlgorithmKind::Key, theirs, .. }, _) => {
            SshError::NoPinnedKeyOffered { address, expected, offered: theirs.clone() }
        }
        (russh::Error::IO(error), _) => SshError::Down { address, why: error.to_string() },
        (russh::Error::Disconnect | russh::Error::HUP, _) => {
            SshError::Down { address, why: "it hung up".to_owned() }
        }
        (error, _) => SshError::Protocol { address, why: error.to_string() },
    }
}

async fn log_in(handle: &mut Handle<Guard>, access: &Access) -> Result<(), SshError> {
    let lost = |_| SshError::Lost { address: access.address(), doing: "logging in" };
    let accepted = match &access.credential {
        Credential::Key(key) => {
            let hash = match key.algorithm().is_rsa() {
                // A server that says nothing is an old one, but not that old.
                true => {
                    handle.best_supported_rsa_hash().await.map_err(lost)?.unwrap_or(Some(HashAlg::Sha256))
                }
                false => None,
            };
            let key = PrivateKeyWithHashAlg::new(Arc::clone(key), hash);
            handle.authenticate_publickey(&access.user, key).await.map_err(lost)?
        }
        Credential::Password(word) => {
            match handle.authenticate_password(&access.user, word.reveal()).await.map_err(lost)? {
                AuthResult::Failure { remaining_methods, .. }
                    if remaining_methods.contains(&MethodKind::KeyboardInteractive)
                        && !remaining_methods.contains(&MethodKind::Password) =>
                {
                    answer_questions(handle, &access.user, word.reveal()).await.map_err(lost)?
                }
                other => other,
            }
        }
    };
    match accepted {
        AuthResult::Success => Ok(()),
        AuthResult::Failure { remaining_methods, .. } => Err(SshError::Refused {
            address: access.address(),
            user: access.user.clone(),
            method: access.credential.method(),
            accepted: names(&remaining_methods),
            secret: access.secret.clone(),
        }),
    }
}

/// The password, for servers that ask for it in their own words.
async fn answer_questions(
    handle: &mut Handle<Guard>,
    user: &str,
    password: &str,
) -> Result<AuthResult, russh::Error> {
    let mut answer = handle.authenticate_keyboard_interactive_start(user, None).await?;
    for _ in 0..MOST_QUESTIONS {
        match answer {
            KeyboardInteractiveAuthResponse::Success => return Ok(AuthResult::Success),
            KeyboardInteractiveAuthResponse::Failure { remaining_methods, partial_success } => {
                return Ok(AuthResult::Failure { remaining_methods, partial_success });
            }
            KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => {
                // What would be shown on a screen is not asking for a password.
                let words = prompts.iter().map(|prompt| if prompt.echo { "" } else { password }.to_owned());
                answer = handle.authenticate_keyboard_interactive_respond(words.collect()).await?;
            }
        }
    }
    Ok(AuthResult::Failure { remaining_methods: MethodSet::empty(), partial_success: false })
}

fn names(methods: &MethodSet) -> Vec<String> {
    methods.iter().map(|method| <&str>::from(method).to_owned()).collect()
}

/// Keeps the end of what comes.
fn keep(kept: &mut Vec<u8>, data: &[u8], most: usize) {
    kept.extend_from_slice(data);
    let surplus = kept.len().saturating_sub(most);
    kept.drain(..surplus);
}

async fn within<T>(
    time: Duration,
    address: String,
    doing: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, SshError> {
    tokio::time::timeout(time, work).await.map_err(|_| SshError::Slow { address, doing, after: time })
}
