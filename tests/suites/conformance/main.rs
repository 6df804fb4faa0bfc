//! Kubernetes' own conformance specs of the API, as far as they need no node: what passes on a kube-apiserver passes on the
//! embedded plane.

#![cfg(test)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use capstan_testkit::RealPlane;
use capstan_tests::Embedded;
use capstan_tools::{Program, locate};
use serde_json::Value;

/// The specs, as their names begin.
const SPECS: &str = "sig-api-machinery.*(Watchers|CustomResourceValidationRules|CRDValidationRatcheting|\
    CustomResourceDefinition|CustomResourcePublishOpenAPI|FieldValidation|Discovery|server version|Table|\
    ValidatingAdmissionPolicy|chunking).*Conformance";

/// Those of them that need a node, a long time, or a plane of their own.
const LEFT_OUT: &str = "FieldSelectors|conversion|Slow|Serial";

/// Fewer mean that the names of specs have changed, and not that all is well.
const AT_LEAST: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn specs_that_pass_on_a_real_plane_pass_on_the_embedded_one() {
    let folder = tempfile::Builder::new().prefix("capstan-conformance-").tempdir().unwrap();
    let real = RealPlane::start().await.unwrap();
    let upstream = outcomes(real.kubeconfig(), &folder.path().join("real")).await.unwrap();
    drop(real);
    let passed = upstream.values().filter(|failure| failure.is_none()).count();
    assert!(passed >= AT_LEAST, "{passed} specs pass on a real plane: {upstream:#?}");

    let embedded = Embedded::start().await.unwrap();
    let ours = outcomes(&embedded.kubeconfig(), &folder.path().join("embedded")).await.unwrap();
    let also_passed = upstream.keys().filter(|name| ours.get(*name) == Some(&None)).count();
    println!("{also_passed} of {} specs pass on the embedded plane, {passed} on a real one", upstream.len());
    let worse: Vec<String> = upstream
        .iter()
        .filter(|(name, failure)| failure.is_none() && ours.get(*name) != Some(&None))
        .map(|(name, _)| {
            let failure = ours.get(name).cloned().flatten().unwrap_or_else(|| "did not run".to_owned());
            format!("{name}\n    {failure}")
        })
        .collect();
    assert!(worse.is_empty(), "{} specs pass only on a real plane:\n{}", worse.len(), worse.join("\n"));
}

/// Runs the specs. Returns each that was not skipped, with the reason if it failed.
async fn outcomes(kubeconfig: &Path, folder: &Path) -> Result<BTreeMap<String, Option<String>>> {
    fs::create_dir_all(folder)?;
    let report = folder.join("report.json");
    let (kubectl, program) = (locate(Program::Kubectl)?, locate(Program::E2eTests)?);
    let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
    let log = File::create(folder.join("log"))?;
    let status = tokio::process::Command::new(program)
        .args([
            flag("kubeconfig", kubeconfig),
            flag("kubectl-path", &kubectl),
            flag("ginkgo.json-report", &report),
        ])
        .args(["--provider=skeleton", "--num-nodes=0", "--allowed-not-ready-nodes=-1", "--minStartupPods=0"])
        .args(["--e2e-verify-service-account=false", "--delete-namespace=false", "--ginkgo.no-color"])
        .arg(format!("--ginkgo.focus={SPECS}"))
        .arg(format!("--ginkgo.skip={LEFT_OUT}"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .status()
        .await?;
    let report = fs::read(&report).with_context(|| {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        let end = log.lines().rev().take(40).collect::<Vec<_>>();
        format!("no report ({status}): {}", end.into_iter().rev().collect::<Vec<_>>().join("\n"))
    })?;
    let report: Value = serde_json::from_slice(&report)?;
    let specs =
        report.pointer("/0/SpecReports").and_then(Value::as_array).context("no specs in the report")?;
    let ran = specs.iter().filter(|spec| spec["LeafNodeType"] == "It" && spec["State"] != "skipped");
    let outcomes: BTreeMap<String, Option<String>> = ran.map(outcome).collect();
    ensure!(!outcomes.is_empty(), "no spec ran");
    Ok(outcomes)
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
