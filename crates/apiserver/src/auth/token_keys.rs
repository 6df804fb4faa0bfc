//! The keys of tokens and the file that keeps them: one key signs, and earlier ones verify for a while.
//!
//! The file holds the keys in PEM format, the one that signs first. Before each earlier key a line says until when it verifies.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use capstan_files::Durability;
use capstan_pki::pem;
use jiff::Timestamp;
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde::Deserialize;
use serde_json::{Value, json};

use super::token::{TokenKey, generate};
use crate::{
    status::ApiError,
    store::{Storage, TOKEN_KEYS},
};

/// What the line before an earlier key begins with.
const UNTIL: &str = "until: ";
/// Earlier keys that are kept, newest first.
const MOST: usize = 8;

/// Why there is no signing key for tokens.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("cannot use {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// The file does not contain a private key.
    #[error("{} holds no private key: move it away, and a new one is made", .0.display())]
    Content(PathBuf),
    /// No key can be generated.
    #[error("cannot make a key")]
    Generate,
}

/// Signs tokens and knows its own.
pub(crate) struct TokenKeys {
    keys: RwLock<Arc<Keys>>,
    /// Held while the file is written.
    writing: Mutex<()>,
    file: Option<PathBuf>,
}

struct Keys {
    current: Kept,
    earlier: Vec<(Timestamp, Kept)>,
}

/// A key as it is kept.
#[derive(Clone)]
struct Kept {
    key: Arc<TokenKey>,
    pem: Arc<str>,
}

impl Kept {
    fn generate() -> Result<Self, KeyError> {
        let der = generate().ok_or(KeyError::Generate)?;
        let key = TokenKey::from_pkcs8(&der).ok_or(KeyError::Generate)?;
        Ok(Self { key: Arc::new(key), pem: pem::encode("PRIVATE KEY", &der).into() })
    }

    fn parse(text: &str) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).ok()?;
        let key = TokenKey::from_pkcs8(der.secret_pkcs8_der())?;
        Some(Self { key: Arc::new(key), pem: text.into() })
    }
}

impl Keys {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(UNTIL);
        let current = Kept::parse(parts.next()?)?;
        let earlier = parts.map(|part| {
            let (until, key) = part.split_once('\n')?;
            Some((until.trim().parse().ok()?, Kept::parse(key)?))
        });
        Some(Self { current, earlier: earlier.collect::<Option<_>>()? })
    }

    fn text(&self) -> String {
        let earlier = self.earlier.iter().map(|(until, kept)| format!("{UNTIL}{until}\n{}", kept.pem));
        earlier.fold(self.current.pem.to_string(), |text, more| text + &more)
    }

    /// What is known of them, without any secret.
    fn shown(&self) -> Value {
        let earlier =
            self.earlier.iter().map(|(until, kept)| json!({"id": kept.key.id(), "verifiesUntil": until}));
        json!({"signs": self.current.key.id(), "earlier": earlier.collect::<Vec<_>>()})
    }
}

impl TokenKeys {
    /// The keys of a store: read from its folder, made the first time.
    pub(crate) fn open(storage: &Storage) -> Result<Self, KeyError> {
        let (keys, file) = match storage {
            Storage::Memory => (Keys { current: Kept::generate()?, earlier: Vec::new() }, None),
            Storage::Folder(folder) => {
                let path = folder.join(TOKEN_KEYS);
                let failed = |error| KeyError::File(path.clone(), error);
                if !path.try_exists().map_err(failed)? {
                    write(&path, &Kept::generate()?.pem)?;
                }
                let text = fs::read_to_string(&path).map_err(failed)?;
                (Keys::parse(&text).ok_or_else(|| KeyError::Content(path.clone()))?, Some(path))
            }
        };
        Ok(Self { keys: RwLock::new(Arc::new(keys)), writing: Mutex::default(), file })
    }

