//! Formats rows in columns. Pure.

use crate::terminal::{columns, harmless, padded};

/// Rows below titles, with columns as wide as their content. Cells contain text of objects, so control sequences are
/// removed, and no cell takes more than one line.
pub(crate) fn table<R: AsRef<[String]>>(titles: &[&str], rows: &[R]) -> String {
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let cells = |row: &R| row.as_ref().iter().map(|cell| one_line(cell)).collect::<Vec<_>>();
    let all: Vec<Vec<String>> = std::iter::once(titles).chain(rows.iter().map(cells)).collect();
    let count = all.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let width = |column| all.iter().map(|row| columns(&cell(row, column))).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    all.iter()
        .map(|row| {
            let cells: Vec<String> =
                widths.iter().enumerate().map(|(column, width)| padded(&cell(row, column), *width)).collect();
            format!("{}\n", cells.join("   ").trim_end())
        })
        .collect()
}

fn one_line(cell: &str) -> String {
    harmless(cell).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_cell_leaves_its_line() {
        let rows = [["a".to_owned(), "b\nc".to_owned()], ["long name".to_owned(), "\x1b[2Jd".to_owned()]];
        assert_eq!(
            table(&["NAME", "STATE"], &rows),
            "NAME        STATE\na           b c\nlong name   \u{fffd}[2Jd\n"
        );
        let wide = [["数据中心".to_owned(), "x".to_owned()], ["a".to_owned(), "y".to_owned()]];
        assert_eq!(table(&["NAME", "S"], &wide), "NAME       S\n数据中心   x\na          y\n");
    }
}
