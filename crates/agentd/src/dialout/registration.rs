//! The registration of this machine, as it is on the disk: one file, which is written whole.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::https::Trust;
use capstan_agent::route::Route;
use capstan_pki::machine_token::TokenQuery;
use capstan_plan::host_join::{JoinRequest, JoinToken, registration_name};
use capstan_plan::instruction::RegisteredHost;
use capstan_plan::{Facts, HttpsUrl, PublicKey, SecretText, SourceUrl};
use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::places::Places;
use crate::api::Api;
use crate::{Failure, files};

const GROUP: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";

/// The key of the machine.
pub(super) struct HostKey(KeyPair);

impl HostKey {
    /// The key on the machine; makes one if there is none.
    pub(super) fn take(places: &Places<'_>) -> Result<Self, Failure> {
        let path = places.key();
        let wrong = |what: &dyn std::fmt::Display| Failure::new(format!("{}: {what}", path.display()));
        if let Some(pem) = files::read(&path).map_err(|error| wrong(&error))? {
            let pem = String::from_utf8(pem).map_err(|_| wrong(&"is not a private key"))?;
            return KeyPair::from_pem(&pem).map(Self).map_err(|_| wrong(&"is not a private key"));
        }
        let key = KeyPair::generate().map_err(|error| wrong(&error))?;
        files::write(&path, key.serialize_pem().as_bytes()).map_err(|error| wrong(&error))?;
        Ok(Self(key))
    }

    pub(super) fn public(&self) -> String {
        BASE64_STANDARD.encode(self.0.subject_public_key_info())
    }

    /// The private key, as a PKCS #8 document.
    pub(super) fn private(&self) -> Vec<u8> {
        self.0.serialize_der()
    }
}

/// A credential that only this machine can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HostCredential {
    pub(super) token: SecretText,
    pub(super) issued_at: Timestamp,
}

/// The registration of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Registration {
    pub(super) server: String,
    ca: String,
    pub(super) namespace: String,
    /// Name of the HostRegistration.
    pub(super) name: String,
    nonce: String,
    /// Name of the join token.
    pub(super) token: String,
    proof: String,
    /// Key that verifies instructions.
    pub(super) instruction_key: PublicKey,
    /// Whether the object exists: it is created once, so that a machine that was denied does not come back by itself.
    pub(super) is_created: bool,
    /// Bearer token until there is a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    joining: Option<SecretText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) credential: Option<HostCredential>,
    /// How the management plane is reached.
    #[serde(skip)]
    route: Route,
}

impl Registration {
    /// A registration with a random name.
    pub(super) fn new(token: JoinToken, key: &HostKey) -> Self {
        let nonce = format!("{:032x}", rand::random::<u128>());
        let name = registration_name(rand::random());
        let request = JoinRequest {
            namespace: &token.namespace,
            registration: &name,
            public_key: &key.public(),
            nonce: &nonce,
        };
        let proof = request.prove(&token.key);
        Self {
            server: token.server,
            ca: token.ca,
            namespace: token.namespace,
            name,
            nonce,
            token: token.name,
            proof,
            instruction_key: token.instruction_key,
            is_created: false,
            joining: Some(token.bearer),
            credential: None,
            route: Route::default(),
        }
    }

    /// The same, with the management plane reached this way.
    pub(super) fn through(self, route: Route) -> Self {
        Self { route, ..self }
    }

    /// The registration on the disk, with the management plane reached directly. An error repeats nothing of it.
    pub(super) fn read(places: &Places<'_>) -> Result<Option<Self>, Failure> {
        let path = places.registration();
        let wrong = |what: &str| Failure::new(format!("{}: {what}", path.display()));
        let Some(bytes) = files::read(&path).map_err(|error| wrong(&error.to_string()))? else {
            return Ok(None);
        };
        let read = serde_json::from_slice(&bytes);
        read.map(Some).map_err(|_| wrong("is not a registration; remove the file to register again"))
    }

    pub(super) fn write(&self, places: &Places<'_>) -> Result<(), Failure> {
        let path = places.registration();
        let text = serde_json::to_vec(self).map_err(Failure::new)?;
        files::write(&path, &text)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
    }

