//! Renders a tree as text, in columns, within the width of the terminal and in colour if enabled. Pure.

use capstan_api::wait::NEGATIVE;
use jiff::Timestamp;

use super::tree::{Line, State};
use crate::terminal::{self, Color, Look, columns, harmless};

const TITLES: [&str; 9] =
    ["NAME", "REPLICAS", "AVAILABLE", "READY", "UP TO DATE", "STATUS", "REASON", "SINCE", "MESSAGE"];
/// Between two columns.
const GAP: &str = "  ";
/// Messages are broken into lines of this many characters where nothing is known of the room, as clusterctl does.
const USUAL_MESSAGE: usize = 100;
/// And never into shorter ones.
const SHORTEST_MESSAGE: usize = 30;

/// A cell, and the colour of its text.
#[derive(Clone, Debug, Default)]
struct Cell {
    text: String,
    /// What stands before the text and is never coloured like it: the branches of the tree.
    prefix: String,
    color: Option<Color>,
}

fn color(state: &State) -> Option<Color> {
    let is_negative = NEGATIVE.contains(&state.condition.as_str());
    match (state.status.as_str(), is_negative) {
        ("True", false) | ("False", true) | ("Applied", _) => Some(Color::Green),
        ("False", false) | ("True", true) | ("Failed" | "Refused", _) => Some(Color::Red),
        ("Unknown" | "Applying" | "Waiting", _) => Some(Color::Yellow),
        _ => None,
    }
}

type Row = [Cell; 9];

impl Cell {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: harmless(&text.into()), ..Self::default() }
    }

    fn width(&self) -> usize {
        columns(&self.prefix) + columns(&self.text)
    }

    fn print(&self, width: usize, look: Look) -> String {
        let blanks = " ".repeat(width.saturating_sub(self.width()));
        let text = self.color.map_or_else(|| self.text.clone(), |color| look.paint(color, &self.text));
        format!("{}{text}{blanks}", look.paint(Color::Gray, &self.prefix))
    }
}

/// The whole tree, one line per object, with a header line.
pub(crate) fn render(tree: &Line, now: Timestamp, look: Look) -> String {
    let mut rows: Vec<Row> = Vec::new();
    push(&mut rows, tree, "", "", now);
    let mut widths: [usize; 9] = std::array::from_fn(|column| {
        let widest = rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        widest.max(TITLES[column].len())
    });
    let before: usize = widths[..8].iter().map(|width| width + GAP.len()).sum();
    let room = match look.width {
        _ if look.wide => usize::MAX,
        Some(width) => width.saturating_sub(before).max(SHORTEST_MESSAGE),
        None => USUAL_MESSAGE,
    };
    let rows: Vec<Row> = rows.into_iter().flat_map(|row| rows_of(row, room)).collect();
    widths[8] = 0;
    let titles = TITLES.map(Cell::plain);
    std::iter::once(&titles)
        .chain(&rows)
        .map(|row| {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| cell.print(width, look)).collect();
            format!("{}\n", cells.join(GAP).trim_end())
        })
        .collect()
}

/// `first` stands before the line itself, `rest` before what is below it.
fn push(rows: &mut Vec<Row>, line: &Line, first: &str, rest: &str, now: Timestamp) {
    let version = line.version.as_ref().map(|version| format!(", {version}")).unwrap_or_default();
    let deleting = if line.deleting { "!! DELETED !! " } else { "" };
    let name = Cell {
        text: format!("{deleting}{}{version}", line.name),
        prefix: first.to_owned(),
        color: line.deleting.then_some(Color::Red),
    };
    let counted = |pick: fn(&super::tree::Counts) -> String| {
        Cell::plain(line.counts.as_ref().map(pick).unwrap_or_default())
    };
    // Where every condition is shown, none stands for all.
    let state = line.state.as_ref().filter(|_| line.conditions.is_empty());
    let status = state.map(|state| format!("{}: {}", state.condition, state.status)).unwrap_or_default();
    let below = if line.children.is_empty() { rest.to_owned() } else { format!("{rest}│ ") };
    let mut row = row_of(name, state, status, now);
    row[1] = counted(|counts| counts.replicas.clone());
    row[2] = counted(|counts| counts.available.to_string());
    row[3] = counted(|counts| counts.ready.to_string());
    row[4] = counted(|counts| counts.up_to_date.to_string());
    // Lines that a message goes on in stand under the branches.
    rows.push(with_continuation(row, &below));
    let last_condition = line.conditions.len().saturating_sub(1);
    for (index, condition) in line.conditions.iter().enumerate() {
        let branch = if index == last_condition { "└─" } else { "├─" };
        let name = Cell {
            text: condition.condition.clone(),
            prefix: format!("{below}          {branch}"),
            color: Some(Color::Cyan),
        };
        let row = row_of(name, Some(condition), condition.status.clone(), now);
        let under = if index == last_condition { "  " } else { "│ " };
        rows.push(with_continuation(row, &format!("{below}          {under}")));
    }
    let last = line.children.len().saturating_sub(1);
    for (index, child) in line.children.iter().enumerate() {
        let (branch, under) = if index == last { ("└─", "  ") } else { ("├─", "│ ") };
        push(rows, child, &format!("{rest}{branch}"), &format!("{rest}{under}"), now);
    }
}

