//! The small print of merged messages: bullets, indentation and plurals.

/// Puts a message behind a bullet's label. A single line goes onto the label's line; anything that is a list
/// goes below, as a nested list.
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

/// Whether there is a star with white space behind it, wherever in the line: `5 * 3` counts as well.
fn has_bullet(line: &str) -> bool {
    line.as_bytes()
        .windows(2)
        .any(|pair| pair[0] == b'*' && matches!(pair[1], b' ' | b'\t' | b'\n' | b'\r' | b'\x0c'))
}

/// The plural of a kind. Regular English is enough for kinds: there is no `Mouse` to reconcile.
pub(super) fn plural(kind: &str) -> String {
    let ends_with = |endings: &[&str]| endings.iter().any(|ending| kind.ends_with(ending));
    match kind.strip_suffix('y') {
        Some(stem) if !ends_with(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
        _ if ends_with(&["ch", "sh", "ss", "us", "x", "S"]) => format!("{kind}es"),
        _ if ends_with(&["s"]) => kind.to_owned(),
        _ => format!("{kind}s"),
    }
}
