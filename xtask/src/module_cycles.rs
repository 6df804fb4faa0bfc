//! Modules of a crate that import each other in a cycle cannot be read one after the other.
//!
//! In the crates of [`LAYERED`], the modules of one folder form no cycle: each is taken together with everything below it. A module
//! may use its own parent and its own children. Tests do not count.
//!
//! The source is read as text: `use` declarations, paths that begin with `crate`, `super` or `self`, and paths that begin with the
//! name of a child.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates without cycles. A crate that is on the list stays on it.
const LAYERED: &[&str] = &["crates/apiserver", "crates/apiserver-registry"];

/// The path of a module below its crate; empty for the crate itself.
type Module = Vec<String>;

/// The cycles between modules in files of the repository, given by path and text.
pub(crate) fn faults(files: &[(String, String)]) -> Vec<String> {
    LAYERED.iter().flat_map(|name| cycles_of(name, files)).collect()
}

fn cycles_of(name: &str, files: &[(String, String)]) -> Vec<String> {
    let source = format!("{name}/src/");
    let modules: BTreeMap<Module, String> = files
        .iter()
        .filter_map(|(path, text)| Some((module(path.strip_prefix(&source)?)?, without_tests(&plain(text)))))
        .collect();
    if modules.is_empty() {
        return vec![format!("LAYERED in xtask/src/module_cycles.rs: {name} has no source")];
    }
    let uses: BTreeMap<&Module, BTreeSet<Module>> =
        modules.iter().map(|(module, text)| (module, uses(module, text, &modules))).collect();
    let folders: BTreeSet<&[String]> =
        modules.keys().filter_map(|module| module.split_last()).map(|(_, folder)| folder).collect();
    folders.into_iter().filter_map(|folder| cycle_in(name, folder, &uses)).collect()
}

/// The module of a file below `src`. None if it is a test.
fn module(path: &str) -> Option<Module> {
    let path = Path::new(path.strip_suffix(".rs")?);
    let mut parts: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    let is_test = |part: &String| part == "tests" || part == "fixtures" || part.ends_with("_tests");
    (!parts.iter().any(is_test)).then_some(parts)
}

/// The text without comments and without the content of strings.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let (mut in_string, mut is_escaped, mut before) = (false, false, ' ');
        for letter in line.chars() {
            match letter {
                '"' if !is_escaped && before != '\'' => {
                    in_string = !in_string;
                    out.push('"');
                }
                '/' if !in_string && before == '/' => break,
                _ if !in_string => out.push(letter),
                _ => {}
            }
            is_escaped = in_string && letter == '\\' && !is_escaped;
            before = letter;
        }
        out.push('\n');
    }
    out
}

/// The text before the first module of tests in it.
fn without_tests(text: &str) -> String {
    let end = text.match_indices("#[cfg(test)]").find(|(at, _)| {
        let item = text[*at..].lines().nth(1).unwrap_or_default();
        item.contains("mod ") && item.ends_with('{')
    });
    text[..end.map_or(text.len(), |(at, _)| at)].to_owned()
}

/// The modules that a module uses.
fn uses(module: &Module, text: &str, modules: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    for path in imports(text).into_iter().chain(paths(text)) {
        let Some((first, rest)) = path.split_first() else { continue };
        let mut target: Module = match first.as_str() {
            "crate" => Vec::new(),
            "super" => module[..module.len().saturating_sub(1)].to_vec(),
            "self" => module.clone(),
            child if modules.contains_key(&[module.as_slice(), &[child.to_owned()]].concat()) => {
                [module.as_slice(), &[child.to_owned()]].concat()
            }
            _ => continue,
        };
        for part in rest {
            if part == "super" {
                target.pop();
                continue;
            }
            let longer = [target.as_slice(), std::slice::from_ref(part)].concat();
            if !modules.contains_key(&longer) {
                break;
            }
            target = longer;
        }
        found.insert(target);
    }
    found.remove(module);
    found
}

/// The paths of all `use` declarations, one for each name.
fn imports(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let is_word =
            text[..at].chars().next_back().is_none_or(|letter| !letter.is_alphanumeric() && letter != '_');
        let Some(end) = text[at..].find(';').filter(|_| is_word) else { continue };
        expand(&[], &text[at + 4..at + end], &mut found);
    }
    found
}

