//! `capstan` as a background process that a test can kill.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_testkit::{eventually, spawn_from_lasting_thread, tied_to_this_process};

use crate::program;

/// `capstan up` or `capstan manager`. It is killed when the value is dropped, and when the test process ends.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `capstan` with these arguments; its output is appended to `log`.
    pub fn start(args: &[&str], log: &Path) -> Result<Self> {
        Self::start_command(tied_to_this_process(&program::build()?), args, log)
    }

    /// The same in a network namespace.
    pub fn start_in_network(namespace: &str, args: &[&str], log: &Path) -> Result<Self> {
        // `ip` becomes `capstan`, so that it is the process that is killed.
        let mut command = tied_to_this_process(Path::new("ip"));
        command.args(["netns", "exec", namespace]).arg(program::build()?);
        Self::start_command(command, args, log)
    }

    fn start_command(mut command: Command, args: &[&str], log: &Path) -> Result<Self> {
        let out =
            std::fs::File::options().create(true).append(true).open(log).context("cannot write a log")?;
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(out.try_clone().context("cannot share a log")?)
            .stderr(out);
        let child = spawn_from_lasting_thread(command).context("cannot start capstan")?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with SIGKILL, as the kernel does when memory runs out.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill().context("cannot kill capstan")?;
        self.child.wait().context("cannot wait for capstan")?;
        Ok(())
    }

    /// Sends SIGTERM, as a kubelet does.
    pub fn terminate(&self) -> Result<()> {
        let id = self.child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &id]).status().context("no kill")?;
        ensure!(killed.success(), "cannot tell capstan to stop");
        Ok(())
    }

    /// Waits until it exits, and returns its exit status.
    pub async fn ended(&mut self, deadline: Duration) -> Result<ExitStatus> {
        eventually(deadline, "capstan to end", async || {
            self.child.try_wait().context("cannot wait for capstan")?.context("it still runs")
        })
        .await
    }

    /// Fails with the end of its log if it has exited.
    pub fn ensure_running(&mut self) -> Result<()> {
        let ended = self.child.try_wait().context("cannot wait for capstan")?;
        ensure!(ended.is_none(), "capstan ended ({ended:?}):\n{}", self.tail());
        Ok(())
    }

    /// The end of its log.
    pub fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the end of capstan's log:\n{}", self.tail());
        }
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
