//! The tokens with which machines join, in the form of k3s that pins the CA of the cluster:
//! `K10<digest of the CA>::<user>:<password>`. Pure.
//!
//! How k3s v1.28 to v1.36 reads a token (`pkg/clientaccess/token.go`, `pkg/passwd/passwd.go`,
//! `pkg/daemons/control/deps/deps.go`):
//!
//! - The users are `server` and `node`. A server accepts the password of `token` from `server`, who may fetch the keys of
//!   all CAs, and that of `agent-token` from `node`, who may not. Without `agent-token` both passwords are the same.
//! - A machine that joins compares the digest with that of `/cacerts`, which is the file `server-ca.crt` of the server. A
//!   token without a digest accepts any CA. A server with a `server-ca.crt` of its own trusts that file only.
//! - A server strips everything but the password before it stores or compares it. So the long and the short form of a
//!   token are the same token, also in the key of the bootstrap data in etcd.

use capstan_pki::{der, pem};
use capstan_plan::{Content, Digest, SecretText};

use crate::Role;

const PREFIX: &str = "K10";

/// What the machine shows to join. In the short form if k3s may compute another digest of the CA than Capstan does.
pub(super) fn shown(role: Role, token: &SecretText, ca: Option<&Content>) -> String {
    let user = if role.is_server() { "server" } else { "node" };
    let password = password(token);
    match ca.and_then(ca_digest) {
        Some(digest) => format!("{PREFIX}{digest}::{user}:{password}"),
        None => password.to_owned(),
    }
}

/// The password of a token, which a user may have brought in the long form.
pub(super) fn password(token: &SecretText) -> &str {
    let text = token.expose();
    let credentials = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once("::"));
    let password = credentials.and_then(|(_, credentials)| credentials.split_once(':'));
    password.map_or(text, |(_, password)| password)
}

/// The digest by which k3s knows a CA: that of the file or, if the file is a chain, that of its root. None where more than
/// one certificate may be that root.
fn ca_digest(file: &Content) -> Option<Digest> {
    let bytes = file.as_bytes();
    let blocks = std::str::from_utf8(bytes).map(|text| pem::decode_all(pem::CERTIFICATE, text)).ok()?;
    if blocks.len() <= 1 {
        return Some(file.digest());
    }
    let chain: Vec<Names<'_>> = blocks.iter().map(|der| Names::of(der)).collect::<Option<_>>()?;
    let (first, others) = chain.split_first()?;
    let mut last = first;
    // No chain is longer than the file.
    for _ in &chain {
        let issuers: Vec<&Names<'_>> = others.iter().filter(|other| other.subject == last.issuer).collect();
        match issuers[..] {
            // k3s finds no chain of certificates, and hashes the file.
            [] => return Some(file.digest()),
            // A self-signed CA beside another one of the same name: k3s looks at keys and signatures.
            [issuer] if first.is_self_issued() && issuer.der != first.der => return None,
            [issuer] if issuer.is_self_issued() => return Some(Digest::of(issuer.der)),
            [issuer] => last = issuer,
            _ => return None,
        }
    }
    None
}

/// Who a certificate is for, and who signed it.
struct Names<'a> {
    der: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
}

impl<'a> Names<'a> {
    fn of(der: &'a [u8]) -> Option<Self> {
        const VERSION: u8 = 0xa0;
        let signed = der::read(der::SEQUENCE, der)?.content;
        let fields = der::read(der::SEQUENCE, signed)?.content;
        let fields = der::read(VERSION, fields).map_or(fields, |version| version.rest);
        let serial = der::read(der::INTEGER, fields)?;
        let algorithm = der::read(der::SEQUENCE, serial.rest)?;
        let issuer = der::read(der::SEQUENCE, algorithm.rest)?;
        let validity = der::read(der::SEQUENCE, issuer.rest)?;
        let subject = der::read(der::SEQUENCE, validity.rest)?;
        Some(Self { der, issuer: issuer.whole, subject: subject.whole })
    }

    fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_pki::issue::{self, Identity};
    use rcgen::BasicConstraints;

    const FILE: &str = "the file";

    fn ca(name: &str, by: Option<&Identity>) -> Identity {
        let params = issue::authority(name, BasicConstraints::Unconstrained);
        match by {
            None => issue::self_signed(&params),
            Some(by) => issue::signed(&params, &issue::issuer(by).expect("an issuer")),
        }
        .expect("a certificate")
    }

    fn of_der(identity: &Identity) -> Digest {
        Digest::of(&pem::decode_only(pem::CERTIFICATE, &identity.certificate).expect("PEM"))
    }

    /// As `hashCA` of k3s has it.
    #[test]
    fn a_ca_is_known_by_its_file_and_a_chain_by_its_root() {
        let root = ca("root", None);
        let middle = ca("middle", Some(&root));
        let low = ca("low", Some(&middle));
        let (stranger, namesake) = (ca("stranger", None), ca("root", None));
        let text = |all: &[&Identity]| all.iter().map(|one| one.certificate.as_str()).collect::<String>();
        for (what, file, expected) in [
            ("one certificate", text(&[&root]), Ok(None)),
            ("with a comment", format!("# root\n{}", text(&[&root])), Ok(None)),
            ("with Windows lines", text(&[&root]).replace('\n', "\r\n"), Ok(None)),
            ("nothing that is a certificate", FILE.to_owned(), Ok(None)),
            ("a chain of two", text(&[&middle, &root]), Ok(Some(&root))),
            ("a chain of three", text(&[&low, &middle, &root]), Ok(Some(&root))),
            ("in any order", text(&[&low, &root, &middle]), Ok(Some(&root))),
            ("with a CA of another cluster", text(&[&middle, &stranger, &root]), Ok(Some(&root))),
            ("without its root", text(&[&low, &middle]), Ok(None)),
            ("two that have nothing in common", text(&[&root, &stranger]), Ok(None)),
            ("the same twice", text(&[&root, &root]), Ok(Some(&root))),
            ("a root and its namesake", text(&[&root, &namesake]), Err(())),
            ("two roots of one name", text(&[&middle, &root, &namesake]), Err(())),
        ] {
            let file = Content::from(file);
            let expected = expected.map(|root| root.map_or(file.digest(), of_der)).ok();
            assert_eq!(ca_digest(&file), expected, "{what}");
        }
        let broken =
            format!("{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", text(&[&root]));
        assert_eq!(ca_digest(&Content::from(broken)), None, "k3s cannot read it either");
    }

    #[test]
    fn tokens_have_the_user_of_the_role_and_pin_the_ca() {
        let file = Content::from(FILE);
        let digest = file.digest();
        for (token, password) in [
            ("secret", "secret"),
            ("se::cr:et", "se::cr:et"),
            ("K10", "K10"),
            ("K10abc", "K10abc"),
            ("K10::server:secret", "secret"),
            ("K10abc::node:se::cr:et", "se::cr:et"),
        ] {
            let token = SecretText::new(token);
            for (role, user) in [(Role::Init, "server"), (Role::Server, "server"), (Role::Worker, "node")] {
                assert_eq!(shown(role, &token, Some(&file)), format!("K10{digest}::{user}:{password}"));
                assert_eq!(shown(role, &token, None), password);
            }
        }
    }
}
