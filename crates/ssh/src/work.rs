//! The operations on a host, over any [`Shell`](crate::transport::Shell).

use capstan_api::infrastructure::Host;
use capstan_infrastructure::{
    BootstrapData, BootstrapFailure, BootstrapState, FollowState, HandOver, Reached, ResetState,
};

use crate::check;
use crate::error::SshError;
use crate::facts::plain;
use crate::follow;
use crate::job::{self, JobReport};
use crate::redact::Redactor;
use crate::reset;
use crate::script::{Answer, Script};
use crate::transport::Shell;
use crate::{CLAIMS, Settings};

/// A host that can be asked.
pub(crate) struct Work<'s> {
    pub(crate) shell: &'s dyn Shell,
    pub(crate) settings: &'s Settings,
    /// Who logs in, for errors.
    pub(crate) user: &'s str,
    /// What is never repeated, whatever the host prints.
    pub(crate) redactor: Redactor,
}

impl Work<'_> {
    /// Runs a script and reads its answer.
    pub(crate) async fn ask(&self, doing: &'static str, script: &Script) -> Result<Answer, SshError> {
        let output = self.shell.run(doing, &script.text()).await?;
        let failed = |why: String| SshError::Failed { doing, why };
        let Some(answer) = script.answer(&output.stdout) else {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().map(|line| plain(line, 400)).find(|line| !line.is_empty());
            let last = self.redactor.clean(&last.unwrap_or_default());
            let code = output.code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
            return Err(failed(format!("{last}{code}")));
        };
        if let Some((program, package)) = answer.get("missing").and_then(|pair| pair.split_once(':')) {
            return Err(failed(format!(
                "there is no `{}` on the host; install the package {} there",
                plain(program, 64),
                plain(package, 64)
            )));
        }
        match answer.get("failed") {
            Some(why) => Err(failed(self.redactor.clean(&plain(why, 400)))),
            None => Ok(answer),
        }
    }

    /// Who the host is, and what would stop a machine from working on it.
    pub(crate) async fn facts(&self, host: &Host) -> Result<Reached, SshError> {
        let collected = check::collect(self).await?;
        if !collected.is_root {
            return Err(SshError::NotRoot(not_root(self.user)));
        }
        // A tree in a folder is no host: what the machine around it lacks says nothing.
        let problems = match self.settings.needs_root() {
            true => check::problems(&collected, host),
            false => Vec::new(),
        };
        Ok(Reached { problems, ..collected.reached })
    }

    /// Sees that the data is carried out, once, and says how that goes.
    pub(crate) async fn bootstrap(
        &self,
        claim: &str,
        provider_id: &str,
        data: &BootstrapData,
    ) -> Result<BootstrapState, SshError> {
        if let Some(refused) = refuse_claim(claim) {
            return Ok(BootstrapState::Failed(refused));
        }
        let root = &self.settings.root;
        let answer = self.ask("asking how the bootstrap data fares", &job::status(root, claim)).await?;
        let report = job::read(&answer, &self.redactor)
            .ok_or_else(|| nonsense("asking how the bootstrap data fares"))?;
        let (host, others) = match report {
            JobReport::State(state) => return Ok(state),
            JobReport::Leaving => {
                return Ok(failed("begin", "this claim is being undone already".to_owned()));
            }
            JobReport::Nothing { host, others } => (host, others),
        };
        if let Some(other) = others.first() {
            return Ok(failed(
                "look at the host",
                format!(
                    "{CLAIMS}/{other} is on the host: an earlier machine was not taken off it. Clean the host, then \
                     remove that folder"
                ),
            ));
        }
        let job = match job::compile(data, claim, provider_id, &host) {
            Ok(job) => job,
            Err(refused) => return Ok(failed("read the bootstrap data", refused.to_string())),
        };
        self.ask("starting the bootstrap data", &job.upload(root, claim)).await?;
        Ok(BootstrapState::Running)
    }

    /// Tells the agent which management plane to obey.
    pub(crate) async fn follow(&self, claim: &str, hand_over: &HandOver) -> Result<FollowState, SshError> {
        const DOING: &str = "handing the agent over";
        if let Some(refused) = refuse_claim(claim) {
            return Ok(FollowState::Refused(refused.last_lines.concat()));
        }
        let script = follow::script(job::of_claim(&self.settings.root, claim), hand_over);
        let answer = self.ask(DOING, &script).await?;
        follow::read(&answer).ok_or_else(|| nonsense(DOING))
    }

    /// Sees that the claim is undone, and says how that goes.
    pub(crate) async fn reset(&self, claim: &str) -> Result<ResetState, SshError> {
        const DOING: &str = "undoing what was done";
        if refuse_claim(claim).is_some() {
            // Nothing can have been done under it.
            return Ok(ResetState::Clean);
        }
        let answer = self.ask(DOING, &job::leave(&self.settings.root, claim)).await?;
        reset::read(&answer, claim).ok_or_else(|| nonsense(DOING))
    }

    /// Waits until the work under the claim has ended, or for a while. Whether it has ended.
    pub(crate) async fn wait(&self, claim: &str) -> Result<bool, SshError> {
        const MOST_TRIES: u32 = 200;
        let answer = self.ask("waiting for the host", &job::wait(&self.settings.root, claim)).await?;
        let tries = answer.get("waited").and_then(|tries| tries.parse::<u32>().ok());
        Ok(tries.is_none_or(|tries| tries < MOST_TRIES))
    }
}

/// What a user who is not root must change.
pub(crate) fn not_root(user: &str) -> String {
    format!("user {user} is not root: set spec.ssh.sudo, or log in as root (spec.ssh.user)")
}

/// A claim becomes the name of a folder and of a unit.
fn refuse_claim(claim: &str) -> Option<BootstrapFailure> {
    let fine = !claim.is_empty()
        && claim.len() <= 64
        && !claim.starts_with('.')
        && claim.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (!fine).then(|| BootstrapFailure {
        step: "begin".to_owned(),
        exit_code: None,
        last_lines: vec![
            "spec.claimID must be made of letters, digits, dots, dashes and underscores".to_owned(),
        ],
    })
}

fn failed(step: &str, why: String) -> BootstrapState {
    BootstrapState::Failed(BootstrapFailure { step: step.to_owned(), exit_code: None, last_lines: vec![why] })
}

fn nonsense(doing: &'static str) -> SshError {
    SshError::Failed { doing, why: "the host answers what makes no sense".to_owned() }
}
