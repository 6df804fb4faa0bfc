//! The command line of `capstan`, as clap parses it.

use capstan_artifacts::Arch;
use capstan_plan::Digest;
use clap::{Parser, Subcommand, ValueEnum};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::admin::AdminVerb;
use crate::backup::{BackupArgs, RestoreArgs};
use crate::client::PlaceArgs;
use crate::complete::CompleteArgs;
use crate::completion::CompletionArgs;
use crate::controllers::Selection;
use crate::describe::Describe;
use crate::generate::Generate;
use crate::get::Get;
use crate::host::HostVerb;
use crate::init::{DeleteArgs, InitArgs};
use crate::logs::LogsArgs;
use crate::manager::args::ManagerArgs;
use crate::movement::MoveArgs;
use crate::release::ReleaseArgs;
use crate::rollout::{Alpha, RolloutVerb};
use crate::rotate::RotateVerb;
use crate::show::ShowArgs;
use crate::support::SupportVerb;
use crate::top::TopArgs;
use crate::tuning::TuningArgs;
use crate::ui::UiArgs;
use crate::version::VersionArgs;

/// Cluster API in Rust, for machines people keep.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show the life of a cluster on simulated hosts or real machines: creation, in-place upgrade, deletion
    Demo(DemoArgs),

    /// Run the management plane: API server, store and controllers in one process
    Up(Box<UpArgs>),

    /// Write all data of an embedded plane to a file, whether the plane runs or not
    Backup(BackupArgs),

    /// Restore an embedded plane from a backup; its controllers wait until you resume them
    Restore(RestoreArgs),

    /// Issue and revoke credentials of an embedded plane
    #[command(subcommand)]
    Admin(AdminVerb),

    /// Run the controllers against an existing management plane
    Manager(Box<ManagerArgs>),

    /// Manage the software for machines and its sources
    #[command(subcommand)]
    Artifacts(ArtifactsVerb),

    /// Add, list, check and remove hosts, the machines of clusters
    #[command(subcommand)]
    Host(HostVerb),

    /// Print the CustomResourceDefinitions, ready for `kubectl apply -f -`
    Crds(CrdsArgs),

    /// Write a release for clusterctl: a repository with the manifests of every provider
    #[command(disable_version_flag = true)]
    Release(ReleaseArgs),

    /// Print manifests made from templates
    #[command(subcommand)]
    Generate(Generate),

    /// Install Capstan's providers into a management cluster
    Init(InitArgs),

    /// Remove providers from a management cluster
    Delete(DeleteArgs),

    /// List clusters, machines and hosts, or print the kubeconfig of a cluster
    #[command(subcommand)]
    Get(Get),

    /// Show the objects of a cluster and their conditions
    #[command(subcommand)]
    Describe(Describe),

    /// Move clusters to another management plane, or to a folder and back
    Move(MoveArgs),

    /// Show what a change would do, machine by machine and field by field, without doing it
    Plan(PlanArgs),

    /// Show what a cluster or a machine waits for, since when, and who must act
    Why(WhyArgs),

    /// Watch clusters, machines and hosts live in the terminal
    Top(TopArgs),

    /// Serve a web view of the management plane on this machine
    Ui(UiArgs),

    /// Print the latest output of a machine
    Logs(LogsArgs),

    /// Restart, pause or resume rollouts of control planes and MachineDeployments
    #[command(subcommand)]
    Rollout(RolloutVerb),

    /// Replace keys
    #[command(subcommand)]
    Rotate(RotateVerb),

    /// Collect data to analyse a problem
    #[command(subcommand)]
    Support(SupportVerb),

    /// Commands that clusterctl calls alpha
    #[command(subcommand, hide = true)]
    Alpha(Alpha),

    /// Print names of objects for a shell that completes a word
    #[command(hide = true)]
    Complete(CompleteArgs),

    /// Print the completion script of a shell
    Completion(CompletionArgs),

    /// Print the version
    Version(VersionArgs),
}

/// One cluster of a management plane.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Name of the cluster
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 the plan was shown; 1 something would be refused, or there was an error; with --exit-code also 2: \
something would change.")]
pub(crate) struct PlanArgs {
    /// Manifests to apply: a file, a folder, or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) show: ShowArgs,

    /// Take over fields that other field managers own, as `kubectl apply --server-side --force-conflicts` would
    #[arg(long)]
    pub(crate) force: bool,

    /// Exit with code 2 if something would change
    #[arg(long)]
    pub(crate) exit_code: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    /// machine/NAME, cluster/NAME, or the name of a cluster
    pub(crate) what: String,

