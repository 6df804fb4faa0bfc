//! Architectures of machines, with their Kubernetes names.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An architecture. It is written as in Go and Kubernetes; the names of `uname -m` can be parsed, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Arch {
    /// x86-64.
    Amd64,
    /// ARM, 64 bits.
    Arm64,
    /// ARM, 32 bits.
    Arm,
    /// POWER, 64 bits, little endian.
    Ppc64le,
    /// RISC-V, 64 bits.
    Riscv64,
    /// IBM Z.
    S390x,
}

/// Error: the text does not name a supported architecture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no architecture {0:?}; use one of amd64, arm64, arm, ppc64le, riscv64, s390x")]
pub struct ArchError(String);

impl Arch {
    /// All architectures.
    pub const ALL: [Self; 6] =
        [Self::Amd64, Self::Arm64, Self::Arm, Self::Ppc64le, Self::Riscv64, Self::S390x];

    /// The architecture that this program was compiled for, if it is one of these.
    pub fn of_this_program() -> Option<Self> {
        std::env::consts::ARCH.parse().ok()
    }

    /// The architecture that a Linux program was compiled for, from its first 20 bytes.
    pub fn of_program(head: &[u8]) -> Option<Self> {
        const LITTLE: u8 = 1;
        let (order, machine) = match head {
            [0x7f, b'E', b'L', b'F', _, order, _, _, _, _, _, _, _, _, _, _, _, _, low, high, ..] => {
                let bytes = [*low, *high];
                (*order, if *order == LITTLE { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
            }
            _ => return None,
        };
        match (machine, order) {
            (62, LITTLE) => Some(Self::Amd64),
            (183, LITTLE) => Some(Self::Arm64),
            (40, LITTLE) => Some(Self::Arm),
            (21, LITTLE) => Some(Self::Ppc64le),
            (243, LITTLE) => Some(Self::Riscv64),
            (22, 2) => Some(Self::S390x),
            _ => None,
        }
    }

    /// Its Kubernetes name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Arm => "arm",
            Self::Ppc64le => "ppc64le",
            Self::Riscv64 => "riscv64",
            Self::S390x => "s390x",
        }
    }

    /// The names that `uname -m` prints for this architecture.
    pub const fn kernel_names(self) -> &'static [&'static str] {
        match self {
            Self::Amd64 => &["x86_64"],
            Self::Arm64 => &["aarch64"],
            Self::Arm => &["armv7l", "armv8l"],
            Self::Ppc64le => &["ppc64le"],
            Self::Riscv64 => &["riscv64"],
            Self::S390x => &["s390x"],
        }
    }
}

impl std::str::FromStr for Arch {
    type Err = ArchError;

    fn from_str(text: &str) -> Result<Self, ArchError> {
        Self::ALL
            .into_iter()
            .find(|arch| arch.as_str() == text || arch.kernel_names().contains(&text))
            .ok_or_else(|| ArchError(text.chars().take(32).collect()))
    }
}

impl TryFrom<String> for Arch {
    type Error = ArchError;

    fn try_from(text: String) -> Result<Self, ArchError> {
        text.parse()
    }
}

impl From<Arch> for String {
    fn from(arch: Arch) -> Self {
        arch.as_str().to_owned()
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_what_they_were_compiled_for() {
        let this = std::fs::read(std::env::current_exe().expect("a program")).expect("its bytes");
        assert_eq!(Arch::of_program(&this[..20]), Arch::of_this_program());
        assert_eq!(Arch::of_program(b"#!/bin/sh\nexec true\n"), None);
        assert_eq!(Arch::of_program(&this[..19]), None);
    }

    #[test]
    fn names_of_go_and_of_the_kernel_are_understood() {
        for arch in Arch::ALL {
            assert_eq!(arch.as_str().parse(), Ok(arch));
            for name in arch.kernel_names() {
                assert_eq!(name.parse(), Ok(arch), "{name}");
            }
        }
        for bad in ["", "AMD64", "x86", " amd64"] {
            assert!(bad.parse::<Arch>().is_err(), "{bad}");
        }
    }
}
