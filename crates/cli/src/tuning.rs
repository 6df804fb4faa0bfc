//! Flags of controllers: concurrency, sync period, log verbosity, request limits, and what is copied to Nodes. Names
//! are those of Cluster API's managers, if they have the same flag. Invalid values are rejected with the flag and a
//! remedy.

use capstan_controller::{Metrics, Settings};
use capstan_core::{KeyPattern, NodeSync};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::log::{self, LogLevel, MOST_VERBOSE};

/// Options of all controllers of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tuning {
    pub(crate) metrics: Metrics,
    pub(crate) settings: Settings,
    pub(crate) node_sync: NodeSync,
}

const CONCURRENCY: &str = "Concurrency (objects that a controller reconciles at the same time; 50 if unset)";

/// The log of this process, and its traces.
pub(crate) struct Log {
    pub(crate) level: LogLevel,
    #[cfg(feature = "traces")]
    traces: Option<crate::traces::Traces>,
}

impl Log {
    /// Exports the traces that are left.
    pub(crate) async fn finish(self) {
        #[cfg(feature = "traces")]
        if let Some(traces) = self.traces {
            traces.finish().await;
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct TuningArgs {
    /// Log verbosity, 0 (warnings) to 10; overrides RUST_LOG
    #[arg(short, long = "v", value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=i64::from(MOST_VERBOSE)))]
    verbosity: Option<u8>,

    /// URL of an OpenTelemetry collector that receives traces of reconciles, such as https://collector:4318
    #[cfg(feature = "traces")]
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    traces_endpoint: Option<crate::traces::Endpoint>,

    /// Time after which every object is reconciled even if nothing changed, such as 10m or 1h30m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = sync_period)]
    sync_period: Duration,

    /// Regular expressions for keys of further Machine labels to copy to its Node, separated by commas
    #[arg(long, value_name = "REGEX", value_delimiter = ',')]
    additional_sync_machine_labels: Vec<KeyPattern>,

    /// Regular expressions for keys of further Machine annotations to copy to its Node, separated by commas
    #[arg(long, value_name = "REGEX", value_delimiter = ',')]
    additional_sync_machine_annotations: Vec<KeyPattern>,

    /// Clusters
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    cluster_concurrency: Option<usize>,

    /// Machines
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    machine_concurrency: Option<usize>,

    /// MachineSets
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    machineset_concurrency: Option<usize>,

    /// MachineDeployments
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    machinedeployment_concurrency: Option<usize>,

    /// MachineHealthChecks
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    machinehealthcheck_concurrency: Option<usize>,

    /// MachinePools
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    machinepool_concurrency: Option<usize>,

    /// ClusterClasses
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    clusterclass_concurrency: Option<usize>,

    /// Topologies of Clusters
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    clustertopology_concurrency: Option<usize>,

    /// ClusterResourceSets
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    clusterresourceset_concurrency: Option<usize>,

    /// ClusterResourceSetBindings
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    clusterresourcesetbinding_concurrency: Option<usize>,

    /// ExtensionConfigs
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    extensionconfig_concurrency: Option<usize>,

    /// CapstanConfigs
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    capstanconfig_concurrency: Option<usize>,

    /// CapstanControlPlanes
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    capstancontrolplane_concurrency: Option<usize>,

    /// Hosts
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    host_concurrency: Option<usize>,

    /// HostPools
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    hostpool_concurrency: Option<usize>,

    /// HostClusters
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    hostcluster_concurrency: Option<usize>,

    /// HostMachines
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    hostmachine_concurrency: Option<usize>,

    /// HostRegistrations
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    hostregistration_concurrency: Option<usize>,

    /// HostMachineTemplates
    #[arg(long, value_name = "NUMBER", value_parser = concurrency, help_heading = CONCURRENCY)]
    hostmachinetemplate_concurrency: Option<usize>,
}

impl TuningArgs {
    /// Starts the log, and the export of traces if there is a collector.
    pub(crate) fn start_log(&self) -> anyhow::Result<Log> {
        #[cfg(feature = "traces")]
        let traces = self.traces_endpoint.as_ref().map(crate::traces::Traces::start).transpose()?;
        #[cfg(feature = "traces")]
        let layer = traces.as_ref().map(crate::traces::Traces::layer);
        #[cfg(not(feature = "traces"))]
        let layer = None;
        let level = log::to_stderr(self.verbosity, layer);
        Ok(Log {
            level,
            #[cfg(feature = "traces")]
            traces,
        })
    }

    /// The options, with these metrics.
    pub(crate) fn tuning(&self, metrics: Metrics) -> Tuning {
        let named = [
            ("cluster", self.cluster_concurrency),
            ("machine", self.machine_concurrency),
            ("machineset", self.machineset_concurrency),
            ("machinedeployment", self.machinedeployment_concurrency),
            ("machinehealthcheck", self.machinehealthcheck_concurrency),
            ("machinepool", self.machinepool_concurrency),
            ("clusterclass", self.clusterclass_concurrency),
            ("clustertopology", self.clustertopology_concurrency),
            ("topology-machinedeployment", self.machinedeployment_concurrency),
            ("topology-machineset", self.machineset_concurrency),
            ("clusterresourceset", self.clusterresourceset_concurrency),
            ("clusterresourcesetbinding", self.clusterresourcesetbinding_concurrency),
            ("extensionconfig", self.extensionconfig_concurrency),
            ("capstanconfig", self.capstanconfig_concurrency),
            ("capstancontrolplane", self.capstancontrolplane_concurrency),
            ("host", self.host_concurrency),
            ("hostpool", self.hostpool_concurrency),
            ("hostcluster", self.hostcluster_concurrency),
            ("hostmachine", self.hostmachine_concurrency),
            ("hostregistration", self.hostregistration_concurrency),
            ("hostmachinetemplate", self.hostmachinetemplate_concurrency),
        ];
        let said = named.into_iter().filter_map(|(name, number)| Some((name.to_owned(), number?)));
        let concurrency: BTreeMap<String, usize> = said.collect();
        Tuning {
            metrics,
            settings: Settings { concurrency, sync_period: Some(self.sync_period) },
            node_sync: NodeSync {
                labels: self.additional_sync_machine_labels.clone(),
                annotations: self.additional_sync_machine_annotations.clone(),
            },
        }
    }
}

/// Limits of requests to the management plane.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// Maximum number of requests per second from controllers to the management plane
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = rate)]
    pub(crate) kube_api_qps: f64,

