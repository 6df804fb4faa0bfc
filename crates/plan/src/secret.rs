//! The format of the plan Secret. The machine can only read the Secret.

use std::collections::BTreeMap;

use crate::{Digest, DigestError, KeyId, Limit, NumberError, Revision, SignedGates, SignedPlan, limits};

/// Type of the Secret.
pub const SECRET_TYPE: &str = "agent.capstan.dev/machine-plan";

/// The `data` of the Secret, decoded.
pub type SecretData = BTreeMap<String, Vec<u8>>;

/// Keys of the data.
pub mod keys {
    /// The plan: canonical JSON.
    pub const PLAN: &str = "plan";
    /// SHA-256 of the plan's bytes, in hexadecimal.
    pub const DIGEST: &str = "digest";
    /// The plan's revision, in decimal.
    pub const REVISION: &str = "revision";
    /// ID of the signing key.
    pub const KEY: &str = "key-id";
    /// The 64 bytes of the signature.
    pub const SIGNATURE: &str = "signature";

    /// The open gates: canonical JSON. If absent, all gates are closed.
    pub const GATES: &str = "gates";
    /// The 64 bytes of the signature of the open gates.
    pub const GATES_SIGNATURE: &str = "gates-signature";

    /// How keys have followed each other: for each link the two public keys and the signature of the former. If absent, the
    /// key was never replaced.
    pub const SUCCESSIONS: &str = "key-successions";

    pub(super) const ALL: [&str; 8] =
        [PLAN, DIGEST, REVISION, KEY, SIGNATURE, GATES, GATES_SIGNATURE, SUCCESSIONS];
}

/// Why a Secret does not contain a signed plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// A key is missing.
    #[error("data.{0} is missing")]
    Missing(&'static str),
    /// A key is unknown to this version of the agent.
    #[error("data.{0} is unknown")]
    Unknown(String),
    /// The plan is too large.
    #[error("data.plan: number of bytes {0}")]
    Size(Limit),
    /// The open gates are too large.
    #[error("data.gates: number of bytes {0}")]
    GatesSize(Limit),
    /// The revision is malformed.
    #[error("data.revision: {0}")]
    Revision(#[from] NumberError),
    /// The digest is malformed.
    #[error("data.digest: {0}")]
    Digest(#[from] DigestError),
    /// The digest does not match the plan.
    #[error("data.digest is not the digest of data.plan: the Secret was changed in part")]
    OtherDigest,
    /// The signature or the key ID is malformed.
    #[error("data.{0} is malformed")]
    Malformed(&'static str),
}

impl SignedPlan {
    /// The data of a Secret.
    pub fn to_secret_data(&self) -> SecretData {
        [
            (keys::PLAN, self.bytes.clone()),
            (keys::DIGEST, Digest::of(&self.bytes).to_string().into_bytes()),
            (keys::REVISION, self.revision.to_string().into_bytes()),
            (keys::KEY, self.key.0.clone().into_bytes()),
            (keys::SIGNATURE, self.signature.clone()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// Reads a plan from the data of a Secret. The signature is not verified.
    ///
    /// # Errors
    /// If a part is missing, malformed or unknown, or the parts do not match.
    pub fn from_secret_data(data: &SecretData) -> Result<Self, SecretError> {
        if let Some(unknown) = data.keys().find(|key| !keys::ALL.contains(&key.as_str())) {
            return Err(SecretError::Unknown(unknown.clone()));
        }
        let get = |key: &'static str| data.get(key).map(Vec::as_slice).ok_or(SecretError::Missing(key));
        let text = |key| get(key).map(|bytes| std::str::from_utf8(bytes).unwrap_or_default());

        let bytes = get(keys::PLAN)?;
        Limit::check(bytes.len(), 1, limits::PLAN_BYTES).map_err(SecretError::Size)?;
        let revision = number(text(keys::REVISION)?)?;
        let key = text(keys::KEY)?;
        if key.len() != 16 || !key.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c)) {
            return Err(SecretError::Malformed(keys::KEY));
        }
        let signature = get(keys::SIGNATURE)?;
        if signature.len() != 64 {
            return Err(SecretError::Malformed(keys::SIGNATURE));
        }
        if text(keys::DIGEST)?.parse::<Digest>()? != Digest::of(bytes) {
            return Err(SecretError::OtherDigest);
        }
        Ok(Self {
            bytes: bytes.to_vec(),
            revision,
            key: KeyId(key.to_owned()),
            signature: signature.to_vec(),
        })
    }
}

impl SignedGates {
    /// Additional data of the plan Secret.
    pub fn to_secret_data(&self) -> SecretData {
        [(keys::GATES, self.bytes.clone()), (keys::GATES_SIGNATURE, self.signature.clone())]
            .map(|(key, value)| (key.to_owned(), value))
            .into()
    }

    /// Reads the open gates from the data of a Secret, if there are any. The signature is not verified.
    ///
    /// # Errors
    /// If one of the two parts is missing or malformed.
    pub fn from_secret_data(data: &SecretData) -> Result<Option<Self>, SecretError> {
        let (bytes, signature) = match (data.get(keys::GATES), data.get(keys::GATES_SIGNATURE)) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(SecretError::Missing(keys::GATES)),
            (Some(_), None) => return Err(SecretError::Missing(keys::GATES_SIGNATURE)),
            (Some(bytes), Some(signature)) => (bytes, signature),
        };
        Limit::check(bytes.len(), 1, limits::GATES_BYTES).map_err(SecretError::GatesSize)?;
        if signature.len() != 64 {
            return Err(SecretError::Malformed(keys::GATES_SIGNATURE));
        }
        Ok(Some(Self { bytes: bytes.clone(), signature: signature.clone() }))
    }
}

/// A revision in its one spelling: no sign, no leading zero.
fn number(text: &str) -> Result<Revision, NumberError> {
    let revision = text.parse().map_err(|_| NumberError).and_then(Revision::new)?;
    if revision.to_string() == text { Ok(revision) } else { Err(NumberError) }
}
