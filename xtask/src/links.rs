//! Relative links of Markdown files: the file exists, and so does the heading that an anchor names.
//!
//! Anchors are made as GitHub and mdBook make them, so that a link works in both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// What is wrong with the links of `files`, which are all Markdown files of the repository; `exists` knows the others.
pub(crate) fn faults(files: &BTreeMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&Path, BTreeSet<String>> =
        files.iter().map(|(path, text)| (path.as_path(), anchors(text))).collect();
    let mut faults = Vec::new();
    for (file, text) in files {
        for (number, link) in links(text) {
            if let Some(fault) = fault(file, &link, &anchors, exists) {
                faults.push(format!("{}:{number}: {fault}", file.display()));
            }
        }
    }
    faults
}

fn fault(
    file: &Path,
    link: &str,
    anchors: &BTreeMap<&Path, BTreeSet<String>>,
    exists: &dyn Fn(&Path) -> bool,
) -> Option<String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = match path {
        "" => file.to_owned(),
        path => normal(&file.parent()?.join(path))?,
    };
    let Some(known) = anchors.get(target.as_path()) else {
        return (!exists(&target))
            .then(|| format!("the link {link} leads to {}, which does not exist", target.display()));
    };
    let anchor = anchor?;
    (!known.contains(anchor)).then(|| format!("the link {link} names no heading of {}", target.display()))
}

/// Without `.` and `..`; none where it leaves the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => normal.pop().then_some(())?,
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    Some(normal)
}

/// The lines outside fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Relative links and where they are. Links in code are not links.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for rest in line.split("](").skip(1) {
            let Some(target) = rest.split([')', ' ']).next() else { continue };
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                links.push((number, target.to_owned()));
            }
        }
    }
    links
}

/// A line with its code spans emptied.
fn without_code(line: &str) -> String {
    line.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "" }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        if let Some(heading) = heading(line) {
            let slug = slug(heading);
            let numbered = (1..).map(|number| format!("{slug}-{number}"));
            let free = std::iter::once(slug.clone()).chain(numbered).find(|slug| !anchors.contains(slug));
            anchors.extend(free);
        }
        // Anchors that are written as HTML.
        for attribute in ["id=\"", "name=\""] {
            anchors.extend(
                line.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned),
            );
        }
    }
    anchors
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim())
}

fn slug(heading: &str) -> String {
    // Of a link only its text counts.
    let mut text = String::new();
    for (index, part) in heading.split("](").enumerate() {
        text.push_str(if index == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) });
    }
    let kept = text.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() => Some(c.to_lowercase().next().unwrap_or(c)),
        '-' | '_' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        faults(&files, &|path| path == Path::new("templates") || path == Path::new("LICENSE"))
    }

    #[test]
    fn links_lead_somewhere() {
        let readme = "[a](docs/a.md) [l](LICENSE) [t](./templates) [w](https://x.y/z) [m](mailto:a@b.c)\n";
        assert_eq!(found(&[("README.md", readme), ("docs/a.md", "[up](../README.md)\n")]), [""; 0]);
        let gone = found(&[("docs/a.md", "x\n[b](b.md) [r](../README.md)\n")]);
        assert_eq!(gone.len(), 2);
        assert!(gone[0].starts_with("docs/a.md:2: the link b.md leads to docs/b.md"), "{}", gone[0]);
    }

    #[test]
    fn anchors_are_headings() {
        let page =
            "# `capstan plan`, and *why*\n## Twice\n## Twice\n## See [x](y) now\n<a id=\"here\"></a>\n";
        let links = "[1](b.md#capstan-plan-and-why) [2](b.md#twice-1) [3](b.md#see-x-now) [4](b.md#here) [5](#own)\n# Own\n";
        let page = page.replace("(y)", "(a.md)");
        assert_eq!(found(&[("a.md", links), ("b.md", &page)]), [""; 0]);
        assert_eq!(found(&[("a.md", "[1](b.md#other) [2](#other)\n"), ("b.md", &page)]).len(), 2);
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(found(&[("a.md", "`[x](gone.md)`\n```\n[x](gone.md)\n# no\n```\n")]), [""; 0]);
        assert_eq!(found(&[("a.md", "```\n# no\n```\n[x](#no)\n")]).len(), 1);
    }
}