    #[command(flatten)]
    pub(crate) show: ShowArgs,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Parses a duration with units up to days.
pub(crate) fn duration(text: &str) -> Result<SignedDuration, String> {
    let span: Span = text.parse().map_err(|_| "use a number and a unit, such as 12h or 30d".to_owned())?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|error| error.to_string())
}

/// A machine-readable format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Json,
    Yaml,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Keep the plane and the cluster running at the end, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,

    /// Use real machines, created on this computer with systemd-nspawn, and a real k3s. Needs root
    #[arg(long, requires = "root_filesystem", requires = "artifacts_dir")]
    pub(crate) real: bool,

    /// With --real: folder with the root file system that is copied to each machine
    #[arg(long, value_name = "DIR", requires = "real")]
    pub(crate) root_filesystem: Option<PathBuf>,

    /// With --real: folder of software with two versions of k3s, as `capstan artifacts` fills it
    #[arg(long, value_name = "DIR", requires = "real")]
    pub(crate) artifacts_dir: Option<PathBuf>,

    /// With --real: agent to install on machines [default: capstan-agent beside this program]
    #[arg(long, value_name = "FILE", requires = "real")]
    pub(crate) agent_binary: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    /// Folder for persistent data [default: ~/.local/share/capstan]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Address and port to serve the API on; port 0 selects a free one. Other machines can reach the API on any address
    /// that is not a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6440")]
    pub(crate) listen: SocketAddr,

    /// Address that machines and kubeconfigs use, if it differs from the address of --listen
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise_address: Option<String>,

    /// File to write the administrator's kubeconfig to [default: admin.kubeconfig in the data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,

    /// Controllers to run: all, none, or some of core, infrastructure, bootstrap, control-plane, hooks
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) controllers: Selection,

    /// Address of a service that webhooks refer to; may be repeated
    #[arg(long, value_name = "NAMESPACE/NAME=URL", value_parser = webhook_service)]
    pub(crate) webhook_service: Vec<(String, String)>,

    /// Audit log: file with one line of JSON per request, with user, verb and object but without content. At 100 MB the
    /// file is renamed to FILE.1, and so on; ten of them are kept
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,

    /// Audit policy (audit.k8s.io/v1): which requests the audit log records, and with which content
    #[arg(long, value_name = "FILE", requires = "audit_log")]
    pub(crate) audit_policy_file: Option<PathBuf>,

    /// Resume the controllers after `capstan restore`, now and for all later starts
    #[arg(long)]
    pub(crate) resume_after_restore: bool,

    /// Serve the web view too, on this loopback address [default: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = crate::ui::LISTEN)]
    pub(crate) ui: Option<SocketAddr>,

    /// With --ui: offer actions, made with the permissions of the administrator
    #[arg(long, requires = "ui")]
    pub(crate) ui_allow_actions: bool,

    #[command(flatten)]
    pub(crate) tuning: TuningArgs,

    #[command(flatten)]
    pub(crate) software: SoftwareArgs,

    #[command(flatten)]
    pub(crate) hooks: HooksArgs,
}

/// Reads `namespace/name=https://...`.
fn webhook_service(text: &str) -> Result<(String, String), String> {
    let (service, url) = text.split_once('=').ok_or("no URL: write NAMESPACE/NAME=https://HOST:PORT")?;
    let parts: Vec<&str> = service.split('/').collect();
    if parts.len() != 2 || parts.iter().any(|part| part.is_empty()) {
        return Err(format!("{service:?} is not a namespace and the name of a service"));
    }
    if url.strip_prefix("https://").is_none_or(str::is_empty) {
        return Err(format!("{url:?} does not begin with https://"));
    }
    Ok((service.to_owned(), url.to_owned()))
}

/// The runtime hooks with which Cluster API's core, Capstan's or upstream's, asks which changes machines accept in
/// place.
#[derive(Debug, clap::Args)]
pub(crate) struct HooksArgs {
    /// Address and port to serve the runtime hooks for in-place updates on; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub(crate) hooks_listen: SocketAddr,

    /// URL of the runtime hooks for core, beginning with https:// [default: the address of --hooks-listen]
    #[arg(long, value_name = "URL")]
    pub(crate) hooks_url: Option<String>,

    /// Namespace of the Secret with the CA of the runtime hooks
    #[arg(long, value_name = "NAMESPACE", default_value = "capstan-system")]
    pub(crate) hooks_namespace: String,

    /// CA bundle for client certificates of hook callers [default: only core in this process is served, which needs the
    /// group core, and a loopback address in --hooks-listen]
    #[arg(long, value_name = "FILE")]
    pub(crate) hooks_client_ca_file: Option<PathBuf>,

