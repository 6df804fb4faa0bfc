//! Succession of plan keys: how a machine that trusts one key comes to trust the next one.
//!
//! A link names a key and its successor, and the former key has signed it. The plan Secret contains all links of its
//! cluster, so a machine that was off while keys were replaced follows from the key it trusts to the newest one. A
//! machine trusts only the newest key: a link that is signed with an old key later has no effect.

use std::fmt;

use crate::{PublicKey, SecretData, SecretError, SigningKey, keys, limits};

const DOMAIN: &[u8] = b"capstan.dev/plan-key-succession/v1\0";
const KEY: usize = 32;
const SIGNATURE: usize = 64;
const LINK: usize = KEY + KEY + SIGNATURE;

/// One link: a key, the next one, and the signature of the former.
#[derive(Clone, PartialEq, Eq)]
struct Link {
    from: PublicKey,
    to: PublicKey,
    signature: [u8; SIGNATURE],
}

impl Link {
    fn is_signed(&self) -> bool {
        self.from.has_signed(&sentence(&self.from, &self.to), &self.signature)
    }
}

/// The plan keys of a cluster in the order in which they followed each other. Links are not verified before they are used.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Successions(Vec<Link>);

impl fmt::Debug for Successions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|link| format!("{} -> {}", link.from.id(), link.to.id())))
            .finish()
    }
}

impl Successions {
    /// Whether no key was ever replaced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds that `old` is followed by `new`. The oldest link is dropped if there are too many.
    #[must_use]
    pub fn followed_by(&self, old: &SigningKey, new: PublicKey) -> Self {
        let from = old.public();
        let signature = old.sign(&sentence(&from, &new));
        let signature = signature.try_into().expect("an Ed25519 signature has 64 bytes");
        let mut links = self.0.clone();
        links.push(Link { from, to: new, signature });
        links.drain(..links.len().saturating_sub(limits::SUCCESSIONS));
        Self(links)
    }

    /// The key to trust instead of `trusted`: the end of the links that lead away from it, or the key itself. The links are
    /// followed once and in order, so that no sequence of links makes this endless.
    pub fn heir(&self, trusted: PublicKey) -> PublicKey {
        let mut heir = trusted;
        for link in &self.0 {
            if link.from == heir && link.is_signed() {
                heir = link.to;
            }
        }
        heir
    }

    /// The keys that `key` has followed.
    pub fn before(&self, key: PublicKey) -> impl Iterator<Item = PublicKey> {
        self.0.iter().map(|link| link.from).filter(move |from| *from != key && self.heir(*from) == key)
    }

    /// The links as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let link = |link: &Link| [&link.from.as_bytes()[..], link.to.as_bytes(), &link.signature].concat();
        self.0.iter().flat_map(link).collect()
    }

    /// Parses links.
    ///
    /// # Errors
    /// If the bytes are not a number of links within the limit.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SecretError> {
        let malformed = || SecretError::Malformed(keys::SUCCESSIONS);
        if !bytes.len().is_multiple_of(LINK) || bytes.len() > limits::SUCCESSIONS * LINK {
            return Err(malformed());
        }
        let link = |bytes: &[u8]| {
            let (from, rest) = bytes.split_at_checked(KEY)?;
            let (to, signature) = rest.split_at_checked(KEY)?;
            Some(Link {
                from: PublicKey::from_bytes(from).ok()?,
                to: PublicKey::from_bytes(to).ok()?,
                signature: signature.try_into().ok()?,
            })
        };
        bytes
            .chunks_exact(LINK)
            .map(|bytes| link(bytes).ok_or_else(malformed))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The links as additional data of the plan Secret; nothing if no key was ever replaced, because earlier agents do not know
    /// them.
    pub fn to_secret_data(&self) -> SecretData {
        let data = (!self.is_empty()).then(|| (keys::SUCCESSIONS.to_owned(), self.to_bytes()));
        data.into_iter().collect()
    }

    /// Reads the links from the data of a plan Secret.
    ///
    /// # Errors
    /// If they are malformed.
    pub fn from_secret_data(data: &SecretData) -> Result<Self, SecretError> {
        data.get(keys::SUCCESSIONS).map_or_else(|| Ok(Self::default()), |bytes| Self::from_bytes(bytes))
    }
}

/// What is signed. All parts have a fixed length.
fn sentence(from: &PublicKey, to: &PublicKey) -> Vec<u8> {
    [DOMAIN, from.as_bytes(), to.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed(&[seed; 32])
    }

    fn chain(seeds: &[u8]) -> Successions {
        seeds.windows(2).fold(Successions::default(), |links, pair| {
            links.followed_by(&key(pair[0]), key(pair[1]).public())
        })
    }

    #[test]
    fn a_machine_finds_its_way_from_any_key_it_may_know() {
        let links = chain(&[1, 2, 3, 4]);
        for known in 1..=4 {
            assert_eq!(links.heir(key(known).public()), key(4).public(), "from {known}");
        }
        assert_eq!(links.heir(key(9).public()), key(9).public(), "a stranger stays one");
        assert_eq!(links.before(key(4).public()).count(), 3);
        assert_eq!(links.before(key(3).public()).count(), 0, "the third key is not the last one");
        let read = Successions::from_secret_data(&links.to_secret_data()).unwrap();
        assert_eq!(read, links);
    }

    #[test]
    fn only_the_key_itself_names_its_successor() {
        let mut forged = chain(&[1, 2]);
        forged.0[0].to = key(7).public();
        assert_eq!(forged.heir(key(1).public()), key(1).public(), "another key put in");
        let stolen = chain(&[7, 8]).0[0].signature;
        let mut forged = chain(&[1, 2]);
        forged.0[0].signature = stolen;
        assert_eq!(forged.heir(key(1).public()), key(1).public(), "another signature put in");
        // The machine trusts the second key by now. What the first one signs has no effect any more.
        let late = chain(&[1, 2]).followed_by(&key(1), key(7).public());
        assert_eq!(late.heir(key(2).public()), key(2).public());
        assert_eq!(late.heir(key(1).public()), key(2).public(), "the first link counts");
        let circle = chain(&[1, 2, 1, 2, 1]);
        assert_eq!(circle.heir(key(1).public()), key(1).public(), "a circle ends");
    }

    #[test]
    fn there_are_not_more_links_than_agents_read() {
        let seeds: Vec<u8> = (1..=u8::try_from(limits::SUCCESSIONS).unwrap() + 5).collect();
        let links = chain(&seeds);
        assert_eq!(links.0.len(), limits::SUCCESSIONS);
        assert!(Successions::from_bytes(&links.to_bytes()).is_ok());
        let last = key(*seeds.last().unwrap()).public();
        assert_eq!(links.heir(key(6).public()), last);
        assert_ne!(links.heir(key(1).public()), last, "the oldest link was dropped");
        let mut more = links.to_bytes();
        more.extend(chain(&[1, 2]).to_bytes());
        assert!(Successions::from_bytes(&more).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(links) = Successions::from_bytes(&bytes) {
                prop_assert_eq!(links.to_bytes(), bytes);
                let trusted = key(1).public();
                prop_assert_eq!(links.heir(trusted), trusted);
            }
        }
    }
}