fn row_of(name: Cell, state: Option<&State>, status: String, now: Timestamp) -> Row {
    let mut row: Row = Default::default();
    row[0] = name;
    row[5] = Cell { color: state.and_then(color), ..Cell::plain(status) };
    row[6] = Cell::plain(state.map(|state| state.reason.clone()).unwrap_or_default());
    row[7] =
        Cell::plain(state.and_then(|state| state.since).map(|since| age(since, now)).unwrap_or_default());
    row[8] = Cell::plain(state.map(|state| state.message.clone()).unwrap_or_default());
    row
}

/// Remembers, in the cell of the message, what stands before further lines of it.
fn with_continuation(mut row: Row, below: &str) -> Row {
    row[8].prefix = below.to_owned();
    row
}

/// The row, and further ones for the rest of its message.
fn rows_of(mut row: Row, room: usize) -> Vec<Row> {
    let below = std::mem::take(&mut row[8].prefix);
    let mut lines =
        row[8].text.lines().flat_map(|line| terminal::broken(line, room, 0)).collect::<Vec<_>>().into_iter();
    row[8].text = lines.next().unwrap_or_default();
    let more = lines.map(|text| {
        let mut row: Row = Default::default();
        row[0].prefix.clone_from(&below);
        row[8].text = text;
        row
    });
    std::iter::once(row).chain(more.collect::<Vec<_>>()).collect()
}

/// `12s`, `5m`, `3h`, `2d`: an age in its largest unit.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(condition: &str, status: &str, message: &str) -> State {
        State {
            condition: condition.to_owned(),
            status: status.to_owned(),
            reason: "NotAvailable".to_owned(),
            since: Some(Timestamp::UNIX_EPOCH),
            message: message.to_owned(),
            wait: None,
        }
    }

    fn leaf(name: &str) -> Line {
        Line { name: name.to_owned(), ..Line::default() }
    }

    fn now() -> Timestamp {
        Timestamp::from_second(90).expect("90 seconds is a time")
    }

    #[test]
    fn branches_and_messages_line_up() {
        let tree = Line {
            state: Some(state("Available", "False", "* one\n* two")),
            version: Some("v1".to_owned()),
            children: vec![Line { children: vec![leaf("x")], ..leaf("b") }, leaf("c")],
            ..leaf("Cluster/a")
        };
        let text = render(&tree, now(), Look::default());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("Cluster/a, v1"), "{text}");
        assert!(lines[1].ends_with("Available: False  NotAvailable  90s    * one"), "{text}");
        assert!(lines[2].starts_with("│ ") && lines[2].ends_with("* two"), "{text}");
        assert_eq!(&lines[3..], ["├─b", "│ └─x", "└─c"]);
    }

    #[test]
    fn conditions_stand_below_their_object() {
        let conditions = vec![state("Ready", "False", ""), state("Paused", "False", "")];
        let shown = state("Ready", "False", "not shown twice");
        let tree = Line { conditions, state: Some(shown), children: vec![leaf("c")], ..leaf("Cluster/a") };
        let text = render(&tree, now(), Look::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "Cluster/a");
        assert!(lines[2].starts_with("│           ├─Ready") && lines[2].contains("False"), "{text}");
        assert!(lines[3].starts_with("│           └─Paused"), "{text}");
        assert_eq!(lines[4], "└─c");
    }

    #[test]
    fn messages_fit_into_the_terminal_unless_they_may_be_wide() {
        let message = "word ".repeat(60);
        let tree = Line { state: Some(state("Ready", "False", message.trim())), ..leaf("a") };
        let longest = |look| {
            let text = render(&tree, now(), look);
            text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
        };
        let look = Look { width: Some(120), ..Look::default() };
        assert!((100..=120).contains(&longest(look)), "{}", longest(look));
        assert!(longest(Look { wide: true, ..look }) > 290);
        assert!(longest(Look { width: Some(10), ..Look::default() }) > SHORTEST_MESSAGE);
    }

    #[test]
    fn colour_is_only_where_it_is_wanted_and_never_changes_the_text() {
        let tree = Line { state: Some(state("Ready", "False", "m")), children: vec![leaf("c")], ..leaf("a") };
        let plain = render(&tree, now(), Look::default());
        let color = render(&tree, now(), Look { color: true, ..Look::default() });
        assert!(!plain.contains('\x1b') && color.contains("\x1b[31mReady: False\x1b[0m"), "{color}");
        let mut stripped = color;
        for code in ["\x1b[31m", "\x1b[90m", "\x1b[0m"] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, plain);
    }

    #[test]
    fn ages_are_short() {
        let at = |seconds| age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).expect("a time"));
        assert_eq!([at(0), at(119), at(120), at(7200), at(172_800)], ["0s", "119s", "2m", "2h", "2d"]);
    }
}
