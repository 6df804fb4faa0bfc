//! Why a server cannot start.

use crate::{
    auth::token_keys::KeyError, authority::AuthorityError, status::ApiError, store::OpenError, tls::TlsError,
};

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be opened.
    #[error("cannot open the store")]
    Store(#[from] OpenError),
    /// The signing key for service account tokens cannot be used.
    #[error("cannot sign tokens")]
    TokenKey(#[from] KeyError),
    /// The signer of client certificates cannot be used.
    #[error("cannot sign client certificates")]
    Authority(#[from] AuthorityError),
    /// The audit log cannot be opened.
    #[error("cannot write the audit log")]
    Audit(#[source] std::io::Error),
    /// The TLS settings cannot be used.
    #[error("cannot set up TLS")]
    Tls(#[from] TlsError),
    /// The listener cannot be used.
    #[error("cannot listen")]
    Listen(#[source] std::io::Error),
    /// The initial objects cannot be written.
    #[error("cannot write the first objects")]
    Bootstrap(#[from] ApiError),
}
