//! Sets of fields. A field may be a member, have members below it, or both. Membership of a field implies nothing for
//! the fields below it.

use super::Element;
use std::collections::{BTreeMap, BTreeSet};

/// A set of paths, stored as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(crate) members: BTreeSet<Element>,
    pub(crate) children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    /// The set of these paths, each a list of field names.
    pub fn of_fields(paths: &[&[&str]]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| Element::field(*name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a path, without its parents. The empty path (the whole object) is ignored.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            // Looked for first: most paths go through what is there, and nothing is copied then.
            [first, rest @ ..] => match self.children.get_mut(first) {
                Some(child) => child.insert(rest),
                None => self.children.entry(first.clone()).or_default().insert(rest),
            },
        }
    }

    /// Whether the set contains a path.
    pub fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|set| set.contains(rest)),
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    /// All paths of the set, parents first.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths: Vec<Vec<Element>> = self.members.iter().map(|member| vec![member.clone()]).collect();
        for (element, set) in &self.children {
            paths.extend(set.paths().into_iter().map(|mut path| {
                path.insert(0, element.clone());
                path
            }));
        }
        paths
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(mut self, mut other: FieldSet) -> FieldSet {
        self.members.append(&mut other.members);
        for (element, set) in other.children {
            let child = self.children.entry(element).or_default();
            *child = std::mem::take(child).union(set);
        }
        self
    }

    /// The intersection of both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let children = self.children.iter().filter_map(|(element, set)| {
            let both = set.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        FieldSet {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The paths of this set that are not in `other`.
    #[must_use]
    pub fn difference(mut self, other: &FieldSet) -> FieldSet {
        for member in &other.members {
            self.members.remove(member);
        }
        self.descend(other, FieldSet::difference)
    }

    /// The paths of this set that are neither in `other` nor below a path of `other`.
    #[must_use]
    pub fn without_below(mut self, other: &FieldSet) -> FieldSet {
        for member in &other.members {
            self.members.remove(member);
            self.children.remove(member);
        }
        self.descend(other, FieldSet::without_below)
    }

    /// Makes less of what both have something below.
    fn descend(mut self, other: &FieldSet, less: fn(FieldSet, &FieldSet) -> FieldSet) -> FieldSet {
        for (element, other) in &other.children {
            if let Some(set) = self.children.get_mut(element) {
                *set = less(std::mem::take(set), other);
                if set.is_empty() {
                    self.children.remove(element);
                }
            }
        }
        self
    }

    /// The fields below an element.
    pub(crate) fn below(&self, element: &Element) -> Option<&FieldSet> {
        self.children.get(element).filter(|set| !set.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_with_and_without_what_is_below() {
        let set = FieldSet::of_fields(&[&["a"], &["a", "b"], &["a", "b", "c"], &["d"]]);
        let other = FieldSet::of_fields(&[&["a", "b"]]);
        assert_eq!(set.clone().difference(&other), FieldSet::of_fields(&[&["a"], &["a", "b", "c"], &["d"]]));
        assert_eq!(set.clone().without_below(&other), FieldSet::of_fields(&[&["a"], &["d"]]));
        assert_eq!(set.clone().without_below(&set), FieldSet::default());
        assert_eq!(set.intersection(&other), other);
        assert_eq!(other.union(set.clone()), set);
        assert_eq!(set.paths().len(), 4);
    }
}
