//! `capstan-agent register`: registers this machine with a join token, and starts the service that dials out.
//!
//! The token comes through standard input or a file, never as an argument, which other users of the machine could read.
//! Everything that is needed after a crash is on the disk before it is used: the key and the random name before the request.

use capstan_agent::Machine as _;
use capstan_agent::real::Linux;
use capstan_plan::Facts;
use capstan_plan::host_join::JoinToken;
use std::io::Read as _;
use std::path::Path;

use super::places::Places;
use super::registration::{HostKey, Registration};
use super::unit;
use crate::paths::Paths;
use crate::{Failure, print, proxy};

/// What is said in place of a proxy.
const DIRECT: &str = "direct";

/// A token has a few kilobytes.
const LONGEST: u64 = 128 * 1024;

/// How the management plane is reached from now on.
pub(crate) struct Proxy {
    /// The proxy, or `direct` for none.
    pub(crate) url: String,
    /// Servers that are reached without it.
    pub(crate) direct: Vec<String>,
}

/// Registers the machine. May be cut off anywhere, and run again with the same token.
pub(crate) async fn run(
    paths: &Paths,
    token_file: &Path,
    again: bool,
    proxy: Option<Proxy>,
    with_service: bool,
) -> Result<(), Failure> {
    let places = Places(paths);
    let token = JoinToken::parse(&read_token(token_file)?).map_err(Failure::new)?;
    let file = match &proxy {
        None => proxy::read(paths)?,
        Some(proxy) if proxy.url == DIRECT => None,
        Some(Proxy { url, direct }) => Some(proxy::content(url, direct)?),
    };
    let route = match &proxy {
        None => proxy::route(paths)?,
        Some(_) => file.as_deref().map(proxy::parse).transpose()?.unwrap_or_default(),
    };
    let key = HostKey::take(&places)?;
    let former = Registration::read(&places)?;
    let mut registration = match former.clone() {
        Some(registered) if registered.credential.is_some() && !again => {
            return Err(Failure::new(format!(
                "this machine is registered at {} as {} already; use --again to register it again",
                registered.server, registered.name
            )));
        }
        // It was cut off, or the plane could not be reached.
        Some(begun) if begun.is_of(&token, &key) && begun.credential.is_none() && !again => {
            let mut begun = begun.through(route);
            begun.join_with(token);
            if begun.is_created && is_gone(&begun).await? {
                return Err(Failure::new(format!(
                    "the registration {} was denied or deleted; use --again to register this machine again",
                    begun.name
                )));
            }
            begun
        }
        _ => Registration::new(token, &key).through(route),
    };
    if with_service && places.is_machine() {
        // It would write what it knows over what follows.
        unit::halt(&places).await?;
    }
    let former_proxy = proxy::read(paths)?;
    if former_proxy != file {
        proxy::write(paths, file.as_deref())?;
    }
    registration.write(&places)?;
    if let Err(error) = create(&places, &key, &mut registration).await {
        // The machine goes on with the registration that it has: nothing else may reach it.
        if let Some(former) = former.filter(|former| former.credential.is_some()) {
            former.write(&places)?;
            if former_proxy != file {
                proxy::write(paths, former_proxy.as_deref())?;
            }
            if with_service && places.is_machine() {
                unit::resume(&places).await?;
            }
        }
        return Err(error);
    }
    if with_service && places.is_machine() {
        unit::install(&places).await?;
    }
    let Registration { name, namespace, .. } = &registration;
    print(&format!(
        "registered as {name}; unless a rule approves it, run: capstan host approve {name} -n {namespace}\n"
    ))
}

/// Whether the object, which was created, is no longer there. A plane that does not answer says neither.
async fn is_gone(registration: &Registration) -> Result<bool, Failure> {
    let path = format!("{}/{}", registration.collection(), registration.name);
    let found = registration.api()?.get(&path).await;
    Ok(found.is_err_and(|error| error.is_status(404)))
}

/// Creates the object, unless that was done. An object of the name is ours: nobody else can guess it.
pub(super) async fn create(
    places: &Places<'_>,
    key: &HostKey,
    registration: &mut Registration,
) -> Result<(), Failure> {
    if registration.is_created {
        return Ok(());
    }
    let facts = match Linux::rooted(places.root()) {
        Ok(machine) => machine.facts().await,
        // They help the person who approves it, and are not needed.
        Err(_) => Facts::default(),
    };
    match registration.api()?.create(&registration.collection(), &registration.object(key, &facts)).await {
        Err(error) if error.is_status(401) => Err(Failure::new(format!(
            "{} does not accept the join token {}: it has expired or was revoked; make another one with `capstan host token`",
            registration.server, registration.token
        ))),
        Err(error) if !error.is_status(409) => Err(Failure::new(error)),
        _ => {
            registration.is_created = true;
            registration.write(places)
        }
    }
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().lock().take(LONGEST).read_to_string(&mut text),
        false => std::fs::File::open(file).and_then(|file| file.take(LONGEST).read_to_string(&mut text)),
    };
    // What was read is not repeated.
    read.map_err(|error| {
        Failure::new(format!("cannot read the join token from {}: {error}", file.display()))
    })?;
    Ok(text)
}
