//! A network of its own for a management plane. This computer is the router between it and the machines, and masquerades: a
//! machine reaches the plane, and nothing in the plane's network reaches a machine.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// Of this network and of all others that tests make: 10.67.0.0/16, in blocks of four addresses.
const BLOCKS: u32 = 1 << 14;

/// Removed when dropped.
pub(super) struct FarNetwork {
    /// Of the namespace, and of the table with the rules of the router.
    name: String,
    link: String,
    router: Ipv4Addr,
    address: Ipv4Addr,
    /// Whether this computer was a router before.
    forwarded: String,
}

impl FarNetwork {
    /// Makes the network, and a way to it from the machines on `bridge`.
    pub(super) fn make(bridge: &str) -> Result<Self> {
        let id = std::process::id();
        let block = (10 << 24 | 67 << 16) + id % BLOCKS * 4;
        let forwarded = fs::read_to_string(FORWARDING).context("cannot see whether packets are forwarded")?;
        let far = Self {
            name: format!("capstan_far_{id}"),
            link: format!("cf{id}"),
            router: Ipv4Addr::from(block + 1),
            address: Ipv4Addr::from(block + 2),
            forwarded,
        };
        let (name, link) = (far.name.as_str(), far.link.as_str());
        let peer = format!("{link}p");
        let inside = |words: &[&str]| run("ip", &[&["-netns", name], words].concat());
        run("ip", &["netns", "add", name])?;
        run("ip", &["link", "add", link, "type", "veth", "peer", "name", &peer, "netns", name])?;
        run("ip", &["address", "add", &format!("{}/30", far.router), "dev", link])?;
        run("ip", &["link", "set", link, "up"])?;
        inside(&["address", "add", &format!("{}/30", far.address), "dev", &peer])?;
        inside(&["link", "set", &peer, "up"])?;
        inside(&["link", "set", "lo", "up"])?;
        // A router forwards what machines begin, and answers to it.
        let rules = format!(
            "table ip {name} {{
               chain leaving {{ type nat hook postrouting priority srcnat; oifname \"{link}\" masquerade; }}
               chain passing {{ type filter hook forward priority filter;
                 iifname \"{link}\" ct state != {{ established, related }} drop;
                 iifname \"{bridge}\" oifname \"{link}\" accept; }}
             }}"
        );
        run("nft", &[&rules])?;
        fs::write(FORWARDING, "1").context("cannot forward packets")?;
        Ok(far)
    }

    /// The name of its namespace.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The address of the plane.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The address of this computer in it.
    pub(super) fn router(&self) -> Ipv4Addr {
        self.router
    }

    /// Whether a connection to `to` can be made from it.
    pub(super) fn reaches(&self, to: SocketAddr) -> Result<bool> {
        let connect = format!("exec 3<>/dev/tcp/{}/{}", to.ip(), to.port());
        let words = ["netns", "exec", &self.name, "timeout", "3", "bash", "-c", &connect];
        let status = Command::new("ip").args(words).output().context("cannot run ip")?.status;
        Ok(status.success())
    }
}

impl Drop for FarNetwork {
    fn drop(&mut self) {
        // What was not made cannot be removed.
        let _ = run("nft", &["delete", "table", "ip", &self.name]);
        let _ = run("ip", &["link", "delete", &self.link]);
        let _ = run("ip", &["netns", "delete", &self.name]);
        let _ = fs::write(FORWARDING, &self.forwarded);
    }
}

fn run(program: &str, args: &[&str]) -> Result<()> {
    let output = Command::new(program).args(args).output().with_context(|| {
        format!("cannot run {program}; `sh tools/packages.sh nat` installs what a router needs")
    })?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {} failed: {errors}", args.join(" "));
    Ok(())
}
