//! The navigation state, and how keys change it. Pure: nothing is read or drawn here.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::command::{self, Command};
use super::page::{Body, Row, Shown};
use crate::ui::Seen;

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The current view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    Clusters,
    /// Machines of one cluster, or of all.
    Machines(Option<Name>),
    Hosts,
    /// Details of a cluster.
    Cluster(Name),
    Machine(Name),
    Host(Name),
}

impl View {
    /// Its title in the path at the top.
    pub(super) fn title(&self) -> String {
        match self {
            Self::Clusters => "Clusters".to_owned(),
            Self::Machines(None) => "Machines".to_owned(),
            Self::Hosts => "Hosts".to_owned(),
            Self::Machines(Some(name)) => format!("Machines of {}", name.name),
            Self::Cluster(name) => format!("Cluster {}", name.name),
            Self::Machine(name) => format!("Machine {}", name.name),
            Self::Host(name) => format!("Host {}", name.name),
        }
    }
}

/// A view, and the position in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) view: View,
    pub(super) filter: String,
    /// Index of the selected row.
    pub(super) selected: usize,
    /// Its object, which the selection follows when rows come and go.
    name: Option<Name>,
    /// Index of the first row or line on the screen.
    pub(super) offset: usize,
}

impl Level {
    fn new(view: View) -> Self {
        Self { view, filter: String::new(), selected: 0, name: None, offset: 0 }
    }
}

/// The current meaning of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Normal,
    /// The user types a filter: Enter keeps it, Esc clears it.
    Filter,
    Command(String),
    Help,
}

/// What to load for the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) view: View,
    /// Objects on the screen.
    pub(super) seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Namespace of a cluster that is named without one.
    namespace: String,
    /// Never empty.
    levels: Vec<Level>,
    pub(super) mode: Mode,
    /// Why the last key had no effect.
    pub(super) complaint: Option<String>,
    pub(super) is_done: bool,
}

