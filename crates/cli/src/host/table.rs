//! Rows in columns. Pure.

/// Rows below titles, as wide as they must be.
pub(super) fn table<const N: usize>(titles: [&str; N], rows: &[[String; N]]) -> String {
    let titles = titles.map(str::to_owned);
    let all: Vec<&[String; N]> = std::iter::once(&titles).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    all.iter()
        .map(|row| {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            format!("{}\n", cells.join("   ").trim_end())
        })
        .collect()
}
