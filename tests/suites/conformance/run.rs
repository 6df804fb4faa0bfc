//! Runs specs of `e2e.test` and reads its reports. What outcomes mean is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use capstan_tools::{Program, locate};
use serde_json::Value;

/// The specs that the table lists.
const SIGS: &str = r"\[sig-(api-machinery|auth|cli)\]";
/// For one spec that is expected to fail: most fail at once, some wait for minutes.
const ONE: Duration = Duration::from_secs(60);
/// For all specs that pass.
const TOGETHER: Duration = Duration::from_secs(45 * 60);
/// After its deadline, a spec may clean up.
const GRACE: Duration = Duration::from_secs(10);

/// The specs with the reason of those that failed. Specs that were skipped are left out.
pub(crate) type Outcomes = BTreeMap<String, Option<String>>;

/// Runs specs on one plane.
pub(crate) struct Runner {
    flags: Vec<String>,
    folder: PathBuf,
}

impl Runner {
    pub(crate) fn new(kubeconfig: &Path, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let kubectl = locate(Program::Kubectl)?;
        let flags = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--kubectl-path={}", kubectl.display()),
            "--provider=skeleton".to_owned(),
            "--num-nodes=0".to_owned(),
            "--allowed-not-ready-nodes=-1".to_owned(),
            "--minStartupPods=0".to_owned(),
            "--e2e-verify-service-account=false".to_owned(),
            "--delete-namespace=false".to_owned(),
        ];
        Ok(Self { flags: flags.to_vec(), folder: folder.to_owned() })
    }

    /// Runs these specs in one process, one after the other.
    pub(crate) async fn together(&self, names: &[&str]) -> Result<Outcomes> {
        let mut flags = self.flags.clone();
        flags.push(focus(names));
        outcomes(&report(&self.folder, flags, TOGETHER).await?)
    }

    /// Runs one spec, with a deadline. Returns the reason if it does not pass.
    pub(crate) async fn alone(&self, name: &str) -> Result<Option<String>> {
        let mut flags = self.flags.clone();
        flags.push(focus(&[name]));
        let outcomes = outcomes(&report(&self.folder, flags, ONE).await?)?;
        Ok(outcomes.get(name).cloned().unwrap_or_else(|| Some("skipped".to_owned())))
    }
}

/// The names of all specs there are.
pub(crate) async fn all_names(folder: &Path) -> Result<BTreeSet<String>> {
    let flags = vec!["--ginkgo.dry-run".to_owned(), format!("--ginkgo.focus={SIGS}")];
    Ok(outcomes(&report(folder, flags, TOGETHER).await?)?.into_keys().collect())
}

/// The flag for exactly these specs. Ginkgo matches the name of the suite, a space and the name of the spec.
fn focus(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
    format!("--ginkgo.focus= ({})$", names.join("|"))
}

async fn report(folder: &Path, flags: Vec<String>, limit: Duration) -> Result<Value> {
    let (report, log) = (folder.join("report.json"), folder.join("log"));
    // A report of an earlier run must not be taken for that of this one.
    _ = fs::remove_file(&report);
    let output = File::create(&log)?;
    let mut child = tokio::process::Command::new(locate(Program::E2eTests)?)
        .args(flags)
        .args(["--ginkgo.no-color".to_owned(), format!("--ginkgo.json-report={}", report.display())])
        .arg(format!("--ginkgo.timeout={}s", limit.as_secs()))
        .arg(format!("--ginkgo.grace-period={}s", GRACE.as_secs()))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()?;
    let ended = tokio::time::timeout(limit + 3 * GRACE, child.wait()).await;
    if ended.is_err() {
        child.kill().await?;
    }
    let bytes = fs::read(&report).with_context(|| {
        let log = fs::read_to_string(&log).unwrap_or_default();
        let end = log.lines().rev().take(40).collect::<Vec<_>>();
        format!("no report ({ended:?}): {}", end.into_iter().rev().collect::<Vec<_>>().join("\n"))
    })?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn outcomes(report: &Value) -> Result<Outcomes> {
    let specs =
        report.pointer("/0/SpecReports").and_then(Value::as_array).context("no specs in the report")?;
    let ran = specs.iter().filter(|spec| spec["LeafNodeType"] == "It" && spec["State"] != "skipped");
    Ok(ran.map(outcome).collect())
}

fn outcome(spec: &Value) -> (String, Option<String>) {
    let containers = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let words: Vec<&str> = containers.chain([&spec["LeafNodeText"]]).filter_map(Value::as_str).collect();
    let failure = (spec["State"] != "passed").then(|| {
        let message = spec["Failure"]["Message"].as_str().unwrap_or_default();
        format!("{}: {}", spec["State"], message.chars().take(500).collect::<String>())
    });
    (words.join(" "), failure)
}
