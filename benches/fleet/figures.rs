//! Figures: the values of several runs, their median and spread, and their limit. This module does no I/O.

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// No limit: the figure is for information.
    None,
    /// The median is at most this.
    AtMost(f64),
    /// The median is at most this, or this is within the spread of the runs.
    AtMostWithinSpread(f64),
}

/// A figure, measured once in each run.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of the figure.
    pub name: String,
    /// Unit of the values, with a leading space if it needs one.
    pub unit: &'static str,
    /// One value for each run.
    pub values: Vec<f64>,
    /// The values of the other system, if the figure is a comparison. The limit then applies to the ratio.
    pub other: Option<Vec<f64>>,
    /// The limit.
    pub bar: Bar,
}

impl Figure {
    /// A figure without comparison.
    pub fn alone(name: impl Into<String>, unit: &'static str, values: Vec<f64>, bar: Bar) -> Self {
        Self { name: name.into(), unit, values, other: None, bar }
    }

    /// A figure that is compared with another system, run by run.
    pub fn beside(
        name: impl Into<String>,
        unit: &'static str,
        values: Vec<f64>,
        other: Vec<f64>,
        bar: Bar,
    ) -> Self {
        Self { name: name.into(), unit, values, other: Some(other), bar }
    }

    /// The values that the limit applies to: the ratios, or the values themselves.
    pub fn judged(&self) -> Vec<f64> {
        match &self.other {
            Some(other) => self.values.iter().zip(other).map(|(a, b)| ratio(*a, *b)).collect(),
            None => self.values.clone(),
        }
    }

    /// Whether the figure is within its limit. A figure without values is not, unless it has no limit.
    pub fn is_met(&self) -> bool {
        let judged = self.judged();
        match self.bar {
            Bar::None => true,
            Bar::AtMost(most) => median(&judged).is_some_and(|median| median <= most),
            Bar::AtMostWithinSpread(most) => spread(&judged).is_some_and(|(least, _)| least <= most),
        }
    }

    /// The row of a markdown table: name, median, other median, ratio, spread, bar.
    pub fn row(&self) -> [String; 6] {
        let shown = |values: &[f64]| {
            median(values).map_or("-".to_owned(), |median| format!("{}{}", number(median), self.unit))
        };
        let judged = self.judged();
        let (ratio, unit) = match self.other {
            Some(_) => (median(&judged).map_or("-".to_owned(), number), ""),
            None => (String::new(), self.unit),
        };
        let spread = match spread(&judged) {
            Some((least, most)) if judged.len() > 1 => format!("{} to {}{unit}", number(least), number(most)),
            _ => String::new(),
        };
        let bar = match self.bar {
            Bar::None => String::new(),
            Bar::AtMost(most) | Bar::AtMostWithinSpread(most) => {
                format!("{}{unit}{}", number(most), if self.is_met() { "" } else { ": **missed**" })
            }
        };
        let other = self.other.as_deref().map(shown).unwrap_or_default();
        [self.name.clone(), shown(&self.values), other, ratio, spread, bar]
    }
}

/// How many times the one is the other. Nothing is as much as nothing.
fn ratio(a: f64, b: f64) -> f64 {
    match (a == 0.0, b == 0.0) {
        (true, true) => 1.0,
        _ => a / b,
    }
}

/// The median.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The minimum and the maximum.
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().fold(least, f64::max)))
}

/// Formats a number with about three digits: at most two decimal places, and always all digits before the decimal
/// point.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 || size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A Markdown table. Columns without any value are omitted.
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let used: Vec<usize> = (0..heads.len())
        .filter(|column| *column == 0 || rows.iter().any(|row| !row[*column].is_empty()))
        .collect();
    let line = |cell: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = used.iter().map(|column| cell(*column)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&|column| heads[column].to_owned());
    text.push_str(&format!("|{}\n", "---|".repeat(used.len())));
    for row in rows {
        text.push_str(&line(&|column| row[column].clone()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((1.0, 3.0)));
        assert_eq!([0.0, 0.123, 12.34, 123.4].map(number), ["0", "0.12", "12.3", "123"]);
    }

    #[test]
    fn a_bar_is_kept_by_the_median() {
        let figure = |values: &[f64], bar| Figure::alone("x", " s", values.to_vec(), bar);
        assert!(figure(&[1.0, 2.0, 9.0], Bar::AtMost(2.0)).is_met());
        assert!(!figure(&[1.0, 3.0, 9.0], Bar::AtMost(2.0)).is_met());
        assert!(figure(&[1.0, 3.0, 9.0], Bar::AtMostWithinSpread(2.0)).is_met());
        assert!(!figure(&[2.5, 3.0], Bar::AtMostWithinSpread(2.0)).is_met());
        assert!(figure(&[], Bar::None).is_met() && !figure(&[], Bar::AtMost(1.0)).is_met());
    }

    #[test]
    fn ratios_are_taken_run_by_run() {
        let figure =
            Figure::beside("cpu", " s", vec![1.0, 2.0], vec![4.0, 2.0], Bar::AtMostWithinSpread(0.5));
        assert_eq!(figure.judged(), [0.25, 1.0]);
        assert!(figure.is_met());
        assert_eq!(figure.row(), ["cpu", "1.50 s", "3.00 s", "0.62", "0.25 to 1.00", "0.50"]);
        let none = Figure::beside("conflicts", "", vec![0.0], vec![0.0], Bar::AtMost(1.0));
        assert_eq!(none.judged(), [1.0]);
        let worse = Figure::beside("conflicts", "", vec![1.0], vec![0.0], Bar::AtMost(1.0));
        assert!(!worse.is_met() && worse.row()[5].contains("missed"));
    }

    #[test]
    fn empty_columns_are_left_out() {
        let rows = [vec!["a".to_owned(), String::new(), "1".to_owned()]];
        assert_eq!(table(&["", "none", "some"], &rows), "|  | some |\n|---|---|\n| a | 1 |\n");
    }
}
