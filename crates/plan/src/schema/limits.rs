//! Limits of a plan. A Secret has at most 1 MiB; a report lists at most 1000 steps.

/// Bytes of a whole plan; this leaves room in its Secret for the other keys.
pub const PLAN_BYTES: usize = 1024 * 1024 - 16 * 1024;
/// Steps of a plan.
pub const STEPS: usize = 1000;
/// Probes of a plan.
pub const PROBES: usize = 32;
/// Periodic commands of a plan.
pub const PERIODIC: usize = 32;
/// Shortest interval of a periodic command, in seconds: each run may be a write to the management plane.
pub const SHORTEST_INTERVAL_SECONDS: u32 = 60;
/// Longest interval of a periodic command, in seconds: a year.
pub const LONGEST_INTERVAL_SECONDS: u32 = 366 * 24 * 60 * 60;
/// Longest timeout of a periodic command, in seconds. A new plan waits for it.
pub const PERIODIC_TIMEOUT_SECONDS: u32 = 60 * 60;
/// Windows in which a plan lets drift be repaired.
pub const WINDOWS: usize = 32;
/// Bytes of the text of such a window.
pub const WINDOW_BYTES: usize = 128;
/// Hours from the time at which a plan is written until it expires. A machine whose clock is earlier than that has a wrong clock.
pub const LIFE_HOURS: i64 = 30 * 24;
/// Characters that a report keeps of each output of a periodic command.
pub const PERIODIC_CHARACTERS: usize = 512;
/// Items of the ledger in a report.
pub const LEDGER_ITEMS: usize = 64;
/// Steps with output in a report, other than the current one.
pub const OUTPUTS: usize = 32;
/// Characters that are kept of each output of such a step.
pub const TAIL_CHARACTERS: usize = 1024;
/// Bytes of the outputs of all such steps.
pub const OUTPUTS_BYTES: usize = 8 * 1024;
/// Items of drift in a report.
pub const DRIFT_ITEMS: usize = 16;
/// Capabilities in a report.
pub const CAPABILITIES: usize = 64;
/// Characters of the name of a capability.
pub const CAPABILITY_CHARACTERS: usize = 63;
/// Words of a command.
pub const WORDS: usize = 256;
/// Bytes of one word of a command, and of the value of an environment variable.
pub const WORD_BYTES: usize = 32 * 1024;
/// Environment variables of a command.
pub const VARIABLES: usize = 128;
/// Texts that are redacted from reports.
pub const REDACTIONS: usize = 64;
/// Timeout of a step, in seconds.
pub const TIMEOUT_SECONDS: u32 = 24 * 60 * 60;
/// Attempts of a step.
pub const ATTEMPTS: u32 = 1000;
/// Seconds between two attempts or two runs of a probe.
pub const DELAY_SECONDS: u32 = 60 * 60;
/// Consecutive results that a probe may require.
pub const THRESHOLD: u32 = 100;
/// Largest age of a file that a probe may allow, in seconds: ten years.
pub const AGE_SECONDS: u32 = 10 * 366 * 24 * 60 * 60;

/// Bytes of an artifact, as downloaded.
pub const ARTIFACT_BYTES: u64 = 8 * 1024 * 1024 * 1024;
/// Bytes of the program of the agent. It is read into memory when it is replaced.
pub const AGENT_BYTES: u64 = 128 * 1024 * 1024;
/// Sources of an artifact.
pub const SOURCES: usize = 16;
/// Bytes of the CA bundle of a source.
pub const CA_BYTES: usize = 64 * 1024;
/// Bytes of the user name and of the password for a proxy.
pub const CREDENTIAL_BYTES: usize = 1024;
/// Gates of a plan. If all of them are open, they must fit into the room that a plan leaves in its Secret.
pub const GATES: usize = 128;
/// Bytes of the open gates of a plan.
pub const GATES_BYTES: usize = 12 * 1024;

/// Links between plan keys in a Secret.
pub const SUCCESSIONS: usize = 32;

/// A violated limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {least} to {most}, not {found}")]
pub struct Limit {
    /// Minimum.
    pub least: u64,
    /// Maximum.
    pub most: u64,
    /// Actual value.
    pub found: u64,
}

impl Limit {
    /// Refuses a number outside the limits.
    pub(crate) fn check(found: impl TryInto<u64>, least: u64, most: impl TryInto<u64>) -> Result<(), Self> {
        let (found, most) = (found.try_into().unwrap_or(u64::MAX), most.try_into().unwrap_or(u64::MAX));
        if (least..=most).contains(&found) { Ok(()) } else { Err(Self { least, most, found }) }
    }
}
