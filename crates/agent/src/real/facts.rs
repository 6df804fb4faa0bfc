//! Facts about a Linux machine. Facts that cannot be read are left out: none is worth a failure.

use capstan_plan::Facts;
use std::fs::read_to_string;

pub(super) fn read() -> Facts {
    Facts {
        hostname: line("/proc/sys/kernel/hostname"),
        machine_id: line("/etc/machine-id"),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        os_image: read_to_string("/etc/os-release").ok().and_then(|text| pretty_name(&text)),
        kernel_version: line("/proc/sys/kernel/osrelease"),
        architecture: Some(architecture(std::env::consts::ARCH).to_owned()),
        cpus: std::thread::available_parallelism().ok().and_then(|cpus| u32::try_from(cpus.get()).ok()),
        memory_bytes: read_to_string("/proc/meminfo").ok().and_then(|text| memory(&text)),
    }
}

fn line(path: &str) -> Option<String> {
    let text = read_to_string(path).ok()?;
    text.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

/// The architecture, as Kubernetes and Go name it.
fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

fn memory(meminfo: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_are_read() {
        let os = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nVERSION=13\n";
        assert_eq!(pretty_name(os).as_deref(), Some("Debian GNU/Linux 13 (trixie)"));
        assert_eq!(memory("MemFree: 1 kB\nMemTotal:       16384 kB\n"), Some(16384 * 1024));
        assert_eq!(memory("MemTotal: lots\n"), None);
        assert_eq!(architecture("x86_64"), "amd64");
    }

    #[test]
    fn this_machine_knows_itself() {
        let facts = read();
        assert!(
            facts.boot_id.is_some() && facts.kernel_version.is_some() && facts.cpus > Some(0),
            "{facts:?}"
        );
    }
}
