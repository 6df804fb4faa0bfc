//! `capstan-agent reset`: takes everything back that plans did, then the agent itself, its own program last. Needs no
//! management plane. May be cut off anywhere and done again.

use capstan_agent::Reset;
use serde_json::json;

use crate::paths::Paths;
use crate::{Failure, daemon, files, print, say, service};

/// Exits with success whenever it can say how it stands; whether the machine is clean is what it says.
pub(crate) async fn run(paths: &Paths, is_json: bool) -> Result<(), Failure> {
    if paths.is_machine() {
        service::stop(paths).await?;
        service::forget_trial().await;
    }
    let mut left = undo(paths).await?;
    if left.is_empty() {
        left.extend(remove(paths).await);
    }
    if is_json {
        let answer =
            if left.is_empty() { json!({"clean": true}) } else { json!({"clean": false, "left": left}) };
        return print(&format!("{answer}\n"));
    }
    if left.is_empty() {
        return print("clean\n");
    }
    left.iter().for_each(|line| say!("left: {line}"));
    print("not clean; what is left is known, and another reset tries all of it again\n")
}

/// Takes back what plans did. What could not be is returned, and stays known.
async fn undo(paths: &Paths) -> Result<Vec<String>, Failure> {
    if !paths.state().exists() {
        return Ok(Vec::new());
    }
    let mut engine = daemon::open(paths)
        .await
        .map_err(|error| Failure::new(format!("cannot find out what to take back: {error}")))?;
    let reset = engine.reset(None).await;
    let reset =
        reset.map_err(|error| Failure::new(format!("cannot write down what was taken back: {error}")))?;
    Ok(match reset {
        Reset::Clean => Vec::new(),
        Reset::Left(left) => left.iter().map(ToString::to_string).collect(),
    })
}

/// Takes the agent itself away. Its program goes last, so that until then this can be done again.
async fn remove(paths: &Paths) -> Vec<String> {
    let mut left = Vec::new();
    let mut try_ = |what: String, done: Result<(), String>| {
        if let Err(error) = done {
            left.push(format!("{what}: {error}"));
        }
    };
    if paths.is_machine() {
        let gone = service::uninstall(paths).await.map_err(|error| error.to_string());
        try_(paths.unit().display().to_string(), gone);
    }
    for folder in [paths.run(), paths.state(), paths.etc()] {
        let gone = files::remove_folder(&folder).map_err(|error| error.to_string());
        try_(folder.display().to_string(), gone);
    }
    if left.is_empty() {
        let binary = paths.binary();
        let others = paths.other_binaries();
        let gone = others
            .iter()
            .try_for_each(|other| files::remove(other))
            .and_then(|()| files::remove(&binary))
            .and_then(|()| binary.parent().map_or(Ok(()), files::remove_if_empty))
            .map_err(|error| error.to_string());
        if let Err(error) = gone {
            left.push(format!("{}: {error}", binary.display()));
        }
    }
    left
}
