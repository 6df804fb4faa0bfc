//! White space around variable names, which early templates contain and clusterctl still accepts.

/// `${ V }`, `${ V}` and `${V }` become `${V}`. Anything else with blanks stays: it may be a default.
pub(crate) fn without_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start + 2);
        out.push_str(before);
        rest = from;
        if let Some((inside, after)) = from.split_once('}')
            && is_name(inside.trim())
        {
            out.push_str(inside.trim());
            out.push('}');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}
