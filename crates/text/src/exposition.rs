//! Prometheus exposition: the text format that every scraper reads (`text/plain; version=0.0.4`), from the OpenMetrics that
//! `prometheus-client` writes.
//!
//! The two differ in how a counter is called: OpenMetrics declares `x` and samples `x_total`, the text format declares and
//! samples `x_total`.

use std::collections::HashSet;

/// Content type of the metrics.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Rewrites an OpenMetrics exposition.
pub fn from_open_metrics(text: &str) -> String {
    let counters: HashSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut written = String::with_capacity(text.len());
    for line in text.lines() {
        let declared = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|head| Some((head, line.strip_prefix(head)?.split_once(' ')?)));
        match declared {
            Some((head, (name, rest))) if counters.contains(name) => {
                written.extend([head, name, "_total ", rest, "\n"]);
            }
            Some(_) => written.extend([line, "\n"]),
            // `# EOF` and `# UNIT` mean nothing there.
            None if line.starts_with('#') => {}
            None => written.extend([line, "\n"]),
        }
    }
    written
}

/// Writes the two lines that go before the samples of a metric.
pub fn declare(text: &mut String, name: &str, kind: &str, help: &str) {
    text.extend(["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"]);
}

/// Writes the value of a label as the format wants it.
pub fn escape(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_declared_as_they_are_sampled() {
        let open = "# HELP a_b Help.\n# TYPE a_b counter\na_b_total{x=\"# y\"} 1\n# HELP d Deep.\n# TYPE d gauge\n\
                    # UNIT d seconds\nd 2\n# EOF\n";
        let expected = "# HELP a_b_total Help.\n# TYPE a_b_total counter\na_b_total{x=\"# y\"} 1\n# HELP d Deep.\n\
                        # TYPE d gauge\nd 2\n";
        assert_eq!(from_open_metrics(open), expected);
    }

    #[test]
    fn a_label_cannot_end_its_line() {
        let mut text = String::new();
        escape(&mut text, "a\"b\\c\nd");
        assert_eq!(text, "a\\\"b\\\\c\\nd");
    }
}
