//! The persistent record of a machine, in its folder.

use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const FILE: &str = "machine.json";

/// What is written down about a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    /// The public key it shows, as OpenSSH writes it.
    pub(crate) host_key: String,
}

impl Record {
    /// What is written in a machine's folder; nothing if there is no machine.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| Error::io("read", &path)(error.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    /// Writes it into a machine's folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let bytes =
            serde_json::to_vec_pretty(self).map_err(|error| Error::io("write", &path)(error.into()))?;
        fs::write(&path, bytes).map_err(Error::io("write", &path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Record::read(folder.path()).expect("none"), None);
        let record = Record {
            name: "m".to_owned(),
            address: Ipv4Addr::new(10, 66, 1, 10),
            host_key: "ssh-ed25519 AAAA".to_owned(),
        };
        record.write(folder.path()).expect("written");
        assert_eq!(Record::read(folder.path()).expect("read"), Some(record));
        fs::write(folder.path().join(FILE), "{").expect("written");
        assert!(Record::read(folder.path()).is_err());
    }
}
