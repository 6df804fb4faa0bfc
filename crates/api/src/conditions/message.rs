//! Format of merged messages: bullets, indentation and plurals.

/// Appends a message to the label of a bullet. A single line is appended to the line of the label; a list is appended
/// below it, as a nested list.
pub(super) fn nest(message: &str) -> String {
    if !message.contains('\n') && !has_bullet(message) {
        return format!(" {message}");
    }
    let is_list = message.split('\n').all(has_bullet);
    let mut nested = String::new();
    for line in message.split('\n') {
        // In a text where only some lines have bullets, the others get one and theirs go one level deeper.
        let prefix = match (is_list, has_bullet(line)) {
            (true, _) => "\n  ",
            (false, true) => "\n    ",
            (false, false) => "\n  * ",
        };
        nested.push_str(prefix);
        nested.push_str(line);
    }
    nested
}

/// Whether the line has a star followed by white space anywhere: `5 * 3` counts too.
fn has_bullet(line: &str) -> bool {
    line.as_bytes()
        .windows(2)
        .any(|pair| pair[0] == b'*' && matches!(pair[1], b' ' | b'\t' | b'\n' | b'\r' | b'\x0c'))
}

/// The plural of a kind, by the regular rules of English.
pub(super) fn plural(kind: &str) -> String {
    let ends_with = |endings: &[&str]| endings.iter().any(|ending| kind.ends_with(ending));
    match kind.strip_suffix('y') {
        Some(stem) if !ends_with(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
        _ if ends_with(&["ch", "sh", "ss", "us", "x", "S"]) => format!("{kind}es"),
        _ if ends_with(&["s"]) => kind.to_owned(),
        _ => format!("{kind}s"),
    }
}
