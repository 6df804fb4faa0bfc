//! `capstan-agent follow`: follows another management plane, or reports why not.
//!
//! It changes one file, atomically: after a crash the agent follows the old plane or the new one. A hand-over that was
//! interrupted is repeated, and completes the rest. Journal, ledger, cache and key are kept.

use capstan_agent::follow::{Refusal, Verdict, decide};
use jiff::Timestamp;
use serde_json::json;
use std::io::Read as _;

use crate::config::Config;
use crate::credential::{Acceptance, Credential};
use crate::paths::Paths;
use crate::{Failure, enroll, explain, files, print, say, service, status};

/// A configuration has some kilobytes.
const LONGEST: u64 = 256 * 1024;

/// Exits with success whenever it can say how it stands; whether it follows is what it says.
pub(crate) async fn run(paths: &Paths, is_json: bool) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(LONGEST).read_to_end(&mut bytes).map_err(Failure::new)?;
    let theirs = Config::parse(&bytes).map_err(|what| Failure::new(format!("what was sent {what}")))?;
    match follow(paths, &theirs).await? {
        None if is_json => print(&format!("{}\n", json!({"follows": true}))),
        Some(why) if is_json => {
            print(&format!("{}\n", json!({"follows": false, "refused": why.to_string()})))
        }
        None => print(&format!("follows {} (epoch {})\n", theirs.address(), theirs.epoch())),
        Some(why) => print(&format!("refused: {why}\n")),
    }
}

async fn follow(paths: &Paths, theirs: &Config) -> Result<Option<Refusal>, Failure> {
    // Looked at before anything is stopped: whoever is refused is not noticed.
    match look(paths, theirs).await? {
        Verdict::Refuse(why) => return Ok(Some(why)),
        Verdict::Stay => {}
        Verdict::Follow => {
            if paths.is_machine() {
                // It may be enrolling, and nobody else can then; and it must not write the old plane's token away.
                service::halt().await?;
            }
            let _lock = enroll::lock(paths).await?;
            match look(paths, theirs).await? {
                Verdict::Refuse(why) => return Ok(Some(why)),
                Verdict::Stay => {}
                Verdict::Follow => {
                    // Another request than before: an answer to the old one is no answer of the new plane.
                    files::remove(&paths.request()).map_err(Failure::new)?;
                    theirs.write(&paths.config())?;
                    say!("this machine is handed to {} (epoch {})", theirs.address(), theirs.epoch());
                }
            }
        }
    }
    let obeys = status::read(paths).and_then(|status| status.obeys);
    if paths.is_machine() && obeys.as_ref() != Some(&theirs.stamp()) {
        service::install(paths).await?;
        service::restart().await?;
    }
    Ok(None)
}

async fn look(paths: &Paths, theirs: &Config) -> Result<Verdict, Failure> {
    let ours = Config::read(paths)?;
    let mut obstacles = Vec::new();
    let history = explain::history(paths, &mut obstacles);
    if let Some(obstacle) = obstacles.pop() {
        // What it has obeyed so far is not known, so neither is whom it may follow.
        return Err(Failure::new(obstacle));
    }
    if history.resetting {
        return Ok(Verdict::Refuse(Refusal::Resetting));
    }
    if ours.is_same(theirs) {
        return Ok(Verdict::Stay);
    }
    let has_credential = has_credential(paths, &ours).await?;
    let ours = ours.allegiance(history.plan_key);
    Ok(decide(&ours, history.epoch, &theirs.allegiance(None), has_credential))
}

/// Whether the machine needs no token of the plane that it obeys. If that cannot be asked, the credential counts: the hand-over is
/// repeated.
async fn has_credential(paths: &Paths, ours: &Config) -> Result<bool, Failure> {
    match Credential::read(paths, ours)? {
        Some(credential) if !credential.is_over(Timestamp::now()) => {
            Ok(credential.acceptance(ours).await? != Acceptance::Refused)
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn config(plane: &str, epoch: u64, token: &str) -> Config {
        let value: Value = json!({
            "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "AgentConfig", "server": format!("https://{plane}"),
            "caData": "UEVN", "token": token, "namespace": "default", "machine": "web-0", "machineID": "0123",
            "planPublicKey": format!("{}=", "A".repeat(43)), "plane": plane, "epoch": epoch,
        });
        Config::parse(value.to_string().as_bytes()).expect("a configuration")
    }

    #[tokio::test]
    async fn a_machine_goes_forth_and_back_and_never_backwards() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = Paths::new(folder.path().to_owned());
        config("a", 1, "1").write(&paths.config()).expect("written");
        files::write(&paths.request(), b"old").expect("written");
        let server = || Config::read(&paths).expect("a configuration").address().to_owned();

        assert_eq!(follow(&paths, &config("b", 2, "2")).await.expect("no error"), None);
        assert_eq!(server(), "https://b");
        assert_eq!(files::read(&paths.request()).expect("read"), None);
        // Told again, as after a crash: nothing more to do. With another token: that one.
        files::write(&paths.request(), b"new").expect("written");
        assert_eq!(follow(&paths, &config("b", 2, "2")).await.expect("no error"), None);
        assert!(files::read(&paths.request()).expect("read").is_some());
        assert_eq!(follow(&paths, &config("b", 2, "3")).await.expect("no error"), None);
        let token = Config::read(&paths).expect("read").token().map(|token| token.expose().to_owned());
        assert_eq!(token.as_deref(), Some("3"));

        // Those who were left behind, and those who took a stale copy over.
        for (plane, epoch) in [("a", 1), ("c", 2), ("b", 1)] {
            let refused = follow(&paths, &config(plane, epoch, "4")).await.expect("no error");
            assert!(matches!(refused, Some(Refusal::OldManager { .. })), "{refused:?}");
            assert_eq!(server(), "https://b");
        }
        assert_eq!(follow(&paths, &config("a", 3, "5")).await.expect("no error"), None);
        assert_eq!(server(), "https://a");
    }
}
