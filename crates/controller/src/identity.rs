//! The identity of a machine: a random value that is given once and outlives names, UIDs and status.
//!
//! It is an annotation of the machine's bootstrap config. Plans and reports are bound to it, so that a host that
//! becomes another machine rejects the plans of the previous one.

use kube::ResourceExt;
use rand::Rng as _;

/// Annotation of a bootstrap config, and of all objects that must belong to the same machine.
pub const MACHINE_ID: &str = "capstan.dev/machine-id";

/// The machine ID of the object, if it has one.
pub fn of(object: &impl ResourceExt) -> Option<&str> {
    object.annotations().get(MACHINE_ID).map(String::as_str).filter(|id| !id.is_empty())
}

/// 128 random bits in hexadecimal.
pub fn random() -> String {
    hexadecimal::<16>()
}

/// 256 random bits in hexadecimal, for secrets.
pub fn random_secret() -> String {
    hexadecimal::<32>()
}

fn hexadecimal<const BYTES: usize>() -> String {
    let mut bytes = [0_u8; BYTES];
    rand::rng().fill(&mut bytes[..]);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ() {
        assert_eq!(random().len(), 32);
        assert_ne!(random(), random());
        assert_eq!(random_secret().len(), 64);
    }
}