/// Splits `a::{b, c::d}` into `a::b` and `a::c::d`.
fn expand(before: &[String], tree: &str, found: &mut Vec<Vec<String>>) {
    let parts = |text: &str| {
        let words =
            text.split("::").map(|part| part.split_whitespace().next().unwrap_or_default().to_owned());
        words.filter(|part| !part.is_empty()).collect::<Vec<_>>()
    };
    let Some(open) = tree.find('{') else {
        found.push([before, &parts(tree)].concat());
        return;
    };
    let path = [before, &parts(&tree[..open])].concat();
    let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                if !inner[start..at].trim().is_empty() {
                    expand(&path, &inner[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// All paths with `::` in the text.
fn paths(text: &str) -> Vec<Vec<String>> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = text.split(|letter: char| !is_part(letter)).filter(|word| word.contains("::"));
    words.map(|word| word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()).collect()
}

/// A cycle between the modules of one folder.
fn cycle_in(name: &str, folder: &[String], uses: &BTreeMap<&Module, BTreeSet<Module>>) -> Option<String> {
    let child =
        |module: &Module| (module.starts_with(folder)).then(|| module.get(folder.len()).cloned()).flatten();
    let mut edges: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (module, used) in uses {
        for (from, target) in used.iter().filter_map(|target| Some((child(module)?, target))) {
            if let Some(to) = child(target).filter(|to| *to != from) {
                let example = format!("{} uses {}", module.join("::"), target.join("::"));
                edges.entry(from).or_default().entry(to).or_insert(example);
            }
        }
    }
    let names: Vec<&String> = edges.keys().collect();
    names.into_iter().find_map(|start| {
        let way = way_back(start, &edges)?;
        let steps: Vec<&str> = way.windows(2).map(|pair| edges[&pair[0]][&pair[1]].as_str()).collect();
        Some(format!("{name}: a cycle of modules: {}", steps.join(", ")))
    })
}

/// The shortest way from a node back to itself.
fn way_back(start: &String, edges: &BTreeMap<String, BTreeMap<String, String>>) -> Option<Vec<String>> {
    let mut ways = std::collections::VecDeque::from([vec![start.clone()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let next = way.last().and_then(|last| edges.get(last)).into_iter().flat_map(BTreeMap::keys);
        for to in next {
            let longer = [way.as_slice(), std::slice::from_ref(to)].concat();
            if to == start {
                return Some(longer);
            }
            if seen.insert(to.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, String)> =
            files.iter().map(|(path, text)| (format!("c/src/{path}"), (*text).to_owned())).collect();
        cycles_of("c", &files)
    }

    #[test]
    fn cycles_are_found_however_they_are_written() {
        let lib = ("lib.rs", "mod a;\nmod b;\n");
        for (a, b) in [
            ("use crate::b::B;", "use crate::a::A;"),
            ("use crate::{b::{self, B}, c};", "fn f() { super::a::f() }"),
            ("fn f() { crate::b::f() }", "use super::{a as other, x};"),
        ] {
            let cycle = found(&[lib, ("a.rs", a), ("b.rs", b)]);
            assert_eq!(cycle, ["c: a cycle of modules: a uses b, b uses a"], "{a} {b}");
        }
        let deep = [
            ("a/mod.rs", "mod x;"),
            ("a/x.rs", "use crate::b;"),
            ("b.rs", "use crate::d;"),
            ("d.rs", "use crate::a::x;"),
        ];
        assert_eq!(found(&deep), ["c: a cycle of modules: a::x uses b, b uses d, d uses a::x"]);
        let siblings =
            [("a/mod.rs", ""), ("a/x.rs", "use super::y;"), ("a/y.rs", "use super::super::a::x::F;")];
        assert_eq!(found(&siblings), ["c: a cycle of modules: a::x uses a::y, a::y uses a::x"]);
    }

    #[test]
    fn parents_children_comments_strings_and_tests_do_not_count() {
        for (a, b) in [
            ("use crate::b;", "// use crate::a;"),
            ("use crate::b;", "//! See [`crate::a::A`].\nfn f() { g(\"crate::a\") }"),
            ("use crate::b;", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}"),
            ("use crate::b;", "use other::crate_a; fn f() { because::a() }"),
        ] {
            assert_eq!(found(&[("a.rs", a), ("b.rs", b)]), Vec::<String>::new(), "{b}");
        }
        let family = [("a/mod.rs", "mod x;\nuse x::X;\nfn f() { x::f() }"), ("a/x.rs", "use super::A;")];
        assert_eq!(found(&family), Vec::<String>::new());
        assert_eq!(found(&[]), ["LAYERED in xtask/src/module_cycles.rs: c has no source"]);
    }
}
