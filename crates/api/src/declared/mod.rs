//! Inputs and outputs of each controller, in one table ([`controllers`]).
//!
//! Every field has one writer, or the table says why it has two: two controllers that write one field overwrite each
//! other without end. One test rejects an undeclared second writer. Another test compares the table with the field
//! managers of objects that controllers have written. `docs/reference/controllers.md` is printed from the table.
//!
//! The table omits metadata that several controllers write without conflict: finalizers and owner references, which are
//! lists to which each controller adds its own entries, and the cluster name label, which has the same value from every
//! writer.

mod page;
mod table;

pub use page::page;
pub use table::controllers;

/// Inputs and outputs of one controller.
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    /// Name of the controller.
    pub name: &'static str,
    /// Group of controllers in which it runs.
    pub group: &'static str,
    /// Its field managers, as in `managedFields` of its objects.
    pub managers: &'static [&'static str],
    /// Kinds that it reads, without its own kind and those that it writes.
    pub reads: &'static [&'static str],
    /// Fields that it writes.
    pub writes: &'static [Output],
}

/// Fields of one kind that a controller writes.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The kind.
    pub kind: &'static str,
    /// Which objects of the kind, if not all. No two controllers have the same.
    pub of: &'static str,
    /// Paths of the fields, each with all fields below it. Keys of labels, annotations and conditions are in brackets.
    pub fields: &'static [&'static str],
    /// Why another controller writes the same fields, if one does.
    pub shared: Option<&'static str>,
}

impl Output {
    const fn all(kind: &'static str, fields: &'static [&'static str]) -> Self {
        Self { kind, of: "", fields, shared: None }
    }

    const fn of(self, of: &'static str) -> Self {
        Self { of, ..self }
    }

    const fn shared(self, why: &'static str) -> Self {
        Self { shared: Some(why), ..self }
    }

    /// Whether the output includes a field of a kind.
    pub fn covers(&self, kind: &str, field: &str) -> bool {
        self.kind == kind && self.fields.iter().any(|declared| is_within(field, declared))
    }
}

/// Whether a path equals another one or is below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Fields that two controllers write, as text.
pub fn fights(controllers: &[Controller]) -> Vec<String> {
    let mut fights = Vec::new();
    for (index, one) in controllers.iter().enumerate() {
        for other in &controllers[index + 1..] {
            for (mine, theirs) in
                one.writes.iter().flat_map(|mine| other.writes.iter().map(move |it| (mine, it)))
            {
                let is_same = mine.kind == theirs.kind
                    && (mine.of == theirs.of || mine.of.is_empty() || theirs.of.is_empty());
                if !is_same || (mine.shared.is_some() && theirs.shared.is_some()) {
                    continue;
                }
                let both = mine.fields.iter().filter(|field| {
                    theirs.fields.iter().any(|their| is_within(field, their) || is_within(their, field))
                });
                fights.extend(both.map(|field| {
                    format!("{} and {} both write {field} of {}", one.name, other.name, mine.kind)
                }));
            }
        }
    }
    fights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(name: &'static str, writes: Output) -> Controller {
        Controller { name, group: "g", managers: &[], reads: &[], writes: vec![writes].leak() }
    }

    #[test]
    fn every_field_has_one_writer() {
        assert_eq!(fights(controllers()), Vec::<String>::new());
    }

    #[test]
    fn a_second_writer_is_found() {
        const READY: Output = Output::all("M", &["status.conditions[Ready]"]);
        const STATUS: Output = Output::all("M", &["status"]);
        for (mine, theirs, number) in [
            (READY, READY, 1),
            (READY, STATUS, 1),
            (STATUS, READY, 1),
            (Output::all("M", &["status.conditions[ReadyToo]"]), READY, 0),
            (Output::all("N", &["status"]), READY, 0),
            (READY.of("of a set"), READY.of("of a control plane"), 0),
            (READY.of("of a set"), READY, 1),
            (READY.shared("x"), READY, 1),
            (READY.shared("x"), READY.shared("y"), 0),
        ] {
            let found = fights(&[writer("a", mine), writer("b", theirs)]);
            assert_eq!(found.len(), number, "{mine:?} {theirs:?}: {found:?}");
        }
    }

    #[test]
    fn names_and_managers_are_not_given_twice() {
        let mut managers: Vec<&str> =
            controllers().iter().flat_map(|one| one.managers.iter().copied()).collect();
        let number = managers.len();
        managers.sort_unstable();
        managers.dedup();
        assert_eq!(managers.len(), number);
    }

    #[test]
    fn the_page_is_current() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/controllers.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, page(controllers())).expect("the page is written");
        }
        let found = std::fs::read_to_string(&path).expect("the page");
        assert_eq!(found, page(controllers()), "UPDATE_GOLDEN=1 writes {} anew", path.display());
    }
}
