//! Escapes names of fields as identifiers: reserved words and special characters are spelled out.

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The identifier for a field, or `None` if no rule can name it.
pub(super) fn escape(field: &str) -> Option<String> {
    let first = field.chars().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    if RESERVED.contains(&field) {
        return Some(format!("__{field}__"));
    }
    let mut out = String::with_capacity(field.len());
    let mut chars = field.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '_' if chars.peek() == Some(&'_') => {
                chars.next();
                out.push_str("__underscores__");
            }
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_are_escaped_as_kubernetes_documents() {
        let table = [
            ("a", Some("a")),
            ("a_b", Some("a_b")),
            ("a__b", Some("a__underscores__b")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("namespace", Some("__namespace__")),
            ("$ref", None),
            ("1a", None),
            ("", None),
        ];
        for (field, escaped) in table {
            assert_eq!(escape(field).as_deref(), escaped, "{field}");
        }
    }
}
