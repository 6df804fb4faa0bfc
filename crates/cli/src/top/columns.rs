//! Computes the widths of table columns. Pure.

/// Spaces between two columns.
pub(super) const GAP: usize = 2;
/// Columns are not made narrower than this.
const NARROWEST: usize = 4;

/// The width of each column. If the table is wider than the room, columns without content are removed first, and then
/// the widest columns shrink. A column of width 0 is not shown.
pub(super) fn widths(titles: &[usize], cells: &[Vec<usize>], room: usize) -> Vec<usize> {
    let content = |column: usize| cells.iter().filter_map(|row| row.get(column)).copied().max().unwrap_or(0);
    let mut widths: Vec<usize> =
        titles.iter().enumerate().map(|(column, title)| content(column).max(*title)).collect();
    if total(&widths) > room && !cells.is_empty() {
        for (column, width) in widths.iter_mut().enumerate() {
            if content(column) == 0 {
                *width = 0;
            }
        }
    }
    while total(&widths) > room {
        let Some(widest) = widths.iter_mut().max() else { break };
        if *widest <= NARROWEST {
            break;
        }
        *widest -= 1;
    }
    widths
}

/// Columns and what is between them.
fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_the_room() {
        for (titles, cells, room, expected) in [
            (vec![4, 4], vec![vec![2, 9]], 20, vec![4, 9]),
            (vec![4, 4], vec![vec![2, 20]], 20, vec![4, 14]),
            (vec![4, 4, 4], vec![vec![2, 0, 20]], 20, vec![4, 0, 14]),
            (vec![4, 4, 4], vec![vec![2, 0, 2]], 20, vec![4, 4, 4]),
            (vec![9, 9], vec![], 12, vec![5, 5]),
            (vec![4, 4, 4], vec![vec![9, 9, 9]], 3, vec![4, 4, 4]),
        ] {
            assert_eq!(widths(&titles, &cells, room), expected, "{titles:?} {cells:?} {room}");
        }
    }
}
