//! Bootstrap data, as it is executed on a host over SSH.

/// More than any data of this size has a reason to become.
const LARGEST: usize = 8 << 20;

/// On a host without cloud-init, and on one that has it.
pub(crate) fn cloud_config(input: &[u8]) {
    for cloud_init in [None, Some("/usr/bin/cloud-init")] {
        if let Ok(script) = capstan_ssh::fuzz::compile(input, cloud_init) {
            assert!(script.len() < LARGEST, "a script of {} bytes", script.len());
        }
    }
    let output = String::from_utf8_lossy(input);
    let shown = capstan_ssh::fuzz::redact(input, &output);
    assert!(shown.len() < LARGEST, "redacted output of {} bytes", shown.len());
}
