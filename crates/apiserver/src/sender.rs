//! The sender of a request.

use std::net::IpAddr;

use crate::{auth::client_certificate::ClientCertificate, limits::Pass, user::User};

/// Who sends a request, and what has let it in.
pub(crate) struct Sender {
    pub(crate) user: User,
    pub(crate) pass: Option<Pass>,
    /// `None` for a client in this process.
    pub(crate) address: Option<IpAddr>,
    /// Of its connection. `None` for a client in this process, which needs no credential.
    pub(crate) certificate: Option<ClientCertificate>,
}
