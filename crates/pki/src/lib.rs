//! Certificates and keys: PEM, DER, reading, trust, issuing and sealing.
//!
//! Pure, except for [`folder`], which keeps a CA on disk. The time is an argument; randomness comes from the operating
//! system. Who gets which certificate is not decided here.

pub mod der;
#[cfg(feature = "folder")]
pub mod folder;
#[cfg(feature = "issue")]
pub mod issue;
#[cfg(feature = "seal")]
pub mod machine_token;
pub mod pem;
#[cfg(feature = "seal")]
pub mod seal;
#[cfg(feature = "serving")]
pub mod serving;

#[cfg(feature = "read")]
mod certificate;
#[cfg(feature = "request")]
mod request;
#[cfg(feature = "trust")]
mod trust;

#[cfg(feature = "read")]
pub use certificate::Certificate;
#[cfg(feature = "request")]
pub use request::{CertificateRequest, is_certificates};
#[cfg(feature = "trust")]
pub use trust::{RootsError, roots};

/// How long before it is issued a certificate for a client begins, because clocks disagree.
pub const BACKDATE_SECONDS: i64 = 300;
