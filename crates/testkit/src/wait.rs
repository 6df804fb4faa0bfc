//! Waits for a condition, with a deadline. A timeout reports what was seen last.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Calls `look` until it succeeds, for at most `deadline`. An error of `look` means "not yet" and describes what was
/// seen instead; the last one becomes the error of the wait.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> anyhow::Result<()> {
/// let mut replicas = 0;
/// let enough = capstan_testkit::eventually(Duration::from_secs(5), "three replicas", async || {
///     replicas += 1;
///     anyhow::ensure!(replicas == 3, "{replicas} replicas");
///     Ok(replicas)
/// });
/// assert_eq!(enough.await?, 3);
/// # Ok(())
/// # }
/// ```
pub async fn eventually<T>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut last_seen = anyhow!("nothing: the first look did not end");
    loop {
        let left = deadline.saturating_sub(started.elapsed());
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(not_yet)) => last_seen = not_yet,
            // The look itself hangs: what it saw before says more.
            Err(_) => {}
        }
        if started.elapsed() + pause >= deadline {
            return Err(last_seen.context(format!(
                "waited {:.1} s in vain for {what}; last seen",
                started.elapsed().as_secs_f64()
            )));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[tokio::test]
    async fn the_error_says_what_was_last_seen() {
        let mut looks = 0;
        let error = eventually(Duration::from_millis(120), "a miracle", async || -> Result<()> {
            looks += 1;
            bail!("look {looks}")
        })
        .await
        .expect_err("no miracle");
        let text = format!("{error:#}");
        assert!(text.contains("in vain for a miracle; last seen: look "), "{text}");
        assert!(looks > 1);
    }

    #[tokio::test]
    async fn a_look_that_hangs_ends_with_the_deadline() {
        let hanging = eventually(Duration::from_millis(50), "an answer", async || {
            std::future::pending::<()>().await;
            Ok(())
        });
        assert!(hanging.await.is_err());
    }
}
