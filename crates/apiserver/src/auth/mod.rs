//! Authentication and authorization of requests.

pub(crate) mod authorize;
pub(crate) mod client_certificate;
pub(crate) mod impersonate;
pub(crate) mod revocation;
pub(crate) mod service_account;
pub(crate) mod token;
pub(crate) mod token_keys;
