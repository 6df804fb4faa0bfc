//! A tree as text, in columns.

use jiff::Timestamp;

use super::tree::{Line, State};

const TITLES: [&str; 9] =
    ["NAME", "REPLICAS", "AVAILABLE", "READY", "UP TO DATE", "STATUS", "REASON", "SINCE", "MESSAGE"];

/// The whole tree, one line each, with a line of titles.
pub(crate) fn render(tree: &Line, now: Timestamp) -> String {
    let mut rows = vec![TITLES.map(str::to_owned)];
    push(&mut rows, tree, "", "", now);
    let widths: Vec<usize> = (0..TITLES.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            format!("{}\n", cells.join("  ").trim_end())
        })
        .collect()
}

/// `first` stands before the line itself, `rest` before what is below it.
fn push(rows: &mut Vec<[String; 9]>, line: &Line, first: &str, rest: &str, now: Timestamp) {
    let counted =
        |pick: fn(&super::tree::Counts) -> String| line.counts.as_ref().map(pick).unwrap_or_default();
    let stated = |pick: fn(&State) -> &str| {
        line.state.as_ref().map(|state| pick(state).to_owned()).unwrap_or_default()
    };
    let status =
        line.state.as_ref().map(|state| format!("{}: {}", state.condition, state.status)).unwrap_or_default();
    let since =
        line.state.as_ref().and_then(|state| state.since).map(|since| age(since, now)).unwrap_or_default();
    let message = stated(|state| &state.message);
    let mut lines = message.lines();
    rows.push([
        format!("{first}{}", line.name),
        counted(|counts| counts.replicas.clone()),
        counted(|counts| counts.available.to_string()),
        counted(|counts| counts.ready.to_string()),
        counted(|counts| counts.up_to_date.to_string()),
        status,
        stated(|state| &state.reason),
        since,
        lines.next().unwrap_or_default().to_owned(),
    ]);
    let below = if line.children.is_empty() { rest.to_owned() } else { format!("{rest}│ ") };
    for more in lines {
        let mut row: [String; 9] = Default::default();
        row[0].clone_from(&below);
        row[8] = more.to_owned();
        rows.push(row);
    }
    let last = line.children.len().saturating_sub(1);
    for (index, child) in line.children.iter().enumerate() {
        let (branch, under) = if index == last { ("└─", "  ") } else { ("├─", "│ ") };
        push(rows, child, &format!("{rest}{branch}"), &format!("{rest}{under}"), now);
    }
}

/// `12s`, `5m`, `3h`, `2d`: the largest unit that fits.
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

    #[test]
    fn branches_and_messages_line_up() {
        let state = State {
            condition: "Available".to_owned(),
            status: "False".to_owned(),
            reason: "NotAvailable".to_owned(),
            since: Some(Timestamp::UNIX_EPOCH),
            message: "* one\n* two".to_owned(),
        };
        let leaf = |name: &str| Line { name: name.to_owned(), ..Line::default() };
        let tree = Line {
            name: "Cluster/a".to_owned(),
            state: Some(state),
            children: vec![Line { children: vec![leaf("x")], ..leaf("b") }, leaf("c")],
            ..Line::default()
        };
        let now = Timestamp::from_second(90).expect("90 seconds is a time");
        let text = render(&tree, now);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("Cluster/a"), "{text}");
        assert!(lines[1].ends_with("Available: False  NotAvailable  90s    * one"), "{text}");
        assert!(lines[2].starts_with("│ ") && lines[2].ends_with("* two"), "{text}");
        assert_eq!(&lines[3..], ["├─b", "│ └─x", "└─c"]);
    }

    #[test]
    fn ages_are_short() {
        let at = |seconds| age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).expect("a time"));
        assert_eq!([at(0), at(119), at(120), at(7200), at(172_800)], ["0s", "119s", "2m", "2h", "2d"]);
    }
}