    /// Whether it was made with this token, so that it goes on instead of another one. A token of the same name may be another
    /// one, with another key: that of a plane that was made again, or one that was revoked and made again.
    pub(super) fn is_of(&self, token: &JoinToken, key: &HostKey) -> bool {
        let public_key = key.public();
        let request = JoinRequest {
            namespace: &self.namespace,
            registration: &self.name,
            public_key: &public_key,
            nonce: &self.nonce,
        };
        (&self.server, &self.namespace, &self.token) == (&token.server, &token.namespace, &token.name)
            && self.instruction_key == token.instruction_key
            && request.is_proven(&token.key, &self.proof)
    }

    /// Takes the CA bundle and the bearer token of another copy of the same token: they may be valid for longer.
    pub(super) fn join_with(&mut self, token: JoinToken) {
        self.ca = token.ca;
        self.joining = Some(token.bearer);
    }

    /// The credential that the management plane has for this machine, if there is one and it is another one.
    pub(super) fn renewed(&self, key: &HostKey, object: &Value) -> Option<HostCredential> {
        let credential = &object["spec"]["credential"];
        let issued_at: Timestamp = credential["issuedAt"].as_str()?.parse().ok()?;
        if self.credential.as_ref().is_some_and(|current| current.issued_at == issued_at) {
            return None;
        }
        let query = TokenQuery { machine_id: &self.name, public_key: &key.public(), nonce: &self.nonce };
        let token = query.open(&key.private(), credential["sealedToken"].as_str()?).ok()?;
        Some(HostCredential { token: SecretText::new(token), issued_at })
    }

    /// Uses a credential from now on. The join token has done its work.
    pub(super) fn take_credential(&mut self, credential: HostCredential) {
        self.credential = Some(credential);
        self.joining = None;
    }

    /// The management plane, as itself and as us.
    pub(super) fn api(&self) -> Result<Api, Failure> {
        // The address of a folder, so that paths can be added to it.
        let server: Result<HttpsUrl, Failure> =
            match SourceUrl::new(format!("{}/", self.server.trim_end_matches('/'))) {
                Ok(SourceUrl::Https(server)) => Ok(server),
                _ => Err(Failure::new(format!("{} is not https://host[:port]", self.server))),
            };
        let trust = Trust::pinned(self.ca.as_bytes())
            .map_err(|error| Failure::new(format!("the CA in the join token: {error}")))?;
        let own = self.credential.as_ref().map(|credential| &credential.token);
        Ok(Api::new(server?, trust, self.route.clone(), own.or(self.joining.as_ref()).cloned()))
    }

    /// The HostRegistrations of the namespace.
    pub(super) fn collection(&self) -> String {
        format!("/apis/{GROUP}/namespaces/{}/hostregistrations", self.namespace)
    }

    /// The object that is created. Facts that are not known are left out.
    pub(super) fn object(&self, key: &HostKey, facts: &Facts) -> Value {
        let facts = json!(facts);
        let mut object = json!({
            "apiVersion": GROUP,
            "kind": "HostRegistration",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"publicKey": key.public(), "nonce": self.nonce, "token": self.token, "proof": self.proof},
        });
        if facts.as_object().is_some_and(|facts| !facts.is_empty()) {
            object["spec"]["facts"] = facts;
        }
        object
    }

    /// Whom instructions are for.
    pub(super) fn host(&self, key: &HostKey) -> RegisteredHost {
        RegisteredHost { registration: self.name.clone(), public_key: key.public() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Paths;
    use capstan_plan::SigningKey;
    use capstan_plan::host_join::JoinKey;

    fn token(key: u8, instruction_key: u8) -> JoinToken {
        JoinToken {
            server: "https://10.0.0.1:6443".to_owned(),
            ca: "CA".to_owned(),
            namespace: "default".to_owned(),
            name: "edge".to_owned(),
            key: JoinKey::new([key; 32]),
            bearer: SecretText::new("bearer"),
            instruction_key: SigningKey::from_seed(&[instruction_key; 32]).public(),
        }
    }

    #[test]
    fn a_registration_goes_on_with_its_own_token_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = Paths::new(folder.path().to_owned());
        let key = HostKey::take(&Places(&paths)).expect("a key");
        let registration = Registration::new(token(1, 2), &key);
        assert!(registration.is_of(&token(1, 2), &key));
        for (case, other) in [
            ("another token of the same name", token(3, 2)),
            ("the key for instructions was replaced", token(1, 3)),
            ("another plane", JoinToken { server: "https://10.0.0.2:6443".to_owned(), ..token(1, 2) }),
        ] {
            assert!(!registration.is_of(&other, &key), "{case}");
        }
    }
}
