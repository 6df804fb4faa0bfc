//! Counters of the kernel for a process.

use std::time::Duration;

/// Resident memory, in bytes.
pub fn memory(id: u32) -> u64 {
    field(&read(id, "status"), "VmRSS:") * 1024
}

/// Peak resident memory, in bytes.
pub fn peak_memory(id: u32) -> u64 {
    field(&read(id, "status"), "VmHWM:") * 1024
}

/// Bytes written to disks.
pub fn written(id: u32) -> u64 {
    field(&read(id, "io"), "write_bytes:")
}

/// Processor time, in user mode and in the kernel.
pub fn processor(id: u32) -> Duration {
    let text = read(id, "stat");
    // After the name, which may hold anything: the 14th and 15th of all, in hundredths of a second.
    let ticks = text.rsplit_once(')').and_then(|(_, rest)| {
        rest.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().ok()).sum::<Option<u64>>()
    });
    Duration::from_millis(ticks.unwrap_or_else(|| panic!("process {id} has no times")) * 10)
}

fn read(id: u32, file: &str) -> String {
    let path = format!("/proc/{id}/{file}");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

fn field(text: &str, name: &str) -> u64 {
    let value =
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    value.unwrap_or_else(|| panic!("the kernel does not say {name}"))
}