    /// Serve hooks to callers with a bearer token for the audience hooks.capstan.dev, whose user may post to the path of the
    /// hook. The management plane reviews both
    #[arg(long)]
    pub(crate) hooks_review_tokens: bool,

    /// Bearer token of Capstan's core for Capstan's own hooks; read at every call
    #[arg(long, value_name = "FILE")]
    pub(crate) hooks_token_file: Option<PathBuf>,

    /// Serve hooks to every caller that reaches --hooks-listen, if --hooks-client-ca-file is not passed or its file does not
    /// exist
    #[arg(
        long,
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    pub(crate) hooks_allow_unauthenticated: bool,

    /// Client certificate of Capstan's core for runtime extensions
    #[arg(long, value_name = "FILE", requires = "runtime_extension_client_key_file")]
    pub(crate) runtime_extension_client_cert_file: Option<PathBuf>,

    /// Key of the client certificate for runtime extensions
    #[arg(long, value_name = "FILE", requires = "runtime_extension_client_cert_file")]
    pub(crate) runtime_extension_client_key_file: Option<PathBuf>,
}

/// The software for machines and its server.
#[derive(Debug, clap::Args)]
pub(crate) struct SoftwareArgs {
    /// Folder of software for machines [default: artifacts in the data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) artifacts_dir: Option<PathBuf>,

    /// Additional index of software, with download URLs; read again when it changes, and may be absent
    #[arg(long, value_name = "FILE")]
    pub(crate) artifacts_index: Option<PathBuf>,

    /// Address and port to serve software to machines on; port 0 selects a free one [default for `up`: the port after
    /// that of --listen; for `manager`: not served]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) artifacts_listen: Option<SocketAddr>,

    /// URL of the software server for machines, as in https://10.0.0.1:6441 [default: the address of
    /// --artifacts-listen]
    #[arg(long, value_name = "URL")]
    pub(crate) artifacts_url: Option<String>,

    /// Agent to install on machines; once for each architecture [default: capstan-agent beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) agent_binary: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactsVerb {
    /// Copy software into the folder, or record its URL
    #[command(disable_version_flag = true)]
    Add(AddArtifactArgs),

    /// List the available software
    List(ListArtifactsArgs),

    /// Read all files and compare them with the index
    Verify(ArtifactsFolderArgs),
}

/// The folder of software.
#[derive(Debug, clap::Args)]
pub(crate) struct ArtifactsFolderArgs {
    /// Folder of software [default: artifacts in the data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) artifacts_dir: Option<PathBuf>,

    /// Data folder of `capstan up` [default: ~/.local/share/capstan]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArtifactArgs {
    #[command(flatten)]
    pub(crate) folder: ArtifactsFolderArgs,

    /// Name, such as k3s
    #[arg(long)]
    pub(crate) name: String,

    /// Version, such as v1.36.0+k3s1
    #[arg(long)]
    pub(crate) version: String,

    /// Architecture: amd64, arm64, arm, ppc64le, riscv64 or s390x
    #[arg(long)]
    pub(crate) arch: Arch,

    /// File to copy into the folder
    #[arg(long, value_name = "FILE", required_unless_present = "url", conflicts_with = "url")]
    pub(crate) file: Option<PathBuf>,

    /// https URL that machines download it from; redirects are not followed
    #[arg(long, value_name = "URL", requires = "sha256", requires = "size")]
    pub(crate) url: Option<String>,

    /// SHA-256 of the download; with --file, the expected SHA-256 of the file
    #[arg(long, value_name = "DIGEST")]
    pub(crate) sha256: Option<Digest>,

    /// Size of the download in bytes
    #[arg(long, value_name = "BYTES", requires = "url")]
    pub(crate) size: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArtifactsArgs {
    #[command(flatten)]
    pub(crate) folder: ArtifactsFolderArgs,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = ListFormat::Table)]
    pub(crate) output: ListFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ListFormat {
    /// A table for people
    Table,
    /// One JSON list
    Json,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CrdsArgs {
    /// Print only the CRDs of one provider
    #[arg(long, value_enum)]
    pub(crate) provider: Option<Provider>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub(crate) output: Format,

    /// Write one YAML file for each CRD into this folder, and remove the files of CRDs that no longer exist
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) out_dir: Option<PathBuf>,

    /// Write a Markdown page about the fields of each CRD into this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "out_dir"])]
    pub(crate) reference_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Provider {
    Core,
    Bootstrap,
    ControlPlane,
    Infrastructure,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// A stream of YAML documents
    Yaml,
    /// One JSON List
    Json,
    /// One JSON object on each line
    JsonLines,
    /// Names, one per line
    Name,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
