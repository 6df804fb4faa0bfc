//! The machine's key, and the token that it has as its credential. The key is made here and never leaves.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::https::Trust;
use capstan_pki::machine_token::TokenQuery;
use capstan_plan::SecretText;
use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Api;
use crate::config::Config;
use crate::enroll::reports;
use crate::paths::Paths;
use crate::{Failure, files};

/// The machine's key.
pub(crate) struct Key(KeyPair);

impl Key {
    /// The key on the machine; makes one if there is none.
    pub(crate) fn take(paths: &Paths) -> Result<Self, Failure> {
        if let Some(key) = Self::read(paths)? {
            return Ok(key);
        }
        let wrong = |error: &dyn std::fmt::Display| Failure::new(format!("cannot make a key: {error}"));
        let key = KeyPair::generate().map_err(|error| wrong(&error))?;
        files::write(&paths.key(), key.serialize_pem().as_bytes()).map_err(|error| wrong(&error))?;
        Ok(Self(key))
    }

    /// The key on the machine, if there is one.
    pub(crate) fn read(paths: &Paths) -> Result<Option<Self>, Failure> {
        let path = paths.key();
        let wrong = || {
            Failure::new(format!("{} is not a private key; remove the file to enrol again", path.display()))
        };
        let Some(pem) =
            files::read(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?
        else {
            return Ok(None);
        };
        let pem = String::from_utf8(pem).map_err(|_| wrong())?;
        KeyPair::from_pem(&pem).map(Self).map(Some).map_err(|_| wrong())
    }

    /// Asks for a credential, with another nonce each time.
    pub(crate) fn request(&self) -> Request {
        let nonce: [u8; 16] = rand::random();
        Request { public_key: self.public_key(), nonce: BASE64_STANDARD.encode(nonce) }
    }

    fn public_key(&self) -> String {
        BASE64_STANDARD.encode(self.0.subject_public_key_info())
    }

    /// Reads the credential in a report, if it answers this request.
    pub(crate) fn open(&self, request: &Request, config: &Config, report: &Value) -> Option<Credential> {
        let credential = &report["spec"]["credential"];
        let time = |name: &str| credential[name].as_str()?.parse::<Timestamp>().ok();
        let Request { public_key, nonce } = request;
        let query = TokenQuery { machine_id: config.machine_id(), public_key, nonce };
        let token = query.open(&self.0.serialize_der(), credential["sealedToken"].as_str()?).ok()?;
        Some(Credential {
            valid_for: config.stamp(),
            request_nonce: nonce.clone(),
            token: SecretText::new(token),
            issued_at: time("issuedAt")?,
            expires_at: time("expiresAt")?,
        })
    }
}

/// What the machine asks for a credential with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    public_key: String,
    nonce: String,
}

impl Request {
    /// The request that the machine has made before, if it was for this key and has no answer yet. The manager does not answer a
    /// request twice, if it has taken the first answer back.
    pub(crate) fn read(paths: &Paths, key: &Key) -> Result<Option<Self>, Failure> {
        let bytes = files::read(&paths.request()).map_err(Failure::new)?;
        let request = bytes.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        let answered = Credential::stored(paths)?.map(|credential| credential.request_nonce);
        Ok(request.filter(|request| {
            request.public_key == key.public_key() && answered.as_ref() != Some(&request.nonce)
        }))
    }

    pub(crate) fn write(&self, paths: &Paths) -> Result<(), Failure> {
        let text = serde_json::to_vec(self).map_err(Failure::new)?;
        files::write(&paths.request(), &text).map_err(Failure::new)
    }
}

/// What the machine shows to the management plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Credential {
    /// At which plane it is of use. In the same file as the token, so that neither is there without the other.
    valid_for: String,
    /// Nonce of the request that it answers.
    request_nonce: String,
    token: SecretText,
    pub(crate) issued_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// Whether the management plane accepts a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// It does.
    Accepted,
    /// It does not.
    Refused,
    /// It cannot be asked.
    Unknown,
}

impl Credential {
    /// The credential on the machine, if it has one for the plane it obeys.
    pub(crate) fn read(paths: &Paths, config: &Config) -> Result<Option<Self>, Failure> {
        Ok(Self::stored(paths)?.filter(|read| read.valid_for == config.stamp()))
    }