    /// Signs with a new key from now on. Tokens of the key before are valid until `keep_until`, if they do not expire before. Blocks
    /// until the new key is on disk.
    pub(crate) fn replace(&self, keep_until: Timestamp, now: Timestamp) -> Result<Value, KeyError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.keys();
        let mut earlier = vec![(keep_until, before.current.clone())];
        // An earlier end counts for all keys: tokens of older ones must not live longer.
        earlier.extend(before.earlier.iter().map(|(until, kept)| (keep_until.min(*until), kept.clone())));
        earlier.retain(|(until, _)| *until > now);
        earlier.truncate(MOST);
        let keys = Keys { current: Kept::generate()?, earlier };
        if let Some(file) = &self.file {
            write(file, &keys.text())?;
        }
        let shown = keys.shown();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        Ok(shown)
    }

    /// Which key signs, and which earlier ones still verify.
    pub(crate) fn list(&self) -> Value {
        self.keys().shown()
    }

    /// A token that says this; nothing if there is no randomness.
    pub(crate) fn sign(&self, claims: &Value) -> Option<String> {
        self.keys().current.key.sign(claims)
    }

    /// What a token says, if one of the keys signed it that verify at this time.
    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Option<Value> {
        let keys = self.keys();
        let earlier = keys.earlier.iter().filter(|(until, _)| *until > now).map(|(_, kept)| kept);
        std::iter::once(&keys.current).chain(earlier).find_map(|kept| kept.key.verify(token))
    }

    fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Replaces the key as a request asks for. `keepOldUntil` is until when tokens of the key before are valid; without it none is.
pub(crate) async fn replace(keys: Arc<TokenKeys>, now: Timestamp, body: &[u8]) -> Result<Value, ApiError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Asked {
        keep_old_until: Option<Timestamp>,
    }
    let asked: Asked = serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("the request cannot be used: {error}")))?;
    let replace = move || keys.replace(asked.keep_old_until.unwrap_or(now), now);
    let replaced =
        tokio::task::spawn_blocking(replace).await.map_err(|error| ApiError::internal(&error.to_string()))?;
    replaced.map_err(|error| ApiError::internal(&capstan_text::chain(&error)))
}

fn write(path: &Path, text: &str) -> Result<(), KeyError> {
    capstan_files::write(path, text.as_bytes(), 0o600, Durability::Lasting)
        .map_err(|error| KeyError::File(path.to_owned(), error.source))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_key_lasts_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::Folder(folder.path().to_owned());
        let token = TokenKeys::open(&storage).unwrap().sign(&json!({"a": 1})).unwrap();
        assert!(TokenKeys::open(&storage).unwrap().verify(&token, at(0)).is_some());
        let path = folder.path().join(TOKEN_KEYS);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "nonsense").unwrap();
        assert!(matches!(TokenKeys::open(&storage), Err(KeyError::Content(_))));
    }

    #[test]
    fn earlier_keys_verify_until_their_time_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::Folder(folder.path().to_owned());
        let keys = TokenKeys::open(&storage).unwrap();
        let first = keys.sign(&json!({"a": 1})).unwrap();
        keys.replace(at(100), at(0)).unwrap();
        let second = keys.sign(&json!({"a": 2})).unwrap();
        keys.replace(at(200), at(10)).unwrap();
        let third = keys.sign(&json!({"a": 3})).unwrap();
        for keys in [keys, TokenKeys::open(&storage).unwrap()] {
            let known = |now| [&first, &second, &third].map(|token| keys.verify(token, at(now)).is_some());
            assert_eq!(known(99), [true, true, true]);
            assert_eq!(known(100), [false, true, true]);
            assert_eq!(known(200), [false, false, true]);
            assert_eq!(keys.list()["earlier"].as_array().unwrap().len(), 2);
        }
        // A key that leaked: nothing of before is valid any more, and the file forgets it.
        let keys = TokenKeys::open(&storage).unwrap();
        keys.replace(at(20), at(20)).unwrap();
        let known = [&first, &second, &third].map(|token| keys.verify(token, at(20)).is_some());
        assert_eq!(known, [false, false, false]);
        let text = fs::read_to_string(folder.path().join(TOKEN_KEYS)).unwrap();
        assert_eq!(text.matches("BEGIN PRIVATE KEY").count(), 1);
    }

    #[test]
    fn there_are_not_more_earlier_keys_than_can_be_tried() {
        let keys = TokenKeys::open(&Storage::Memory).unwrap();
        for _ in 0..2 * MOST {
            keys.replace(at(100), at(0)).unwrap();
        }
        assert_eq!(keys.list()["earlier"].as_array().unwrap().len(), MOST);
    }
}
