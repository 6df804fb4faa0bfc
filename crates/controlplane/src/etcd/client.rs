//! Reads the members and health of etcd, with a client certificate of etcd's CA.

use capstan_controller::error::{Error, Result};
use capstan_controller::etcd::{Access, Etcd, Member, Members};
use capstan_pki::issue::Identity;
use futures::future::{BoxFuture, join_all, select_ok};
use jiff::{SignedDuration, Timestamp};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

use super::grpc::{CallError, NOT_FOUND, call};
use super::wire;
use crate::certificates::client;

const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";
const MEMBER_REMOVE: &str = "/etcdserverpb.Cluster/MemberRemove";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const MOVE_LEADER: &str = "/etcdserverpb.Maintenance/MoveLeader";

/// The client port of members.
const PORT: u16 = 2379;
/// Validity of the client certificate, which is for a few requests.
const LIFE: SignedDuration = SignedDuration::from_hours(24);
/// The common name of the client certificate.
const NAME: &str = "capstan";

/// An etcd client over gRPC.
#[derive(Clone, Copy, Debug, Default)]
pub struct EtcdClient;

impl Etcd for EtcdClient {
    fn members<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<Members>> {
        Box::pin(async move {
            let doing = || format!("cannot ask the etcd of Cluster {}/{}", access.namespace, access.cluster);
            let tls = tls(access)?;
            if access.addresses.is_empty() {
                return Err(Error::transient(doing(), "no control plane machine has an address yet"));
            }
            let ask = |url: String| {
                let tls = Arc::clone(&tls);
                Box::pin(async move { call(&tls, &url, MEMBER_LIST, &wire::member_list_request()).await })
            };
            let urls = access.addresses.iter().map(|address| url_of(address));
            let (answer, _) =
                select_ok(urls.map(ask)).await.map_err(|error| Error::transient(doing(), error))?;
            let members = wire::read_members(&answer).map_err(|error| Error::transient(doing(), error))?;
            Ok(with_health(&tls, members).await)
        })
    }

    fn move_leader<'a>(
        &'a self,
        access: &'a Access,
        from: &'a Member,
        to: &'a Member,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let doing = || format!("cannot have etcd member {} lead instead of {}", to.name, from.name);
            let url = from.client_urls.first();
            let url = url.ok_or_else(|| Error::transient(doing(), "the leader says no address"))?;
            let moved = call(&tls(access)?, url, MOVE_LEADER, &wire::move_leader_request(to.id)).await;
            moved.map(|_| ()).map_err(|error| Error::transient(doing(), error))
        })
    }

    fn remove<'a>(&'a self, access: &'a Access, member: &'a Member) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let doing = || format!("cannot remove etcd member {}", member.name);
            let tls = tls(access)?;
            let mut last = Error::transient(doing(), "no control plane machine has an address");
            // One after the other: it must not be asked for twice at once.
            for address in &access.addresses {
                let request = wire::member_remove_request(member.id);
                match call(&tls, &url_of(address), MEMBER_REMOVE, &request).await {
                    Ok(_) | Err(CallError::Status { code: NOT_FOUND, .. }) => return Ok(()),
                    // A quorum has spoken: the others would say the same.
                    Err(error @ CallError::Status { .. }) => return Err(Error::transient(doing(), error)),
                    Err(error) => last = Error::transient(doing(), error),
                }
            }
            Err(last)
        })
    }
}

fn url_of(address: &str) -> String {
    match address.contains(':') {
        true => format!("https://[{address}]:{PORT}"),
        false => format!("https://{address}:{PORT}"),
    }
}

/// Reads the status of each member.
async fn with_health(tls: &Arc<ClientConfig>, mut members: Vec<Member>) -> Members {
    let statuses = join_all(members.iter().map(|member| async {
        let url = member.client_urls.first()?;
        let answer = call(tls, url, STATUS, &[]).await.ok()?;
        wire::read_status(&answer).ok()
    }))
    .await;
    let mut leader = None;
    for (member, status) in members.iter_mut().zip(statuses) {
        let Some(status) = status else { continue };
        member.is_healthy = status.member == member.id && status.leader != 0 && !status.has_errors;
        if member.is_healthy {
            leader = leader.or(Some(status.leader));
        }
    }
    Members { members, leader }
}

/// Trusts only the etcd CA of the cluster, and authenticates with a certificate of it.
fn tls(access: &Access) -> Result<Arc<ClientConfig>> {
    let doing = || format!("cannot use the etcd CA of Cluster {}/{}", access.namespace, access.cluster);
    let unusable = || Error::transient(doing(), "it must be one certificate and one unencrypted key as PEM");
    let text = |pem: &[u8]| String::from_utf8(pem.to_vec()).map_err(|_| unusable());
    let ca = Identity { certificate: text(&access.ca)?, key: text(&access.ca_key)? };
    let now = Timestamp::now();
    let expires = now.checked_add(LIFE).map_err(|error| Error::transient(doing(), error))?;
    let own = client(&ca, NAME, NAME, expires, now).map_err(|error| Error::transient(doing(), error))?;
    let roots = capstan_pki::roots(&access.ca).map_err(|_| unusable())?;
    let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).map_err(|_| unusable())?;
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).map_err(|_| unusable())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::transient(doing(), error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .map_err(|_| unusable())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
