//! Formats the paths of fields: `spec.list[2].name`, `spec.labels[a/b]`.

/// `parent.name`
pub(crate) fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_string() } else { format!("{parent}.{name}") }
}

/// `parent[index]`
pub(crate) fn index(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

/// `parent[key]`, for the key of a map rather than the name of a field
pub(crate) fn key(parent: &str, key: &str) -> String {
    format!("{parent}[{key}]")
}
