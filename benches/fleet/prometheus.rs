//! Parses counters in the text format of Prometheus. This module does no I/O.

/// The sum of all series of a counter whose labels `keep` accepts. `keep` gets a function that returns the value of a
/// label.
pub fn sum(text: &str, metric: &str, keep: impl Fn(&dyn Fn(&str) -> Option<String>) -> bool) -> f64 {
    text.lines()
        .filter_map(|line| series(line, metric))
        .filter(|(labels, _)| {
            keep(&|name| labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.clone()))
        })
        .map(|(_, value)| value)
        .sum()
}

type Labels = Vec<(String, String)>;

fn series(line: &str, metric: &str) -> Option<(Labels, f64)> {
    let rest = line.strip_prefix(metric)?;
    let (labels, value) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Vec::new(), rest.strip_prefix(' ')?),
    };
    // A time stamp may follow the value.
    Some((labels, value.split_whitespace().next()?.parse().ok()?))
}

/// The labels up to the closing brace, and what comes after it.
fn labels(mut text: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next()? {
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (place, '"') => break place,
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
        text = &rest[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP apiserver_request_total Counter of requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="machines",verb="GET"} 3
apiserver_request_total{code="409",resource="machines",verb="PUT"} 2 1700000000
apiserver_request_total{code="200",resource="a\"},{\\b",verb="WATCH"} 1e1
apiserver_request_total_more{code="200"} 100
up 1
"#;

    #[test]
    fn series_are_summed() {
        let metric = "apiserver_request_total";
        assert_eq!(sum(TEXT, metric, |_| true), 15.0);
        assert_eq!(sum(TEXT, metric, |label| label("verb").as_deref() != Some("WATCH")), 5.0);
        assert_eq!(sum(TEXT, metric, |label| label("resource").as_deref() == Some("a\"},{\\b")), 10.0);
        assert_eq!(sum(TEXT, "up", |_| true), 1.0);
        assert_eq!(sum(TEXT, "down", |_| true), 0.0);
    }
}
