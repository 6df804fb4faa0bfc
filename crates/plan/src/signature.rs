//! Signatures of plans: Ed25519.
//!
//! The signed message is not the plan but a statement about it: "the plan with this digest is revision N of this
//! machine". So a signature is valid only for one machine, one revision and one purpose.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

use crate::base64_text;
use crate::{Digest, MachineIdentity, MachinePlan, ParseError, PlanId, Revision, SealedPlan, Step, StepName};

const DOMAIN: &[u8] = b"capstan.dev/machine-plan/v1\0";

/// Why a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The private key is malformed.
    #[error("a signing key must be an Ed25519 key in PKCS#8")]
    Signing,
    /// The public key is malformed.
    #[error("a public key must be the 32 bytes of an Ed25519 key")]
    Public,
    /// The operating system provides no random bytes.
    #[error("no key could be made")]
    Random,
}

/// ID of a public key: the first 16 hexadecimal digits of its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(pub(crate) String);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A public key, with which a machine verifies the plans of its manager. Base64 in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        base64_text::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_bytes(&base64_text::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl PublicKey {
    /// The key with these bytes.
    ///
    /// # Errors
    /// If they are not 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        bytes.try_into().map(Self).map_err(|_| KeyError::Public)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Its ID.
    pub fn id(&self) -> KeyId {
        KeyId(Digest::of(&self.0).short())
    }

    pub(crate) fn has_signed(&self, sentence: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(sentence, signature).is_ok()
    }
}

/// A private key, with which the planner signs.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Generates a key.
    ///
    /// # Errors
    /// If the operating system provides no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        Ed25519KeyPair::generate().map(Self).map_err(|_| KeyError::Random)
    }

    /// The key derived from 32 secret random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are a seed"))
    }

    /// Parses a key.
    ///
    /// # Errors
    /// If it is not an Ed25519 key in PKCS#8.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, KeyError> {
        Ed25519KeyPair::from_pkcs8(bytes).map(Self).map_err(|_| KeyError::Signing)
    }

    /// Encodes the key, for a Secret that only managers read.
    ///
    /// # Errors
    /// If the library returns an error.
    pub fn to_pkcs8(&self) -> Result<Vec<u8>, KeyError> {
        self.0.to_pkcs8().map(|document| document.as_ref().to_vec()).map_err(|_| KeyError::Signing)
    }

    pub(crate) fn sign(&self, sentence: &[u8]) -> Vec<u8> {
        self.0.sign(sentence).as_ref().to_vec()
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        PublicKey::from_bytes(self.0.public_key().as_ref()).expect("an Ed25519 public key has 32 bytes")
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public().id())
    }
}

/// The keys that verify plans. A machine trusts one; the planner also has earlier keys of its plans.
#[derive(Clone, Debug, Default)]
pub struct TrustedKeys(BTreeMap<KeyId, PublicKey>);

impl TrustedKeys {
    /// Whether one of them has signed this.
    pub(crate) fn have_signed(&self, sentence: &[u8], signature: &[u8]) -> bool {
        self.0.values().any(|key| key.has_signed(sentence, signature))
    }
}

impl FromIterator<PublicKey> for TrustedKeys {
    fn from_iter<T: IntoIterator<Item = PublicKey>>(keys: T) -> Self {
        Self(keys.into_iter().map(|key| (key.id(), key)).collect())
    }
}

/// A plan as in a Secret: bytes and a signature, not verified.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedPlan {
    pub(crate) bytes: Vec<u8>,
    pub(crate) revision: Revision,
    pub(crate) key: KeyId,
    pub(crate) signature: Vec<u8>,
}

impl fmt::Debug for SignedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedPlan({})", self.id())
    }
}

impl SealedPlan {
    /// Signs the plan.
    pub fn sign(&self, key: &SigningKey) -> SignedPlan {
        let sentence = sentence(&self.id(), &self.plan().machine);
        SignedPlan {
            bytes: self.bytes().to_vec(),
            revision: self.id().revision(),
            key: key.public().id(),
            signature: key.sign(&sentence),
        }
    }
}

