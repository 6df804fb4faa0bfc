//! Join tokens of machines that dial out, as Secrets: their key, expiry, number of uses, and the Hosts made with them. Pure.
//!
//! `capstan host token` writes the Secret. The controller of HostRegistrations only reads it.

use capstan_api::access::{MACHINE_ACCOUNTS, joining_host};
use capstan_api::infrastructure::HostFacts;
use capstan_plan::host_join::JoinKey;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding, RoleRef, Subject};
use kube::Resource as _;
use kube::api::ObjectMeta;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Type of the Secret of a join token.
pub const SECRET_TYPE: &str = "capstan.dev/host-token";
/// Label of the objects of a join token, with its name.
pub const TOKEN_LABEL: &str = "capstan.dev/host-token";
/// Type of the Secret with the key that signs instructions to machines of its namespace.
pub const INSTRUCTION_KEY_TYPE: &str = "capstan.dev/host-instruction-key";
/// Name of that Secret.
pub const INSTRUCTION_KEY: &str = "capstan-host-instruction-key";
/// The key in PKCS#8, in that Secret.
pub const PRIVATE: &str = "private";

/// Longest name of a join token: it is part of other names.
pub const LONGEST_NAME: usize = 40;
/// Most uses of one join token.
pub const MOST_USES: u32 = 1000;

mod keys {
    pub(super) const KEY: &str = "key";
    pub(super) const EXPIRES: &str = "expires";
    pub(super) const USES: &str = "uses";
    pub(super) const LABELS: &str = "labels";
    pub(super) const FAILURE_DOMAIN: &str = "failureDomain";
    pub(super) const APPROVE: &str = "approve";
}

/// Name of the Secret of a join token.
pub fn secret_name(token: &str) -> String {
    format!("host-token-{token}")
}

/// A join token, as the management plane knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostToken {
    /// Its name.
    pub name: String,
    /// Key of the proofs.
    pub key: JoinKey,
    /// A machine that registers later is refused.
    pub expires: Timestamp,
    /// Number of machines that can register.
    pub uses: u32,
    /// Labels of the Hosts.
    pub labels: BTreeMap<String, String>,
    /// Failure domain of the Hosts.
    pub failure_domain: Option<String>,
    /// Which machines are approved without a person.
    pub approval: Approval,
}

/// Why a Secret is not a join token: the key that is missing or malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("data.{0} is missing or malformed")]
pub struct HostTokenError(pub &'static str);

impl HostToken {
    /// The `data` of the Secret.
    pub fn data(&self) -> BTreeMap<String, ByteString> {
        let labels = serde_json::to_string(&self.labels).expect("texts can be written as JSON");
        let mut data = BTreeMap::from([
            (keys::KEY, self.key.as_bytes().to_vec()),
            (keys::EXPIRES, self.expires.to_string().into_bytes()),
            (keys::USES, self.uses.to_string().into_bytes()),
            (keys::LABELS, labels.into_bytes()),
            (keys::APPROVE, self.approval.to_string().into_bytes()),
        ]);
        if let Some(domain) = &self.failure_domain {
            data.insert(keys::FAILURE_DOMAIN, domain.clone().into_bytes());
        }
        data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value))).collect()
    }

    /// Reads the Secret of the token with this name.
    ///
    /// # Errors
    /// If a key is missing or malformed.
    pub fn read(name: &str, secret: &Secret) -> Result<Self, HostTokenError> {
        let text = |key: &'static str| {
            let value = secret.data.as_ref().and_then(|data| data.get(key));
            value.and_then(|value| std::str::from_utf8(&value.0).ok())
        };
        fn parse<T: FromStr>(key: &'static str, text: Option<&str>) -> Result<T, HostTokenError> {
            text.and_then(|text| text.parse().ok()).ok_or(HostTokenError(key))
        }
        let key = secret.data.as_ref().and_then(|data| data.get(keys::KEY));
        let key = key.and_then(|key| JoinKey::from_bytes(&key.0).ok()).ok_or(HostTokenError(keys::KEY))?;
        let labels = text(keys::LABELS).and_then(|text| serde_json::from_str(text).ok());
        Ok(Self {
            name: name.to_owned(),
            key,
            expires: parse(keys::EXPIRES, text(keys::EXPIRES))?,
            uses: parse(keys::USES, text(keys::USES))?,
            labels: labels.ok_or(HostTokenError(keys::LABELS))?,
            failure_domain: text(keys::FAILURE_DOMAIN).map(str::to_owned),
            approval: parse(keys::APPROVE, text(keys::APPROVE))?,
        })
    }
}

/// The objects that give a join token its right: to register machines, and to read a registration whose random name its
/// holder has chosen.
pub struct TokenRights {
    /// The account whose token is in the join token.
    pub account: ServiceAccount,
    /// Its right.
    pub role: Role,
    /// The connection of both.
    pub binding: RoleBinding,
}

impl HostToken {
    /// The Secret.
    pub fn secret(&self) -> Secret {
        Secret {
            metadata: self.metadata(secret_name(&self.name)),
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(self.data()),
            ..Secret::default()
        }
    }

