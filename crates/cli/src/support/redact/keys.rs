//! Names of fields, variables and settings that indicate a secret. Pure.

/// Parts of a name, without what is no letter or digit.
const SECRET: [&str; 16] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "token",
    "secret",
    "credential",
    "privatekey",
    "clientkey",
    "accesskey",
    "apikey",
    "signingkey",
    "encryptionkey",
    "kubeconfig",
    "authorization",
    "bearer",
];
/// Ends of names that say something about a secret, and are none.
const ABOUT: [&str; 21] = [
    "name",
    "names",
    "namespace",
    "kind",
    "type",
    "ref",
    "refs",
    "reference",
    "digest",
    "hash",
    "path",
    "file",
    "dir",
    "mode",
    "reason",
    "ttl",
    "seconds",
    "expiration",
    "expires",
    "count",
    "version",
];

/// Lower-case letters and digits only, so that `client-key-data`, `clientKeyData` and `CLIENT_KEY_DATA` are equal.
pub(super) fn plain(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether the value of a field of this name is a secret.
pub(super) fn is_secret(key: &str) -> bool {
    // `tls.key`, `ca.key`, `id_ed25519.key`.
    key.ends_with(".key") || speaks_of_one(key) && !is_about(key)
}

/// Whether the field is about a secret without being one, as `credentialsRef` or `dataSecretName`.
pub(super) fn is_reference(key: &str) -> bool {
    speaks_of_one(key) && is_about(key)
}

fn speaks_of_one(key: &str) -> bool {
    let name = plain(key);
    SECRET.iter().any(|part| name.contains(part))
}

/// `dataSecretName` and `TOKEN_TTL` end with a word of their own; `passwordid` does not.
fn is_about(key: &str) -> bool {
    let words = words(key);
    words.len() > 1 && words.last().is_some_and(|last| ABOUT.contains(&last.as_str()))
}

/// The words of a name, by signs between them and by capital letters in it.
fn words(key: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for letter in key.chars() {
        let begins =
            !before.is_ascii_alphanumeric() || letter.is_ascii_uppercase() && !before.is_ascii_uppercase();
        if letter.is_ascii_alphanumeric() {
            match words.last_mut().filter(|_| !begins) {
                Some(word) => word.push(letter.to_ascii_lowercase()),
                None => words.push(letter.to_ascii_lowercase().to_string()),
            }
        }
        before = letter;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_promise_secrets_or_only_speak_of_them() {
        for key in [
            "password",
            "DB_PASSWORD",
            "sshPassword",
            "token",
            "agent-token",
            "joinToken",
            "etcd-s3-secret-key",
            "etcd-s3-access-key",
            "client-key-data",
            "privateKey",
            "tls.key",
            "apiKey",
            "kubeconfig",
            "Authorization",
            "secret",
            "credentials",
            "passwordid",
            "SECRETNAMEVALUE",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in [
            "dataSecretName",
            "secretRef",
            "credentialsRef",
            "token-file",
            "TOKEN_TTL",
            "secretNamespace",
            "keyId",
            "key",
            "publicKey",
            "name",
            "version",
            "tokenDigest",
            "bootstrapTokenTtl",
            "machineID",
        ] {
            assert!(!is_secret(key), "{key}");
        }
        assert!(is_reference("credentialsRef") && is_reference("secretRef") && !is_reference("configRef"));
    }
}
