//! Arguments of `capstan admin`.

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};
use std::path::PathBuf;

use crate::args::{Output, duration};
use crate::client::PlaneArgs;

/// The longest life of an administrator's certificate.
const LONGEST: SignedDuration = SignedDuration::from_hours(365 * 24);
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);

#[derive(Debug, Subcommand)]
pub(crate) enum AdminVerb {
    /// Print a kubeconfig for the administrator of an embedded plane on this machine
    Kubeconfig(KubeconfigArgs),

    /// Reject the certificates and tokens that a user or group has
    Revoke(RevokeArgs),

    /// List what has been revoked
    Revocations(RevocationsArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The kubeconfig holds a new certificate in the group system:masters, which may do everything. The plane may run or not. \
End it before its time with `capstan admin revoke`.")]
pub(crate) struct KubeconfigArgs {
    /// Data folder of the plane [default: ~/.local/share/capstan]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// How long the certificate is valid, such as 12h or 30d
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = life)]
    pub(crate) valid_for: SignedDuration,

    /// File to write, for its owner only [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("subject").required(true),
    after_help = "\
Only for embedded planes, and only for the group system:masters. Open watches of the revoked credentials end within seconds. \
A running plane renews its own admin.kubeconfig within a minute if that is revoked, too."
)]
pub(crate) struct RevokeArgs {
    /// User whose credentials are revoked
    #[arg(long, value_name = "NAME", group = "subject")]
    pub(crate) user: Option<String>,

    /// Group whose members' credentials are revoked
    #[arg(long, value_name = "NAME", group = "subject")]
    pub(crate) group: Option<String>,

    /// Revoke only what was issued before this time, such as 2027-01-31T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) issued_before: Option<Timestamp>,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevocationsArgs {
    /// For programs: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}

fn life(text: &str) -> Result<SignedDuration, String> {
    let life = duration(text)?;
    if !(SHORTEST..=LONGEST).contains(&life) {
        return Err("use at least 10m and at most 365d".to_owned());
    }
    Ok(life)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_bounded() {
        assert_eq!(life("12h"), Ok(SignedDuration::from_hours(12)));
        assert_eq!(life("30d"), Ok(SignedDuration::from_hours(720)));
        for (text, why) in
            [("9m", "at least 10m"), ("366d", "at most 365d"), ("-1h", "at least"), ("x", "a unit")]
        {
            let error = life(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