    /// The rights of the token. They go with its Secret.
    pub fn rights(&self, namespace: &str, secret: &Secret) -> TokenRights {
        let name = secret_name(&self.name);
        let metadata = |name: &str| ObjectMeta {
            owner_references: secret.owner_ref(&()).map(|owner| vec![owner]),
            ..self.metadata(name.to_owned())
        };
        let account = format!("{}.join{MACHINE_ACCOUNTS}", self.name);
        let subject = Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.clone(),
            namespace: Some(namespace.to_owned()),
            ..Subject::default()
        };
        TokenRights {
            account: ServiceAccount {
                metadata: metadata(&account),
                automount_service_account_token: Some(false),
                ..ServiceAccount::default()
            },
            role: Role { metadata: metadata(&name), rules: Some(joining_host()) },
            binding: RoleBinding {
                metadata: metadata(&name),
                role_ref: RoleRef {
                    api_group: Some("rbac.authorization.k8s.io".to_owned()),
                    kind: "Role".to_owned(),
                    name: name.clone(),
                },
                subjects: Some(vec![subject]),
            },
        }
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        let labels = [(TOKEN_LABEL.to_owned(), self.name.clone())].into();
        ObjectMeta { name: Some(name), labels: Some(labels), ..ObjectMeta::default() }
    }
}

/// Which machines are approved without a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// None.
    #[default]
    Manual,
    /// All that have the token.
    Always,
    /// Those that have the token and report facts that pass all tests.
    When(Vec<FactTest>),
}

impl Approval {
    /// Whether a machine with these facts is approved. A fact that the machine does not report passes no test.
    pub fn approves(&self, facts: Option<&HostFacts>) -> bool {
        match self {
            Self::Manual => false,
            Self::Always => true,
            Self::When(tests) => facts.is_some_and(|facts| tests.iter().all(|test| test.passes(facts))),
        }
    }
}

impl fmt::Display for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manual => f.write_str("manual"),
            Self::Always => f.write_str("always"),
            Self::When(tests) => {
                let tests: Vec<String> = tests.iter().map(ToString::to_string).collect();
                f.write_str(&tests.join("\n"))
            }
        }
    }
}

impl FromStr for Approval {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        match text {
            "manual" => Ok(Self::Manual),
            "always" => Ok(Self::Always),
            // No test at all would let everything pass.
            "" => Err(RuleError(String::new())),
            tests => tests.lines().map(str::parse).collect::<Result<_, _>>().map(Self::When),
        }
    }
}

/// A test of one fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactTest {
    /// The fact matches a pattern, in which `*` stands for any characters.
    Matches(TextFact, String),
    /// The fact is at least this number.
    AtLeast(NumberFact, i64),
}

/// A fact that is a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFact {
    /// Host name.
    Hostname,
    /// Machine ID of the operating system.
    MachineId,
    /// Name and version of the operating system.
    OsImage,
    /// Kernel version.
    KernelVersion,
    /// Processor architecture.
    Architecture,
}

/// A fact that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFact {
    /// Number of CPUs.
    Cpus,
    /// Size of the memory, in bytes.
    MemoryBytes,
}

const TEXTS: [(&str, TextFact); 5] = [
    ("hostname", TextFact::Hostname),
    ("machineID", TextFact::MachineId),
    ("osImage", TextFact::OsImage),
    ("kernelVersion", TextFact::KernelVersion),
    ("architecture", TextFact::Architecture),
];
const NUMBERS: [(&str, NumberFact); 2] =
    [("cpus", NumberFact::Cpus), ("memoryBytes", NumberFact::MemoryBytes)];

/// Why a text is not a test of a fact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a rule: write FACT=PATTERN with one of hostname, machineID, osImage, kernelVersion and architecture, or \
     FACT>=NUMBER with one of cpus and memoryBytes"
)]
pub struct RuleError(String);

impl FactTest {
    fn passes(&self, facts: &HostFacts) -> bool {
        match self {
            Self::Matches(fact, pattern) => {
                let value = match fact {
                    TextFact::Hostname => &facts.hostname,
                    TextFact::MachineId => &facts.machine_id,
                    TextFact::OsImage => &facts.os_image,
                    TextFact::KernelVersion => &facts.kernel_version,
                    TextFact::Architecture => &facts.architecture,
                };
                value.as_ref().is_some_and(|value| matches(pattern, value))
            }
            Self::AtLeast(fact, least) => {
                let value = match fact {
                    NumberFact::Cpus => facts.cpus.map(i64::from),
                    NumberFact::MemoryBytes => facts.memory_bytes,
                };
                value.is_some_and(|value| value >= *least)
            }
        }
    }
}

/// Whether a text matches a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut rest = rest;
    // The earliest place of each part leaves the most for the parts after it.
    while let Some((part, later)) = rest.split_once('*') {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
        rest = later;
    }
    text.ends_with(rest)
}

