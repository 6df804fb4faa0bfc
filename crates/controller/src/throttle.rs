//! Client-side rate limit of requests: a token bucket with a rate and a burst, as in client-go.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, Service};

/// A bucket of tokens, one for each request. Pure: the caller says what time it is.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    per_second: f64,
    most: f64,
    /// Below zero, requests wait.
    tokens: f64,
    filled: Duration,
}

impl Bucket {
    fn new(per_second: f64, burst: u32) -> Self {
        Self { per_second, most: f64::from(burst), tokens: f64::from(burst), filled: Duration::ZERO }
    }

    /// Takes a token, and returns the time until it is there. Requests get their tokens in order.
    fn take(&mut self, now: Duration) -> Duration {
        let rest = now.saturating_sub(self.filled);
        self.filled = self.filled.max(now);
        self.tokens = (self.tokens + rest.as_secs_f64() * self.per_second).min(self.most) - 1.0;
        Duration::try_from_secs_f64((-self.tokens).max(0.0) / self.per_second).unwrap_or_default()
    }
}

/// Limits the rate of requests. All clients with the same throttle share the limit.
#[derive(Clone, Debug)]
pub struct Throttle {
    bucket: Arc<Mutex<Bucket>>,
    began: Instant,
}

impl Throttle {
    /// `per_second` requests per second, with bursts of at most `burst`. Both must be greater than 0.
    pub fn new(per_second: f64, burst: u32) -> Self {
        Self { bucket: Arc::new(Mutex::new(Bucket::new(per_second, burst))), began: Instant::now() }
    }

    fn wait(&self) -> Duration {
        // Nothing inside is half changed when a panic happens elsewhere.
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner).take(self.began.elapsed())
    }
}

impl<S> Layer<S> for Throttle {
    type Service = Throttled<S>;

    fn layer(&self, inner: S) -> Throttled<S> {
        Throttled { inner, throttle: self.clone() }
    }
}

/// A client with a rate limit.
#[derive(Clone, Debug)]
pub struct Throttled<S> {
    inner: S,
    throttle: Throttle,
}

impl<S, R> Service<R> for Throttled<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let wait = self.throttle.wait();
        // Nothing is sent before the future is polled.
        let answer = self.inner.call(request);
        Box::pin(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            answer.await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let (mut bucket, second) = (Bucket::new(2.0, 3), Duration::from_secs(1));
        let waits: Vec<Duration> = (0..5).map(|_| bucket.take(second)).collect();
        assert_eq!(waits, [0, 0, 0, 500, 1000].map(Duration::from_millis));
        assert_eq!(
            bucket.take(2 * second),
            Duration::from_millis(500),
            "the tokens of waiting requests are taken"
        );
        for _ in 0..3 {
            assert_eq!(bucket.take(100 * second), Duration::ZERO, "no more than a burst is saved up");
        }
        assert_eq!(bucket.take(100 * second), Duration::from_millis(500));
        assert_eq!(bucket.take(50 * second), Duration::from_secs(1), "a clock that goes back gives nothing");
    }
}
