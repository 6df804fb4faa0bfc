//! Provider IDs of machines on Hosts.

use std::fmt;

/// The scheme of provider IDs.
const SCHEME: &str = "capstan://";

/// The provider ID of a machine on a Host. It contains the claim ID, so a Host that is claimed again has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderId<'a> {
    /// Namespace of the Host.
    pub namespace: &'a str,
    /// Name of the Host.
    pub host: &'a str,
    /// ID of the claim.
    pub claim: &'a str,
}

impl<'a> ProviderId<'a> {
    /// Reads a provider ID. `None` if the machine is not on a Host of Capstan.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.strip_prefix(SCHEME)?.split('/');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (namespace, host, claim) = (part()?, part()?, part()?);
        parts.next().is_none().then_some(Self { namespace, host, claim })
    }
}

impl fmt::Display for ProviderId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, host, claim } = self;
        write!(f, "{SCHEME}{namespace}/{host}/{claim}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_id_names_the_host_and_the_claim() {
        let id = ProviderId { namespace: "n", host: "h", claim: "c" };
        assert_eq!(id.to_string(), "capstan://n/h/c");
        assert_eq!(ProviderId::parse("capstan://n/h/c"), Some(id));
        for other in
            ["", "host:///h", "capstan://n/h", "capstan://n//c", "capstan://n/h/", "capstan://n/h/c/d"]
        {
            assert_eq!(ProviderId::parse(other), None, "{other}");
        }
    }
}