impl fmt::Display for FactTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matches(fact, pattern) => {
                let name = TEXTS.iter().find(|(_, known)| known == fact).map_or("", |(name, _)| name);
                write!(f, "{name}={pattern}")
            }
            Self::AtLeast(fact, least) => {
                let name = NUMBERS.iter().find(|(_, known)| known == fact).map_or("", |(name, _)| name);
                write!(f, "{name}>={least}")
            }
        }
    }
}

impl FromStr for FactTest {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError(text.chars().take(80).collect());
        if let Some((name, least)) = text.split_once(">=") {
            let fact = NUMBERS.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?.1;
            return least.parse().map(|least| Self::AtLeast(fact, least)).map_err(|_| wrong());
        }
        let (name, pattern) = text.split_once('=').ok_or_else(wrong)?;
        let fact = TEXTS.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?.1;
        match pattern.is_empty() || pattern.contains(['\n', '\r']) {
            true => Err(wrong()),
            false => Ok(Self::Matches(fact, pattern.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> HostToken {
        HostToken {
            name: "edge".to_owned(),
            key: JoinKey::new([1; 32]),
            expires: "2026-11-15T02:00:00Z".parse().expect("a time"),
            uses: 3,
            labels: [("site".to_owned(), "a".to_owned())].into(),
            failure_domain: Some("rack-1".to_owned()),
            approval: "architecture=amd64\ncpus>=4".parse().expect("a rule"),
        }
    }

    fn secret(data: BTreeMap<String, ByteString>) -> Secret {
        Secret { data: Some(data), ..Secret::default() }
    }

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let others = [Approval::Manual, Approval::Always].map(|approval| HostToken {
            approval,
            failure_domain: None,
            ..token()
        });
        for token in others.into_iter().chain([token()]) {
            assert_eq!(HostToken::read("edge", &secret(token.data())), Ok(token));
        }
    }

    #[test]
    fn a_token_without_one_of_its_keys_is_none() {
        for key in ["key", "expires", "uses", "labels", "approve"] {
            let mut data = token().data();
            data.remove(key);
            assert_eq!(HostToken::read("edge", &secret(data)), Err(HostTokenError(key)));
            let mut data = token().data();
            data.insert(key.to_owned(), ByteString(b"\xff".to_vec()));
            assert_eq!(HostToken::read("edge", &secret(data)), Err(HostTokenError(key)));
        }
    }

    #[test]
    fn a_token_can_register_and_list_nothing() {
        let mut secret = token().secret();
        secret.metadata.uid = Some("u".to_owned());
        let TokenRights { account, role, binding } = token().rights("yard", &secret);
        let rules = role.rules.expect("rules");
        assert_eq!(
            (rules.len(), rules[0].verbs.as_slice()),
            (1, &["create".to_owned(), "get".to_owned()][..])
        );
        let subject = &binding.subjects.expect("subjects")[0];
        assert_eq!(subject.name, "edge.join.machine.capstan.dev");
        assert_eq!(
            (account.metadata.name.as_ref(), subject.namespace.as_deref()),
            (Some(&subject.name), Some("yard"))
        );
        for metadata in [account.metadata, role.metadata, binding.metadata] {
            assert_eq!(metadata.owner_references.expect("an owner")[0].uid, "u");
        }
    }

    #[test]
    fn rules_approve_facts() {
        let facts = HostFacts {
            hostname: Some("edge-7.example.com".to_owned()),
            architecture: Some("amd64".to_owned()),
            cpus: Some(4),
            ..HostFacts::default()
        };
        for (rule, facts, expected) in [
            ("manual", Some(&facts), false),
            ("always", Some(&facts), true),
            ("always", None, true),
            ("architecture=amd64", Some(&facts), true),
            ("architecture=arm64", Some(&facts), false),
            ("architecture=amd64", None, false),
            ("hostname=edge-*", Some(&facts), true),
            ("hostname=*.example.com", Some(&facts), true),
            ("hostname=e*7*.com", Some(&facts), true),
            ("hostname=*7.example.com*", Some(&facts), true),
            ("hostname=*edge", Some(&facts), false),
            ("hostname=edge", Some(&facts), false),
            ("hostname=*8*", Some(&facts), false),
            ("cpus>=4", Some(&facts), true),
            ("cpus>=5", Some(&facts), false),
            ("memoryBytes>=0", Some(&facts), false),
            ("cpus>=4\narchitecture=amd64", Some(&facts), true),
            ("cpus>=4\narchitecture=arm64", Some(&facts), false),
        ] {
            let approval: Approval = rule.parse().expect("a rule");
            assert_eq!(approval.approves(facts), expected, "{rule}");
            assert_eq!(approval.to_string(), rule);
        }
        assert!(!matches("ab*bc", "abc"), "no character counts twice");
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in
            ["", "hostname", "hostname=", "rack=1", "cpus=4", "cpus>=many", "hostname>=1", "sometimes"]
        {
            let error = text.parse::<Approval>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}` is not a rule")), "{error}");
        }
    }
}
