//! The syntax of names of objects.

use capstan_apiserver_schema::LABEL_1035;

/// The syntax of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// An RFC 1123 subdomain: most kinds.
    Subdomain,
    /// An RFC 1123 label of at most 63 characters: namespaces.
    Label,
    /// An RFC 1035 label, which begins with a letter: versions and names in CRDs.
    Word,
    /// Any path segment: RBAC.
    PathSegment,
}

/// What is wrong with a name that is not an RFC 1123 subdomain.
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// What is wrong with a name.
pub fn name_error(rule: NameRule, name: &str) -> Option<&'static str> {
    let label = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    match rule {
        NameRule::Label | NameRule::Word if name.len() > 63 => Some("must be no more than 63 bytes"),
        NameRule::Label if !label(name) => Some(LABEL),
        NameRule::Word if !label(name) || name.starts_with(|c: char| c.is_ascii_digit()) => Some(LABEL_1035),
        NameRule::Subdomain if name.len() > 253 => Some("must be no more than 253 bytes"),
        NameRule::Subdomain if !name.split('.').all(label) => Some(SUBDOMAIN),
        NameRule::PathSegment if name == "." => Some("may not be '.'"),
        NameRule::PathSegment if name == ".." => Some("may not be '..'"),
        NameRule::PathSegment if name.contains('/') => Some("may not contain '/'"),
        NameRule::PathSegment if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// Whether a text is a name part of a label key, or a value of a label, apart from its length.
pub fn is_word(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && edge(text.chars().next())
        && edge(text.chars().last())
}

/// What is wrong with a label key, or with the key of an annotation.
pub fn qualified_name_error(text: &str) -> Option<String> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    if name.contains('/') {
        let form = NAME_PART.trim_start_matches("name part");
        return Some(format!(
            "a valid label key{form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ));
    }
    match prefix {
        Some("") => return Some("prefix part must be non-empty".to_owned()),
        Some(prefix) if name_error(NameRule::Subdomain, prefix).is_some() => {
            return Some(format!("prefix part {SUBDOMAIN}"));
        }
        _ => {}
    }
    match name {
        "" => Some("name part must be non-empty".to_owned()),
        name if name.len() > 63 => Some("name part must be no more than 63 bytes".to_owned()),
        name if !is_word(name) => Some(NAME_PART.to_owned()),
        _ => None,
    }
}
