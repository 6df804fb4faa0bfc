//! A server for probes that counts its requests: each is a pass of the program over its plan.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use capstan_testkit::eventually;
use serde_json::{Value, json};

use crate::stage::DEADLINE;

pub(crate) struct Heart {
    url: String,
    beats: Arc<AtomicUsize>,
    is_well: Arc<AtomicBool>,
}

impl Heart {
    /// Listens until the test process ends.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/healthz", listener.local_addr().unwrap());
        let (beats, is_well) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
        let (counted, well) = (Arc::clone(&beats), Arc::clone(&is_well));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                // A client that sends nothing does not keep the next one waiting.
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let _ = stream.read(&mut [0; 4096]);
                let status = if well.load(Ordering::SeqCst) { "200 OK" } else { "500 Internal Server Error" };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { url, beats, is_well }
    }

    pub(crate) fn set_well(&self, is_well: bool) {
        self.is_well.store(is_well, Ordering::SeqCst);
    }

    /// The probes of a plan whose passes are counted.
    pub(crate) fn probes(&self) -> Value {
        json!({"heart": self.probe()})
    }

    pub(crate) fn probe(&self) -> Value {
        json!({"timeoutSeconds": 30, "httpGet": {"url": self.url}})
    }

    /// Waits for two more passes. The first may have begun before; the second has seen what was written before this call.
    pub(crate) async fn beats(&self) {
        let before = self.beats.load(Ordering::SeqCst);
        let beats = eventually(DEADLINE, "two passes", async || {
            let beats = self.beats.load(Ordering::SeqCst);
            ensure!(beats >= before + 2, "{beats} after {before}");
            Ok(())
        });
        beats.await.unwrap();
    }
}
