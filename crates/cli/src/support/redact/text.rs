//! Removes secrets from within texts: messages, logs, commands, annotations. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::{Captures, Regex};
use std::sync::LazyLock;

const REDACTED: &str = "(redacted)";

/// A form that secrets have, and what is written instead.
struct Form {
    pattern: Regex,
    instead: &'static str,
}

/// The order matters: what spans lines goes first.
static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    [
        // To its end, or to that of the text if it was cut off. As JSON a line ends with a backslash and an n.
        (r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*-----|\z)", "(redacted private key)"),
        // With or without a password, which may itself contain a slash.
        (r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@:]+:[^\s@]*@", "${1}(redacted)@"),
        (r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]+@", "${1}(redacted)@"),
        (r"(?i)\b(bearer|basic)[ \t]+[A-Za-z0-9._~+/=-]{8,}", "${1} (redacted)"),
        // JSON Web Tokens, tokens of k3s, bootstrap tokens of kubeadm, access keys of AWS, tokens of GitHub.
        (r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?", REDACTED),
        (r#"\bK10[0-9a-f]{32,}::[^\s"']+"#, REDACTED),
        (r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", REDACTED),
        (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", REDACTED),
        (r"\bgh[pousr]_[A-Za-z0-9]{20,}\b", REDACTED),
        (r"(?i)(\bauthorization\\?[\x22']?[ \t]*[:=][ \t]*\\?[\x22']?)[^\x22'\r\n]+", "${1}(redacted)"),
        // An assignment in YAML, JSON, an environment or a query.
        (
            r#"(?i)([A-Za-z0-9_.-]*(?:passw(?:or)?d|passphrase|token|secret|credentials?|(?:private|client|access|api|signing|encryption)[-_]?key)(?:[-_]?(?:data|value|key))?\\?["']?[ \t]*[:=][ \t]*)(?:\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s,;&"'{\[(|>][^\s,;&"']*)"#,
            "${1}(redacted)",
        ),
        // A flag of a command.
        (
            r#"(?i)(--?[a-z0-9-]*(?:passw(?:or)?d|passphrase|token|secret|credentials?|(?:private|client|access|api)-?key)(?:-key|-value)?)[ \t]+("[^"]*"|'[^']*'|[^\s"'-]\S*)"#,
            "${1} (redacted)",
        ),
    ]
    .into_iter()
    .map(|(pattern, instead)| Form { pattern: Regex::new(pattern).expect("the patterns are tested"), instead })
    .collect()
});

static BASE64: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[A-Za-z0-9+/]{32,}={0,2}").expect("the pattern is tested"));

/// The text without secrets.
pub(in crate::support) fn text(said: &str) -> String {
    let plain = FORMS
        .iter()
        .fold(said.to_owned(), |text, form| form.pattern.replace_all(&text, form.instead).into_owned());
    BASE64.replace_all(&plain, |found: &Captures<'_>| encoded(&found[0])).into_owned()
}

/// What is Base64 of a text with secrets is not kept in part: where they are in it would be guessed.
fn encoded(found: &str) -> String {
    // What was cut off, or stands in the middle of something, has its last characters without a whole byte.
    let whole = &found[..found.len() - found.len() % 4];
    let bytes = STANDARD.decode(whole).unwrap_or_default();
    let inside = String::from_utf8_lossy(&bytes);
    let is_text = !bytes.is_empty()
        && inside.chars().filter(|letter| *letter == '\u{fffd}').count() * 10 < inside.len();
    match is_text && text(&inside) != inside {
        true => format!("(redacted, {} bytes)", found.len()),
        false => found.to_owned(),
    }
}
