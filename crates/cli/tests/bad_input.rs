//! Invalid input causes a one-line error on standard error that names the problem and the remedy; never a backtrace.

#![cfg(test)]

use std::io::{BufRead as _, Write as _};
use std::process::{Command, Stdio};

/// Runs `capstan` where there is no management plane, and gives its exit code and what it complains of.
fn output_of(args: &[&str], input: &str) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(args)
        .env_clear()
        .env("RUST_BACKTRACE", "1")
        .env("KUBECONFIG", "/nowhere/kubeconfig")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who refuses an argument does not read.
    _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn every_mistake_is_one_line_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let release = folder.path().join("repository/infrastructure-capstan/v0.1.0");
    std::fs::create_dir_all(&release).unwrap();
    let known = folder.path().join("known/infrastructure-capstan/v0.7.0");
    std::fs::create_dir_all(&known).unwrap();
    std::fs::write(
        known.join("metadata.yaml"),
        "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nreleaseSeries:\n- {major: 0, minor: 1, contract: v1beta2}\n",
    )
    .unwrap();
    std::fs::write(folder.path().join("not.yaml"), "kind: Cluster\nspec: [\n").unwrap();
    std::fs::write(folder.path().join("kubeconfig"), "just words").unwrap();
    let (repository, series, not_yaml, kubeconfig) =
        (path("repository"), path("known"), path("not.yaml"), path("kubeconfig"));

    let cluster = ["generate", "cluster", "demo"];
    let cases: [(Vec<&str>, &str, &[&str]); 16] = [
        (
            [&cluster[..], &["--flavor", "huge"]].concat(),
            "",
            &["no flavor \"huge\"", "ha, simulated, single-node"],
        ),
        (cluster.to_vec(), "", &["[KUBERNETES_VERSION]", "environment", "--kubernetes-version"]),
        (
            [&cluster[..], &["--kubernetes-version", "1.2"]].concat(),
            "",
            &["--kubernetes-version: \"1.2\" is not a Kubernetes version", "v1.36.0", "KUBERNETES_VERSION"],
        ),
        ([&cluster[..], &["--from", "-"]].concat(), "${B} ${A}", &["[A, B]"]),
        ([&cluster[..], &["--from", &not_yaml]].concat(), "", &["not.yaml gives no manifests", "line"]),
        (
            [&cluster[..], &["--from", "-"]].concat(),
            "kind: ${A",
            &["standard input", "line 1", "closing brace"],
        ),
        (
            [&cluster[..], &["--from", "https://example.com/t"]].concat(),
            "",
            &["not fetched over the network", "curl"],
        ),
        ([&cluster[..], &["--from-config-map", "t"]].concat(), "", &["no management plane", "--kubeconfig"]),
        (
            vec!["init", "-i", "capstan", "--repository", &repository],
            "",
            &["has no metadata.yaml", "capstan release"],
        ),
        (vec!["init", "-i", "capstan", "--repository", &series], "", &["does not know 0.7", "it knows 0.1"]),
        (vec!["init", "-i", "docker"], "", &["it is not built in", "--repository"]),
        (vec!["move", "--to-kubeconfig", &kubeconfig, "--kubeconfig", &kubeconfig], "", &["kubeconfig"]),
        (vec!["move", "--from-directory", "/nowhere"], "", &["no management plane", "--kubeconfig"]),
        (
            vec!["rollout", "restart", "cluster/demo"],
            "",
            &["\"cluster\" does not roll out", "machinedeployment/NAME"],
        ),
        (vec!["describe", "cluster", "demo"], "", &["no management plane", "--kubeconfig"]),
        (vec!["get", "kubeconfig", "demo", "--kubeconfig", "/nowhere"], "", &["cannot read /nowhere"]),
    ];
    for (args, input, parts) in cases {
        let (code, complaint) = output_of(&args, input);
        assert_eq!(code, 1, "{args:?}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{args:?}: {complaint}");
        assert!(complaint.starts_with("capstan: "), "{complaint}");
        for part in parts {
            assert!(complaint.contains(part), "{args:?}: {part:?} is not in {complaint}");
        }
    }
}

#[test]
fn arguments_that_contradict_each_other_are_refused_as_usage() {
    for args in [
        &["move"][..],
        &["move", "--to-directory", "a", "--to-kubeconfig", "b"],
        &["move", "--from-directory", "a", "--kubeconfig", "b"],
        &["generate", "cluster"],
        &["generate", "cluster", "a", "--flavor", "ha", "--from", "-"],
        &["describe", "cluster", "a", "--show-conditions", "Machine, Cluster"],
        &["completion", "dos"],
    ] {
        let (code, complaint) = output_of(args, "");
        assert_eq!(code, 2, "{args:?}: {complaint}");
        assert!(complaint.starts_with("error: "), "{complaint}");
    }
}

/// A kubeconfig for that server.
fn config(server: &str) -> String {
    format!(
        "clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n"
    )
}

#[test]
fn whoever_waits_for_a_plane_that_says_nothing_can_stop() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, config(&format!("http://{}", silent.local_addr().unwrap()))).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(["host", "check", "--all", "--kubeconfig"])
        .arg(&kubeconfig)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It asks, and nobody answers.
    let _asked = silent.accept().unwrap();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "capstan: interrupted before there was anything to show\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_long_wait_is_shown_in_plain_lines() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, config(&format!("http://{}", silent.local_addr().unwrap()))).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(["get", "clusters", "--kubeconfig"])
        .arg(&kubeconfig)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        line.starts_with("waiting: asking the management plane (") && line.ends_with(" s)\n"),
        "{line:?}"
    );
}