/// Why a plan is rejected.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The key is not trusted.
    #[error("the plan is signed with key {0}, which this machine does not trust")]
    UnknownKey(KeyId),
    /// The signature does not match.
    #[error(
        "the signature does not fit the plan: it was changed after signing, or signed as another revision"
    )]
    Signature,
    /// The plan is for another machine.
    #[error("the plan is for {theirs}, and this is {ours}")]
    Machine {
        /// The machine that the plan is for.
        theirs: MachineIdentity,
        /// The machine that verifies it.
        ours: MachineIdentity,
    },
    /// The plan is signed but cannot be parsed.
    #[error("the plan cannot be understood: {0}")]
    Parse(#[from] ParseError),
    /// The signed revision and that of the plan differ.
    #[error("the plan was signed as revision {signed} but says {written}")]
    Revision {
        /// The signed revision.
        signed: Revision,
        /// The revision in the plan.
        written: Revision,
    },
}

impl SignedPlan {
    /// The ID of the bytes, which are not verified yet.
    pub fn id(&self) -> PlanId {
        PlanId { digest: Digest::of(&self.bytes), revision: self.revision }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Verifies that a trusted key has signed the plan for this machine. It is parsed only after that.
    ///
    /// # Errors
    /// Why the plan is rejected.
    pub fn verify(&self, keys: &TrustedKeys, ours: &MachineIdentity) -> Result<VerifiedPlan, VerifyError> {
        let key = keys.0.get(&self.key).ok_or_else(|| VerifyError::UnknownKey(self.key.clone()))?;
        if !self.is_signed(key, ours) {
            return Err(self.why_not(key, ours));
        }
        let sealed = SealedPlan::parse(&self.bytes)?;
        let written = sealed.plan().revision;
        if written != self.revision {
            return Err(VerifyError::Revision { signed: self.revision, written });
        }
        if sealed.plan().machine != *ours {
            return Err(VerifyError::Machine { theirs: sealed.plan().machine.clone(), ours: ours.clone() });
        }
        let id = sealed.id();
        let plan = sealed.into_plan();
        Ok(VerifiedPlan { id, inputs: plan.inputs(), plan })
    }

    fn is_signed(&self, key: &PublicKey, machine: &MachineIdentity) -> bool {
        key.has_signed(&sentence(&self.id(), machine), &self.signature)
    }

    /// A plan for another machine is told from one that was tampered with only if it holds as that machine's.
    fn why_not(&self, key: &PublicKey, ours: &MachineIdentity) -> VerifyError {
        match SealedPlan::parse(&self.bytes) {
            Ok(sealed) if sealed.plan().machine != *ours && self.is_signed(key, &sealed.plan().machine) => {
                VerifyError::Machine { theirs: sealed.into_plan().machine, ours: ours.clone() }
            }
            _ => VerifyError::Signature,
        }
    }
}

/// What is signed. Every part has a fixed length or its length before it, so that no two sentences are alike.
fn sentence(id: &PlanId, machine: &MachineIdentity) -> Vec<u8> {
    let mut sentence = DOMAIN.to_vec();
    sentence.extend(id.digest.as_bytes());
    sentence.extend(id.revision.get().to_be_bytes());
    for text in [machine.name.as_str(), machine.machine_id.as_str()] {
        sentence.extend((text.len() as u64).to_be_bytes());
        sentence.extend(text.as_bytes());
    }
    sentence
}

/// A plan that a trusted key has signed for this machine. It can only be obtained by verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedPlan {
    id: PlanId,
    plan: MachinePlan,
    inputs: BTreeMap<StepName, Digest>,
}

impl VerifiedPlan {
    /// The ID.
    pub const fn id(&self) -> PlanId {
        self.id
    }

    /// The plan.
    pub const fn plan(&self) -> &MachinePlan {
        &self.plan
    }

    /// The digest of a step's inputs.
    pub fn inputs(&self, step: &Step) -> Digest {
        // A step of another plan has no inputs here; none of ours has the digest of nothing.
        self.inputs.get(&step.name).copied().unwrap_or_else(|| Digest::of(b""))
    }
}
