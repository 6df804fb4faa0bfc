//! The release series, and the contract version of each: `metadata.yaml`.

use capstan_api::clusterctl::{Metadata, MetadataSpec, ReleaseSeries};

use crate::Version;

/// Every series there has ever been. A line is added with the first release of a series and stays for good: who
/// upgrades from it looks it up here.
pub(crate) const SERIES: &[(u32, u32, &str)] = &[(0, 1, "v1beta2")];

/// The contract version of a release, if its series is known.
pub fn serves(version: Version) -> Option<&'static str> {
    let own = |(major, minor, _): &&(u32, u32, &str)| (*major, *minor) == (version.major, version.minor);
    SERIES.iter().find(own).map(|(_, _, contract)| *contract)
}

/// The `metadata.yaml` of all providers. They are released together.
pub fn metadata() -> Metadata {
    let series = |(major, minor, contract): &(u32, u32, &str)| ReleaseSeries {
        major: i32::try_from(*major).ok(),
        minor: i32::try_from(*minor).ok(),
        contract: Some((*contract).to_owned()),
    };
    Metadata {
        metadata: Default::default(),
        spec: MetadataSpec { release_series: SERIES.iter().map(series).collect() },
    }
}