    /// The credential on the machine, for any plane.
    fn stored(paths: &Paths) -> Result<Option<Self>, Failure> {
        let path = paths.credential();
        let bytes =
            files::read(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    pub(crate) fn write(&self, paths: &Paths) -> Result<(), Failure> {
        let path = paths.credential();
        let text = serde_json::to_vec(self).map_err(Failure::new)?;
        files::write(&path, &text)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
    }

    /// When another one should be asked for: two thirds of its life are over.
    pub(crate) fn renewal(&self) -> Timestamp {
        let life = self.expires_at.duration_since(self.issued_at);
        self.issued_at.checked_add(life / 3 * 2).unwrap_or(self.expires_at)
    }

    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// The management plane, as itself and as us.
    pub(crate) fn api(&self, config: &Config) -> Result<Api, Failure> {
        let trust = Trust::pinned(&config.ca).map_err(|error| Failure::new(format!("caData: {error}")))?;
        Ok(Api::new(config.server.clone(), trust, config.route()?, Some(self.token.clone())))
    }

    /// Asks the plane whether it accepts the credential. One without rights is accepted: rights come and go.
    pub(crate) async fn acceptance(&self, config: &Config) -> Result<Acceptance, Failure> {
        let answer = self.api(config)?.get(&format!("{}/{}", reports(config), config.machine())).await;
        Ok(match answer {
            Ok(_) => Acceptance::Accepted,
            Err(error) if error.is_status(401) => Acceptance::Refused,
            Err(error) if error.is_status(403) || error.is_status(404) => Acceptance::Accepted,
            Err(_) => Acceptance::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(server: &str) -> Config {
        let text = format!(
            r#"{{"apiVersion":"agent.capstan.dev/v1alpha1","kind":"AgentConfig","server":"{server}","caData":"",
                "namespace":"n","machine":"m","machineID":"i","planPublicKey":"{}="}}"#,
            "A".repeat(43)
        );
        Config::parse(text.as_bytes()).expect("a configuration")
    }

    /// A report with the answer to a request.
    fn answered(request: &Request, token: &str) -> Value {
        let Request { public_key, nonce } = request;
        let sealed = TokenQuery { machine_id: "i", public_key, nonce }.seal(token).expect("sealed");
        json!({"spec": {"credential": {
            "sealedToken": sealed, "issuedAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-31T00:00:00Z",
        }}})
    }

    #[test]
    fn a_key_is_made_once_and_a_credential_matches_its_request_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = Paths::new(folder.path().to_owned());
        assert!(Key::read(&paths).expect("no error").is_none());
        let key = Key::take(&paths).expect("a key");
        let again = Key::take(&paths).expect("the key");
        assert_eq!(key.0.serialize_pem(), again.0.serialize_pem());
        let (here, there) = (config("https://here"), config("https://there"));
        let (request, later) = (key.request(), key.request());
        assert_eq!(request.public_key, later.public_key);
        let report = answered(&request, "secret");
        let credential = key.open(&request, &here, &report).expect("an answer");
        assert_eq!(credential.token.expose(), "secret");
        assert_eq!(key.open(&later, &here, &report), None, "it asked again since");
        let other = Key(KeyPair::generate().expect("a key"));
        assert_eq!(other.open(&request, &here, &report), None);
        assert_eq!(key.open(&request, &here, &json!({})), None);
        assert_eq!(credential.renewal(), "2026-01-21T00:00:00Z".parse().expect("a time"));
        assert!(credential.is_over("2026-01-31T00:00:00Z".parse().expect("a time")));
        assert!(!format!("{credential:?}").contains("secret\""), "the token is not printed");

        credential.write(&paths).expect("written");
        let read = |config: &Config| Credential::read(&paths, config).expect("read");
        assert_eq!((read(&here), read(&there)), (Some(credential), None));
        request.write(&paths).expect("written");
        assert_eq!(Request::read(&paths, &key).expect("read"), None, "that one was answered");
        later.write(&paths).expect("written");
        assert_eq!(Request::read(&paths, &key).expect("read"), Some(later));
        assert_eq!(Request::read(&paths, &other).expect("read"), None, "that was for another key");
        std::fs::write(paths.key(), "nonsense").expect("written");
        assert!(Key::take(&paths).is_err(), "a key that was damaged is not replaced without a person");
    }
}
