//! What clients print, without what is another one each time.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// Patterns, and what stands in their place.
static VOLATILE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000", "<time>"),
        // Of the files that `kubectl diff` compares.
        (r"\t\d{4}-\d\d-\d\d [\d:.]+ \+0000", "\t<time>"),
        (r"(LIVE|MERGED)-\d+", "$1"),
        (r#"(resourceVersion"?: ?)"?\d+"?"#, "$1<revision>"),
        (r"(Resource Version: +)\d+", "$1<revision>"),
        (r"127\.0\.0\.1:\d+", "<server>"),
        // What kubectl logs begins with a time and a process.
        (r"[EWI]\d{4} [\d:.]+ +\d+ ", ""),
        // Whether its own time limit ends a watch before the first object came is a race, with either plane.
        (r"(?m)^reflector\.go:\d+\] .*: very short watch: .*\n", ""),
        (r"(?m)(^|\s)(\d+[smhdy]){1,2}(?P<end>\s|$)", "$1<age>$end"),
        // Columns are as wide as their widest cell, which may have been an age.
        (r" {2,}", "  "),
        (r"(?m) +$", ""),
    ]
    .into_iter()
    .map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead))
    .collect()
});

/// The text without UIDs, times, revisions, ports, and the folder it speaks of.
pub(crate) fn plain(text: &str, folder: &Path) -> String {
    let text = text.replace(&*folder.to_string_lossy(), "<folder>");
    VOLATILE.iter().fold(text, |text, (pattern, instead)| pattern.replace_all(&text, *instead).into_owned())
}

#[test]
fn only_what_is_volatile_goes() {
    let text = "NAME   DATA   AGE\nmap    12     3m20s\nold    1      5d\n";
    assert_eq!(plain(text, Path::new("/none")), "NAME  DATA  AGE\nmap  12  <age>\nold  1  <age>\n");
    let text = "uid: 01234567-89ab-cdef-0123-456789abcdef\nresourceVersion: \"17\"\nsize: 17\n";
    assert_eq!(plain(text, Path::new("/none")), "uid: <uid>\nresourceVersion: <revision>\nsize: 17\n");
    let text = "gone\nW1117 00:00:01.5  7 reflector.go:492] a.go:146: watch of *T ended with: very short watch: b\nlate\n";
    assert_eq!(plain(text, Path::new("/none")), "gone\nlate\n");
    assert_eq!(plain("/a/b/c of 2026-01-01T00:00:00Z", Path::new("/a/b")), "<folder>/c of <time>");
}
