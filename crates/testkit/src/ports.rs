//! Free loopback ports, and the retry when another program binds one first.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// How often a start is tried with other ports.
const ATTEMPTS: usize = 5;

/// Distinct ports that no program listened on a moment ago.
///
/// # Errors
/// If there are no free ports.
pub fn free<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // All are held until all are chosen, so that they differ.
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free loopback port")?;
        *port = listener.local_addr().context("a listener without an address")?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Whether something listens on `port`.
pub(crate) fn taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_err()
}

/// Runs `start` again, which chooses new ports, as long as it fails because somebody took one of them.
pub(crate) async fn retrying<T>(mut start: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match start().await {
            Err(error) if attempt < ATTEMPTS && is_port_clash(&error) => attempt += 1,
            result => return result,
        }
    }
}

fn is_port_clash(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("address already in use")
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn ports_differ_and_can_be_bound() {
        let mut ports = free::<8>().expect("ports");
        ports.sort_unstable();
        assert!(ports.windows(2).all(|pair| pair[0] != pair[1]), "{ports:?}");
        assert!(!taken(ports[0]));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, ports[0])).expect("free");
        assert!(taken(ports[0]));
        drop(listener);
    }

    #[tokio::test]
    async fn only_a_stolen_port_is_worth_another_try() {
        let mut tries = 0;
        let clash = retrying(async || {
            tries += 1;
            if tries < 3 {
                Err(anyhow!("listen tcp 127.0.0.1:1: bind: address already in use"))
            } else {
                Ok(tries)
            }
        });
        assert_eq!(clash.await.expect("third time"), 3);

        let mut tries = 0;
        let other = retrying(async || -> Result<()> {
            tries += 1;
            Err(anyhow!("bad flag"))
        });
        assert!(other.await.is_err());
        assert_eq!(tries, 1);
    }
}
