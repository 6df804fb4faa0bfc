//! What the fuzz targets call: the readers of bootstrap data, as functions of its bytes.

use capstan_infrastructure::BootstrapData;

use crate::job::{self, HostView};
use crate::redact::Redactor;

fn data(value: &[u8]) -> BootstrapData {
    BootstrapData { value: value.to_vec(), format: "cloud-config".to_owned() }
}

/// The script that executes bootstrap data on a host, which has this cloud-init if any.
///
/// # Errors
/// Why the data is rejected.
pub fn compile(value: &[u8], cloud_init: Option<&str>) -> Result<String, String> {
    let host = HostView { hostname: "rack-1".to_owned(), cloud_init: cloud_init.map(str::to_owned) };
    let job = job::compile(&data(value), "claim-1", "capstan://default/rack-1/claim-1", &host);
    job.map(|job| job.upload("", "claim-1").text()).map_err(|refused| refused.to_string())
}

/// The output of a machine as users see it, if it executed this data.
pub fn redact(value: &[u8], output: &str) -> String {
    Redactor::of_data(&data(value)).clean(output)
}
