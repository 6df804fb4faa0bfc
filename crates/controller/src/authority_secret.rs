//! The CA of servers of this process, in a Secret that all replicas share.

use capstan_pki::serving::{Authority, AuthorityError};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, ResourceExt as _};

use crate::error::{Doing as _, Error, Result};
use crate::secrets;

/// Key of the CA bundle.
const BUNDLE: &str = "ca.crt";
/// Key of the CA's private key.
const KEY: &str = "ca.key";

/// The Secret of a CA.
#[derive(Clone, Copy, Debug)]
pub struct AuthoritySecret<'a> {
    /// Namespace of the Secret.
    pub namespace: &'a str,
    /// Name of the Secret.
    pub name: &'a str,
    /// Common name of the CA.
    pub common_name: &'a str,
}

impl AuthoritySecret<'_> {
    /// The CA that all replicas share. The one that may write creates and renews it; the others wait for it.
    pub async fn ensure(&self, client: &Client, may_write: bool, now: Timestamp) -> Result<Authority> {
        let api: Api<Secret> = Api::namespaced(client.clone(), self.namespace);
        let doing = |what: &str| format!("cannot {what} Secret {}/{}", self.namespace, self.name);
        let failed = |error: AuthorityError| {
            Error::transient(format!("cannot make the CA {:?}", self.common_name), error)
        };
        let read = api.get_opt(self.name).await.doing(|| doing("read"))?;
        let (authority, write) = self.kept(read.as_ref(), now).map_err(failed)?;
        if !write {
            return Ok(authority);
        }
        if !may_write {
            return Err(Error::transient(doing("write"), "that is for the replica that leads"));
        }
        let mut secret = self.secret(&authority);
        match read {
            Some(read) => {
                secret.metadata.resource_version = read.resource_version();
                api.replace(self.name, &PostParams::default(), &secret).await.doing(|| doing("write"))?;
            }
            None => match api.create(&PostParams::default(), &secret).await {
                // Its namespace, or another process was faster: read in the next round.
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    self.make_namespace(client).await?;
                    return Err(Error::transient(doing("make"), "its namespace has just been made"));
                }
                made => _ = made.doing(|| doing("make"))?,
            },
        }
        tracing::info!(secret = self.name, "made a CA");
        Ok(authority)
    }

    async fn make_namespace(&self, client: &Client) -> Result<()> {
        let api: Api<Namespace> = Api::all(client.clone());
        let metadata = ObjectMeta { name: Some(self.namespace.to_owned()), ..ObjectMeta::default() };
        match api.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            made => made.map(|_| ()).doing(|| format!("cannot make Namespace {}", self.namespace)),
        }
    }

    /// The CA to use, and whether it has to be written first.
    fn kept(
        &self,
        secret: Option<&Secret>,
        now: Timestamp,
    ) -> std::result::Result<(Authority, bool), AuthorityError> {
        let Some(secret) = secret else { return Ok((Authority::new(self.common_name, now)?, true)) };
        let get = |key| secrets::get(secret, key).unwrap_or_default();
        match Authority::read(get(BUNDLE), get(KEY)) {
            Ok(authority) if authority.is_due(now) => Ok((authority.renewed(self.common_name, now)?, true)),
            Ok(authority) => Ok((authority, false)),
            Err(error) => {
                tracing::warn!(%error, secret = self.name, "cannot read a CA; creating another one");
                Ok((Authority::new(self.common_name, now)?, true))
            }
        }
    }

    fn secret(&self, authority: &Authority) -> Secret {
        let data = [(BUNDLE, authority.bundle()), (KEY, authority.key().to_owned())];
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name.to_owned()),
                namespace: Some(self.namespace.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(data.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).into()),
            ..Secret::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn the_authority_is_kept_renewed_and_replaced() {
        let of = AuthoritySecret { namespace: "n", name: "s", common_name: "capstan test" };
        let (made, write) = of.kept(None, NOW).expect("an authority");
        assert!(write);
        let mut stored = of.secret(&made);
        let (same, write) = of.kept(Some(&stored), NOW).expect("an authority");
        assert!(same == made && !write);
        let (renewed, write) =
            of.kept(Some(&stored), NOW + SignedDuration::from_hours(24 * 3000)).expect("an authority");
        assert!(write && renewed.bundle().contains(&made.bundle()));
        stored.data.get_or_insert_default().remove(KEY);
        let (replaced, write) = of.kept(Some(&stored), NOW).expect("an authority");
        assert!(write && !replaced.bundle().contains(&made.bundle()));
    }
}
