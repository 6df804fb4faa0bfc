//! Flags of `capstan describe`.

use clap::Subcommand;

use super::tree::{ConditionFilter, Options};
use crate::client::PlaceArgs;
use crate::show::{Format, ShowArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum Describe {
    /// Show a cluster as a tree, with its hosts and the plans that they apply
    Cluster(DescribeArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct DescribeArgs {
    /// Name of the cluster
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Show all conditions of these: kinds or KIND/NAME, separated by commas, or all; with a + at the end only
    /// conditions that are not as desired
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) show_conditions: Vec<ConditionFilter>,

    /// Show MachineSets
    #[arg(long)]
    pub(crate) show_machinesets: bool,

    /// Show the resources that ClusterResourceSets applied to the cluster
    #[arg(long)]
    pub(crate) show_resourcesets: bool,

    /// Show the templates of machines
    #[arg(long)]
    pub(crate) show_templates: bool,

    /// Show a machine's infrastructure and bootstrap objects even if their conditions are those of the machine
    #[arg(long, alias = "disable-no-echo")]
    pub(crate) echo: bool,

    /// Show machines with equal conditions as one line
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        require_equals = true)]
    pub(crate) grouping: bool,

    /// Show each machine on its own line
    #[arg(long, hide = true)]
    pub(crate) disable_grouping: bool,

    /// Use v1beta2 conditions; no effect, because there are no others
    #[arg(long, hide = true, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
        default_missing_value = "true", require_equals = true)]
    pub(crate) v1beta2: bool,

    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

impl DescribeArgs {
    pub(super) fn options(&self) -> Options {
        Options {
            conditions: self.show_conditions.clone(),
            machine_sets: self.show_machinesets,
            resource_sets: self.show_resourcesets,
            templates: self.show_templates,
            echo: self.echo,
            // Programs count for themselves.
            grouping: self.grouping
                && !self.disable_grouping
                && !matches!(self.show.output, Some(Format::Json | Format::Yaml)),
        }
    }
}
