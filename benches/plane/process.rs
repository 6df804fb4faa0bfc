//! What the kernel counts for a process.

use std::time::Duration;

/// Resident memory, in bytes.
pub(crate) fn memory(id: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    field(&text, "VmRSS:") * 1024
}

/// Bytes sent to a disk.
pub(crate) fn written(id: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/io")).unwrap();
    field(&text, "write_bytes:")
}

/// Time on a processor, in the kernel or not.
pub(crate) fn processor(id: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    // After the name, which may hold anything: the 14th and 15th of all, in hundredths of a second.
    let rest = text.rsplit_once(')').unwrap().1;
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    value.split_whitespace().next().unwrap().parse().unwrap()
}
