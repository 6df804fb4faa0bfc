//! Runs the programs `capstan` and `capstan-agent`, as users and machines do.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use capstan_tools::{Program, locate};
use serde_json::Value;

/// Runs `capstan` and returns its output. Cargo builds it first, so that it is up to date.
pub fn capstan(args: &[&str]) -> Result<String> {
    let output = Command::new(build()?).args(args).output().context("cannot run capstan")?;
    let stderr = complaints(&String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success() && stderr.is_empty(), "capstan failed ({}): {stderr}", output.status);
    String::from_utf8(output.stdout).context("capstan printed something that is not text")
}

/// Runs `capstan` with an input, and returns its exit code, standard output and standard error.
pub fn capstan_output(args: &[&str], input: &str) -> Result<(i32, String, String)> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let path = match BUILT.get() {
        Some(path) => path,
        None => {
            let path = build()?;
            BUILT.get_or_init(|| path)
        }
    };
    let output = fed(Command::new(path).args(args), input)?;
    let text =
        |bytes: Vec<u8>| String::from_utf8(bytes).context("capstan printed something that is not text");
    Ok((output.status.code().unwrap_or(-1), text(output.stdout)?, complaints(&text(output.stderr)?)))
}

/// What was said on standard error, without what is said of every wait that takes longer than two seconds: on a loaded
/// machine that may be any.
fn complaints(stderr: &str) -> String {
    stderr.split_inclusive('\n').filter(|line| !line.starts_with("waiting: ")).collect()
}

/// Runs the real kubectl with an input, and returns its output.
pub fn kubectl(kubeconfig: &Path, args: &[&str], input: &str) -> Result<String> {
    let program = locate(Program::Kubectl)?;
    let output = fed(Command::new(program).args(args).env("KUBECONFIG", kubeconfig), input)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {} failed: {errors}", args.join(" "));
    String::from_utf8(output.stdout).context("kubectl printed something that is not text")
}

/// Runs the real clusterctl with these variables and an input, and returns its output. It has its own home folder and
/// no internet access.
pub fn clusterctl(args: &[&str], variables: &[(&str, &str)], input: &str) -> Result<String> {
    let home = tempfile::tempdir()?;
    let mut command = Command::new(locate(Program::Clusterctl)?);
    command
        .args(args)
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path())
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .env("GOPROXY", "off")
        .env("HTTPS_PROXY", "http://127.0.0.1:1")
        .env("NO_PROXY", "127.0.0.1,10.0.0.0/8")
        .envs(variables.iter().copied());
    let output = fed(&mut command, input)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "clusterctl {} failed: {errors}", args.join(" "));
    String::from_utf8(output.stdout).context("clusterctl printed something that is not text")
}

/// Runs a program on an input.
fn fed(command: &mut Command, input: &str) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    stdin.write_all(input.as_bytes()).with_context(|| format!("{name} does not read"))?;
    drop(stdin);
    child.wait_with_output().with_context(|| format!("cannot wait for {name}"))
}

/// Builds `capstan-agent` once, and returns its path. It is not the release build, but has the same code.
/// `CAPSTAN_AGENT_BINARY` overrides it, for example with the result of `make agent`.
pub fn agent_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CAPSTAN_AGENT_BINARY") {
        return Ok(path.into());
    }
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = BUILT.get() {
        return Ok(path.clone());
    }
    let path = build_program("capstan-agent")?;
    Ok(BUILT.get_or_init(|| path).clone())
}

/// Builds `capstan` once, and gives its path. `CAPSTAN_BINARY` names another one, such as one that is optimised.
pub fn build() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CAPSTAN_BINARY") {
        return Ok(path.into());
    }
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = BUILT.get() {
        return Ok(path.clone());
    }
    let path = build_program("capstan")?;
    Ok(BUILT.get_or_init(|| path).clone())
}

/// Builds a program, and gives its path in the words of cargo, who knows where everything goes.
fn build_program(name: &str) -> Result<PathBuf> {
    let bin = format!("--bin={name}");
    let output = Command::new(env!("CARGO"))
        // Of the workspace, and together with a test: then third-party crates have the same features as for tests (tokio has
        // `test-util`), and nothing is compiled twice.
        .args([
            "build",
            "--quiet",
            "--locked",
            "--workspace",
            &bin,
            "--test=real_plane",
            "--message-format=json",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "cannot build {name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name && message["target"]["kind"][0] == "bin")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo did not say where it put {name}"))
}
