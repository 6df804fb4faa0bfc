//! Groups Machines with equal conditions into one line. Pure.

use serde_json::Value;

use super::tree::{Counts, Line, State, state, title};

/// Status and reason of the three conditions that must agree.
type Key = [Option<(String, String)>; 3];

/// Groups lines of machines with equal conditions into one line. A machine with something else to report, such as a
/// plan that is being applied, keeps its own line.
pub(super) fn grouped(lines: Vec<Line>, machines: &[&Value]) -> Vec<Line> {
    let mut groups: Vec<(Option<Key>, Vec<Line>)> = Vec::new();
    for line in lines {
        let machine = machines.iter().find(|machine| title(machine) == line.name);
        let key = machine.filter(|_| !has_details(&line)).map(|machine| key(machine));
        match groups.iter_mut().find(|(known, _)| key.is_some() && *known == key) {
            Some((_, group)) => group.push(line),
            None => groups.push((key, vec![line])),
        }
    }
    groups
        .into_iter()
        .map(|(_, group)| if group.len() > 1 { merged(&group) } else { group[0].clone() })
        .collect()
}

fn has_details(line: &Line) -> bool {
    line.deleting || !line.conditions.is_empty() || line.children.iter().any(|child| child.state.is_some())
}

fn key(machine: &Value) -> Key {
    ["Available", "Ready", "UpToDate"]
        .map(|type_| state(machine, type_).map(|state| (state.status, state.reason)))
}

fn merged(group: &[Line]) -> Line {
    let names: Vec<&str> = group
        .iter()
        .map(|line| line.name.split_once('/').map_or(line.name.as_str(), |(_, name)| name))
        .collect();
    let message = match &names[..] {
        [first, second] => format!("See {first}, {second}"),
        _ => format!("See {}, {}, ...", names[0], names[1]),
    };
    let sum = |pick: fn(&Counts) -> i64| {
        group.iter().filter_map(|line| line.counts.as_ref().map(pick)).sum::<i64>()
    };
    let since = group.iter().filter_map(|line| line.state.as_ref()?.since).min();
    let versions: Vec<&Option<String>> = group.iter().map(|line| &line.version).collect();
    Line {
        name: format!("{} Machines...", group.len()),
        version: versions[0].clone().filter(|_| versions.windows(2).all(|pair| pair[0] == pair[1])),
        counts: Some(Counts {
            replicas: group.len().to_string(),
            available: sum(|counts| counts.available),
            ready: sum(|counts| counts.ready),
            up_to_date: sum(|counts| counts.up_to_date),
        }),
        state: group[0].state.clone().map(|state| State { message, since, ..state }),
        ..Line::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn machine(machine: &str, ready: &str) -> (Line, Value) {
        let object = json!({
            "kind": "Machine", "metadata": {"name": machine},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "m",
                "lastTransitionTime": "1970-01-01T00:00:01Z"}]},
        });
        let counts = Counts { ready: i64::from(ready == "True"), ..Counts::default() };
        let line = Line {
            name: title(&object),
            state: state(&object, "Ready"),
            counts: Some(counts),
            ..Line::default()
        };
        (line, object)
    }

    #[test]
    fn machines_that_agree_are_one_line() {
        let (lines, objects): (Vec<Line>, Vec<Value>) =
            [machine("a", "True"), machine("b", "False"), machine("c", "True"), machine("d", "True")]
                .into_iter()
                .unzip();
        let refs: Vec<&Value> = objects.iter().collect();
        let shown = grouped(lines.clone(), &refs);
        let names: Vec<&str> = shown.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["3 Machines...", "Machine/b"]);
        assert_eq!(shown[0].state.as_ref().map(|state| state.message.as_str()), Some("See a, c, ..."));
        assert_eq!(shown[0].counts.as_ref().map(|counts| counts.ready), Some(3));
        // One that carries out a plan stays by itself.
        let mut lines = lines;
        lines[0].children =
            vec![Line { name: "Plan 1".to_owned(), state: lines[0].state.clone(), ..Line::default() }];
        let names: Vec<String> = grouped(lines, &refs).into_iter().map(|line| line.name).collect();
        assert_eq!(names, ["Machine/a", "Machine/b", "2 Machines..."]);
    }
}