    /// Maximum burst of requests from controllers
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = burst)]
    pub(crate) kube_api_burst: u32,
}

fn concurrency(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(number @ 1..=10_000) => Ok(number),
        _ => Err("say a number from 1 to 10000"),
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("say a number greater than 0, such as 100 or 0.5"),
    }
}

fn burst(text: &str) -> Result<u32, &'static str> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("say a number from 1"),
    }
}

fn sync_period(text: &str) -> Result<Duration, &'static str> {
    match duration(text) {
        Some(period) if period >= Duration::from_secs(1) => Ok(period),
        Some(_) => Err("say 1s or more: objects would be reconciled all the time"),
        None => Err("say a number with h, m, s or ms behind it, such as 10m or 1h30m"),
    }
}

/// Reads a duration as Go writes it.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        let part = number
            .parse::<f64>()
            .ok()
            .and_then(|number| Duration::try_from_secs_f64(number * seconds).ok())?;
        sum = sum.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        tuning: TuningArgs,
        #[command(flatten)]
        requests: RequestArgs,
    }

    #[test]
    fn durations_are_written_as_go_does() {
        for (text, seconds) in [("10m", 600.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("1m500ms", 60.5)] {
            assert_eq!(duration(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for wrong in ["", "10", "m", "10x", "-1m", "1..2s", "10m5"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_flag_and_the_remedy() {
        for (args, remedy) in [
            (["--machine-concurrency", "0"], "from 1 to 10000"),
            (["--host-concurrency", "many"], "from 1 to 10000"),
            (["--sync-period", "0s"], "1s or more"),
            (["--sync-period", "600"], "such as 10m"),
            (["--kube-api-qps", "0"], "greater than 0"),
            (["--kube-api-qps", "NaN"], "greater than 0"),
            (["--kube-api-burst", "0"], "from 1"),
            (["--additional-sync-machine-labels", "("], "regular expression"),
            (["--v", "11"], "0..=10"),
        ] {
            let error = Command::try_parse_from(["capstan"].into_iter().chain(args)).unwrap_err().to_string();
            assert!(error.contains(args[0]) && error.contains(remedy), "{args:?}: {error}");
        }
    }

    #[test]
    fn flags_reach_the_controllers() {
        let args = [
            "capstan",
            "--machine-concurrency=7",
            "--sync-period=5m",
            "-v",
            "4",
            "--additional-sync-machine-labels=^team/,zone",
        ];
        let command = Command::try_parse_from(args).unwrap();
        let tuning = command.tuning.tuning(Metrics::default());
        let limits = tuning.settings.limits("machine", capstan_controller::queue::Limits::default());
        assert_eq!((limits.at_once, limits.resync), (7, Duration::from_secs(300)));
        assert_eq!(tuning.node_sync.labels.len(), 2);
        assert_eq!(command.tuning.verbosity, Some(4));
        assert_eq!((command.requests.kube_api_qps, command.requests.kube_api_burst), (100.0, 200));
    }
}