impl State {
    /// Starts with the fleet.
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            levels: vec![Level::new(View::Clusters)],
            mode: Mode::Normal,
            complaint: None,
            is_done: false,
        }
    }

    pub(super) fn level(&self) -> &Level {
        // One is there from the beginning, and the last one is never taken away.
        &self.levels[self.levels.len() - 1]
    }

    fn level_mut(&mut self) -> &mut Level {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// Titles from the first view to the current one.
    pub(super) fn path(&self) -> Vec<String> {
        self.levels.iter().map(|level| level.view.title()).collect()
    }

    /// What to load, for a body of this height.
    pub(super) fn query(&self, shown: &Shown, height: usize) -> Query {
        let rows = shown.rows().iter().skip(self.level().offset).take(height);
        let seen = rows.map(|row| (row.name.namespace.clone(), row.name.name.clone())).collect();
        Query { view: self.level().view.clone(), seen }
    }

    /// Handles a key, for this content and a body of this height.
    pub(super) fn press(&mut self, mut key: KeyEvent, shown: &Shown, height: usize) {
        if key.modifiers.contains(KeyModifiers::ALT) {
            // Terminals send Esc and a letter for Alt and that letter, so it may be either. No key here has Alt.
            key.modifiers.remove(KeyModifiers::ALT);
            self.press(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE), shown, height);
        }
        self.complaint = None;
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && key.code == KeyCode::Char('c') {
            self.is_done = true;
            return;
        }
        match std::mem::take(&mut self.mode) {
            // Any key ends the help.
            Mode::Help => {}
            Mode::Filter => self.in_filter(key, has_control),
            Mode::Command(text) => self.in_command(key, text, has_control),
            Mode::Normal => self.in_normal(key, shown, height, has_control),
        }
    }

    fn in_normal(&mut self, key: KeyEvent, shown: &Shown, height: usize, has_control: bool) {
        let page = isize::try_from(height.max(1)).unwrap_or(isize::MAX);
        match key.code {
            KeyCode::Char('f') if has_control => self.step(page, shown, height),
            KeyCode::Char('b') if has_control => self.step(-page, shown, height),
            KeyCode::Char('d') if has_control => self.step(page / 2, shown, height),
            KeyCode::Char('u') if has_control => self.step(-page / 2, shown, height),
            _ if has_control => {}
            KeyCode::Char('q') => self.is_done = true,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char(':') => self.mode = Mode::Command(String::new()),
            KeyCode::Char('j') | KeyCode::Down => self.step(1, shown, height),
            KeyCode::Char('k') | KeyCode::Up => self.step(-1, shown, height),
            KeyCode::PageDown | KeyCode::Char(' ') => self.step(page, shown, height),
            KeyCode::PageUp => self.step(-page, shown, height),
            KeyCode::Char('g') | KeyCode::Home => self.step(isize::MIN, shown, height),
            KeyCode::Char('G') | KeyCode::End => self.step(isize::MAX, shown, height),
            KeyCode::Enter => self.open(self.row(shown).map(|row| row.opens.clone())),
            KeyCode::Char('d') => self.open(self.row(shown).map(|row| row.details.clone())),
            KeyCode::Esc => self.back(),
            _ => {}
        }
    }

    fn row<'a>(&self, shown: &'a Shown) -> Option<&'a Row> {
        shown.rows().get(self.level().selected)
    }

    fn open(&mut self, view: Option<View>) {
        let Some(view) = view.filter(|view| *view != self.level().view) else { return };
        self.levels.push(Level::new(view));
    }

    /// Ends the filter, else goes to the view before.
    fn back(&mut self) {
        if !self.level().filter.is_empty() {
            self.level_mut().filter.clear();
        } else if self.levels.len() > 1 {
            self.levels.pop();
        }
    }

    /// Moves the selection, or the text where there is none.
    fn step(&mut self, by: isize, shown: &Shown, height: usize) {
        let is_table = matches!(shown.body, Body::Table(_));
        let last = if is_table { shown.len().saturating_sub(1) } else { shown.len().saturating_sub(height) };
        let level = self.level_mut();
        let place = if is_table { &mut level.selected } else { &mut level.offset };
        *place = place.saturating_add_signed(by).min(last);
        if is_table {
            level.name = shown.rows().get(level.selected).map(|row| row.name.clone());
        }
        self.adapt_to(shown, height);
    }

    /// Adapts to changed content: the selection follows its object, and stays on the screen.
    pub(super) fn adapt_to(&mut self, shown: &Shown, height: usize) {
        let level = self.level_mut();
        if let Body::Text(lines) = &shown.body {
            level.offset = level.offset.min(lines.len().saturating_sub(height));
            return;
        }
        let rows = shown.rows();
        let followed = level.name.as_ref().and_then(|name| rows.iter().position(|row| row.name == *name));
        level.selected = followed.unwrap_or(level.selected).min(rows.len().saturating_sub(1));
        // Rows that are still to come must not move the selection to the first of them.
        if let Some(row) = rows.get(level.selected) {
            level.name = Some(row.name.clone());
        }
        let highest = level.selected.saturating_sub(height.saturating_sub(1));
        level.offset = level.offset.clamp(highest, level.selected).min(rows.len().saturating_sub(height));
    }

    fn in_filter(&mut self, key: KeyEvent, has_control: bool) {
        let filter = &mut self.level_mut().filter;
        match key.code {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                filter.clear();
                return;
            }
            KeyCode::Backspace if filter.is_empty() => return,
            _ => edit(filter, key, has_control),
        }
        self.mode = Mode::Filter;
    }

    fn in_command(&mut self, key: KeyEvent, mut text: String, has_control: bool) {
        match key.code {
            KeyCode::Esc => return,
            KeyCode::Backspace if text.is_empty() => return,
            KeyCode::Enter => return self.execute(&text),
            _ => edit(&mut text, key, has_control),
        }
        self.mode = Mode::Command(text);
    }

    fn execute(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match command::parse(text, &self.namespace) {
            Ok(Command::Show(view)) => self.levels = vec![Level::new(view)],
            Ok(Command::Help) => self.mode = Mode::Help,
            Ok(Command::Quit) => self.is_done = true,
            Err(complaint) => self.complaint = Some(complaint),
        }
    }
}

/// Writes into a line.
fn edit(line: &mut String, key: KeyEvent, has_control: bool) {
    match key.code {
        KeyCode::Char('u') if has_control => line.clear(),
        KeyCode::Char(letter) if !has_control => line.push(letter),
        KeyCode::Backspace => {
            line.pop();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
