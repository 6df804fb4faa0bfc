//! The machine's key and certificate. The key is made here and never leaves.

use capstan_agent::https::Trust;
use capstan_pki::issue;
use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};

use crate::config::Config;
use crate::paths::Paths;
use crate::{Failure, files};

/// Before a certificate on the disk: at which plane it is of use.
const STAMP: &str = "# for ";

/// Organisation in every machine's certificate.
const GROUP: &str = "capstan:machines";

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

    /// Asks for a certificate: who we are, and nothing besides.
    pub(crate) fn request(&self, config: &Config) -> Result<String, Failure> {
        let request = issue::request(&self.0, issue::subject(&config.user(), Some(GROUP)));
        request.map_err(|error| Failure::new(format!("cannot write a certificate request: {error}")))
    }

    /// Looks at a certificate in PEM, if it is for this key.
    pub(crate) fn certificate(&self, pem: &str) -> Option<Certificate> {
        let read = capstan_pki::Certificate::first_in(pem.as_bytes())?;
        let is_ours = read.public_key == self.0.subject_public_key_info();
        is_ours.then(|| Certificate { pem: pem.to_owned(), read })
    }
}

/// A certificate for the machine's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pem: String,
    pub(crate) read: capstan_pki::Certificate,
}

impl Certificate {
    /// The certificate on the machine, if it has one for its key and for the plane it obeys. One without a stamp is
    /// from before there were any, and not from before a hand-over, which brings a token.
    pub(crate) fn read(paths: &Paths, config: &Config, key: &Key) -> Result<Option<Self>, Failure> {
        let path = paths.certificate();
        let text =
            files::read(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let Some(text) = text.and_then(|text| String::from_utf8(text).ok()) else { return Ok(None) };
        let (is_ours, pem) = match text.strip_prefix(STAMP).and_then(|rest| rest.split_once('\n')) {
            Some((stamp, pem)) => (stamp == config.stamp(), pem),
            None => (config.token().is_none(), text.as_str()),
        };
        Ok(key.certificate(pem).filter(|_| is_ours))
    }

    /// Writes it down together with where it is of use: in one file, so that neither is there without the other.
    pub(crate) fn write(&self, paths: &Paths, config: &Config) -> Result<(), Failure> {
        let path = paths.certificate();
        files::write(&path, format!("{STAMP}{}\n{}", config.stamp(), self.pem).as_bytes())
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
    }

    /// When another one should be asked for: two thirds of its life are over.
    pub(crate) fn renewal(&self) -> Timestamp {
        self.read.renewal()
    }

    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.read.not_after <= now
    }

    /// Whom we believe, and that it is us who ask.
    pub(crate) fn trust(&self, config: &Config, key: &Key) -> Result<Trust, Failure> {
        let key = key.0.serialize_pem();
        Trust::mutual(&config.ca, self.pem.as_bytes(), key.as_bytes())
            .map_err(|error| Failure::new(format!("caData or the certificate cannot be used: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::CertificateParams;

    #[test]
    fn a_key_is_made_once_and_a_certificate_is_for_it_or_for_somebody_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = Paths::new(folder.path().to_owned());
        assert!(Key::read(&paths).expect("no error").is_none());
        let key = Key::take(&paths).expect("a key");
        let again = Key::take(&paths).expect("the key");
        assert_eq!(key.0.serialize_pem(), again.0.serialize_pem());
        let other = KeyPair::generate().expect("a key");
        let signed = |key: &KeyPair| {
            let mut params = CertificateParams::new([]).expect("params");
            params.not_before = rcgen::date_time_ymd(2026, 1, 1);
            params.not_after = rcgen::date_time_ymd(2026, 1, 31);
            params.self_signed(key).expect("signed").pem()
        };
        let certificate = key.certificate(&signed(&key.0)).expect("for this key");
        assert_eq!(certificate.renewal(), "2026-01-21T00:00:00Z".parse().expect("a time"));
        assert!(certificate.is_over("2026-01-31T00:00:00Z".parse().expect("a time")));
        assert_eq!(key.certificate(&signed(&other)), None);
        assert_eq!(key.certificate("nonsense"), None);
        let config = |server: &str, token: &str| {
            let text = format!(
                r#"{{"apiVersion":"agent.capstan.dev/v1alpha1","kind":"AgentConfig","server":"{server}","caData":"",
                    "namespace":"n","machine":"m","machineID":"i",{token}
                    "planPublicKey":"{}="}}"#,
                "A".repeat(43)
            );
            Config::parse(text.as_bytes()).expect("a configuration")
        };
        let (ours, theirs) = (config("https://here", ""), config("https://there", r#""token":"t","#));
        let read = |config: &Config| Certificate::read(&paths, config, &key).expect("read");
        certificate.write(&paths, &ours).expect("written");
        assert_eq!((read(&ours), read(&theirs)), (Some(certificate.clone()), None));
        // From before there were stamps.
        files::write(&paths.certificate(), certificate.pem.as_bytes()).expect("written");
        assert_eq!((read(&ours), read(&theirs)), (Some(certificate), None));
        std::fs::write(paths.key(), "nonsense").expect("written");
        assert!(Key::take(&paths).is_err(), "a key that was damaged is not replaced behind anybody's back");
    }
}
