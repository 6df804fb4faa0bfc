//! The string formats that a kube-apiserver checks, by name. A format that is not in the table is not checked, as
//! upstream.

mod net;
mod number;
mod time;

pub(crate) use time::{duration, timestamp};

use crate::node::Type;
use crate::pattern;
use regex::Regex;
use std::collections::HashMap;
use std::sync::LazyLock;

const SHORT_NAME: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/// The formats that are a regular expression.
static PATTERNS: LazyLock<HashMap<&'static str, Regex>> = LazyLock::new(|| {
    let long_name = format!(r"^{SHORT_NAME}(\.{SHORT_NAME})*$");
    let short_name = format!("^{SHORT_NAME}$");
    let uuid = |third: &str, fourth: &str| {
        format!("(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}$")
    };
    let table = [
        ("uuid", uuid("[0-9a-f]{4}", "[0-9a-f]{4}")),
        ("uuid3", uuid("3[0-9a-f]{3}", "[0-9a-f]{4}")),
        ("uuid4", uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
        ("uuid5", uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
        ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$".into()),
        (
            "rgbcolor",
            format!(r"^rgb\(\s*{0}\s*,\s*{0}\s*,\s*{0}\s*\)$", r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"),
        ),
        ("ssn", r"^\d{3}[- ]?\d{2}[- ]?\d{4}$".into()),
        ("bsonobjectid", "^[0-9a-fA-F]{24}$".into()),
        (
            "hostname",
            concat!(
                r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|",
                r"([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
                r"([a-zA-Z\p{L}]){2,63})$",
            )
            .into(),
        ),
        ("k8sshortname", short_name),
        ("k8slongname", long_name),
    ];
    table
        .into_iter()
        .map(|(name, written)| {
            (name, pattern::compile(&written).expect("a constant, compiled by every test run"))
        })
        .collect()
});

/// The name under which a format of a type is checked, or `None` if it is not.
pub(crate) fn checked(format: &str, ty: Option<Type>, int_or_string: bool) -> Option<String> {
    let known = match ty {
        _ if int_or_string => false,
        None | Some(Type::String) => is_known(&normal(format)),
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(_) => false,
    };
    known.then(|| format.to_string())
}

fn normal(format: &str) -> String {
    format.replace('-', "")
}

fn is_known(normal: &str) -> bool {
    PATTERNS.contains_key(normal)
        || matches!(
            normal,
            "uri"
                | "email"
                | "ipv4"
                | "ipv6"
                | "cidr"
                | "mac"
                | "isbn"
                | "isbn10"
                | "isbn13"
                | "creditcard"
                | "byte"
                | "password"
                | "date"
                | "duration"
                | "datetime"
        )
}

/// Whether `text` is of a string format; true for formats that are none.
pub(crate) fn holds(format: &str, text: &str) -> bool {
    let format = normal(format);
    if let Some(pattern) = PATTERNS.get(format.as_str()) {
        return pattern.is_match(text) && fits(&format, text);
    }
    match format.as_str() {
        "uri" => net::is_request_uri(text),
        "email" => net::is_email(text),
        "ipv4" => net::is_ip(text) && text.contains('.'),
        "ipv6" => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => net::is_cidr(text),
        "mac" => net::is_mac(text),
        "isbn" => number::is_isbn10(text) || number::is_isbn13(text),
        "isbn10" => number::is_isbn10(text),
        "isbn13" => number::is_isbn13(text),
        "creditcard" => number::is_credit_card(text),
        "byte" => number::is_base64(text),
        "date" => time::is_date(text),
        "datetime" => time::is_date_time(text),
        "duration" => duration(text).is_some(),
        _ => true,
    }
}

/// Lengths that the patterns do not say.
fn fits(format: &str, text: &str) -> bool {
    match format {
        "hostname" => text.len() <= 255 && text.split('.').all(|label| label.len() <= 63),
        "k8sshortname" => text.len() <= 63,
        "k8slongname" => text.len() <= 253,
        "ssn" => text.len() == 11,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_and_refuses() {
        let table = [
            ("uuid", "4C4C4544-0042-3510-8052-b4c04f4d3432", "4c4c4544"),
            ("hostname", "a-b.example.com", "-a"),
            ("rgbcolor", "rgb(1, 255,0)", "rgb(256,0,0)"),
            ("k8s-short-name", "a-1", "a."),
            ("k8s-long-name", "a.b", "a_b"),
            ("ipv4", "010.0.0.1", "::1"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("isbn", "978-0321751041", "123"),
            ("creditcard", "4111-1111-1111-1111", "4111"),
            ("byte", "YWI=", "YWI"),
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2026-11-15T02:00:00.5+01:00", "2026-11-15 02:00"),
            ("duration", "1h30m", "soon"),
            ("uri", "https://a/b", "a b"),
            ("email", "a@b.c", "a@"),
        ];
        for (format, good, bad) in table {
            assert!(checked(format, Some(Type::String), false).is_some(), "{format}");
            assert!(holds(format, good), "{format} {good}");
            assert!(!holds(format, bad), "{format} {bad}");
        }
        assert!(holds("password", "anything"));
        assert!(checked("quantity", Some(Type::String), false).is_none());
    }
}
