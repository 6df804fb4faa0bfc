//! Executes the script of an instruction, and bounds its time and output.

use capstan_plan::instruction::{HostScript, LONGEST_SECONDS, STDERR_BYTES, STDOUT_BYTES, ScriptOutput};
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Runs the script as the user of this process, with these variables. What cannot be started says so on standard error.
pub(super) async fn run(script: &HostScript, environment: &[(&str, String)]) -> ScriptOutput {
    let failed = |error: std::io::Error| ScriptOutput {
        code: None,
        stdout: Vec::new().into(),
        stderr: format!("cannot run /bin/sh: {error}").into_bytes().into(),
    };
    let child = Command::new("/bin/sh")
        // The first word is where an SSH connection comes from; there is none.
        .args(["-s", "--", ""])
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    match child {
        Ok(child) => carry_out(child, script).await,
        Err(error) => failed(error),
    }
}

async fn carry_out(mut child: Child, script: &HostScript) -> ScriptOutput {
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A script that ends early does not read the rest.
            _ = stdin.write_all(script.script.as_bytes()).await;
        }
    };
    let work = async {
        let (.., ended) = tokio::join!(
            feed,
            keep_first(stdout, STDOUT_BYTES, &mut out),
            keep_last(stderr, STDERR_BYTES, &mut err),
            child.wait()
        );
        ended.ok().and_then(|status| status.code())
    };
    let limit = Duration::from_secs(script.timeout_seconds.min(LONGEST_SECONDS).into());
    let code = timeout(limit, work).await;
    if code.is_err() {
        if let Some(group) = group {
            // It may have ended just now.
            _ = kill_process_group(group, Signal::KILL);
        }
        _ = child.wait().await;
        err.extend_from_slice(format!("\nkilled after {} s", limit.as_secs()).as_bytes());
    }
    ScriptOutput { code: code.ok().flatten(), stdout: out.into(), stderr: err.into() }
}

/// Reads to the end, and keeps the beginning: the answer of a script is nothing without it.
async fn keep_first(source: Option<impl AsyncRead + Unpin>, most: usize, kept: &mut Vec<u8>) {
    read(source, |bytes| {
        let room = most.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    })
    .await;
}

/// Reads to the end, and keeps the end: the last error is the one that counts.
async fn keep_last(source: Option<impl AsyncRead + Unpin>, most: usize, kept: &mut Vec<u8>) {
    read(source, |bytes| {
        kept.extend_from_slice(bytes);
        let surplus = kept.len().saturating_sub(most);
        kept.drain(..surplus);
    })
    .await;
}

async fn read(source: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut source) = source else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count) = source.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        take(&buffer[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn of(script: &str, timeout_seconds: u32) -> (Option<i32>, String, String) {
        let script = HostScript { script: script.into(), timeout_seconds, answer_key: Vec::new().into() };
        let output = run(&script, &[("no_proxy", "localhost".to_owned())]).await;
        let text = |content: &capstan_plan::Content| String::from_utf8_lossy(content.as_bytes()).into_owned();
        (output.code, text(&output.stdout), text(&output.stderr))
    }

    #[tokio::test]
    async fn a_script_answers_with_its_code_and_both_outputs() {
        let (code, out, err) = of("echo \"<$1>\"; echo no >&2; exit 3", 60).await;
        assert_eq!((code, out.as_str(), err.as_str()), (Some(3), "<>\n", "no\n"));
        // Nothing of the agent's own environment reaches it.
        assert_eq!(
            of("echo ${CARGO_MANIFEST_DIR:-none} $HOME $no_proxy", 60).await.1,
            "none /root localhost\n"
        );
    }

    #[tokio::test]
    async fn output_is_bounded_at_the_right_end() {
        let (code, out, err) = of(
            "i=0; while [ $i -lt 40000 ]; do echo 1234567; i=$((i + 1)); done; echo end\n\
             i=0; while [ $i -lt 4000 ]; do echo 1234567 >&2; i=$((i + 1)); done; echo end >&2",
            60,
        )
        .await;
        assert_eq!((code, out.len(), err.len()), (Some(0), STDOUT_BYTES, STDERR_BYTES));
        assert!(out.starts_with("1234567\n") && !out.contains("end") && err.ends_with("\nend\n"));
    }

    #[tokio::test]
    async fn a_script_that_hangs_is_killed_with_its_children() {
        let started = std::time::Instant::now();
        let (code, out, err) = of("echo begun; sleep 600 & sleep 600", 1).await;
        assert_eq!((code, out.as_str(), err.as_str()), (None, "begun\n", "\nkilled after 1 s"));
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
