//! A table of any columns for a screen: what is least needed goes first where the screen is narrow, then the first column is cut.

use super::super::printable::{columns, shortened};

/// One column.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Column<'a> {
    pub(in crate::report) head: &'a str,
    /// Words stand at the left, numbers at the right.
    pub(in crate::report) left: bool,
    /// Dropped first where it is highest; 0: never.
    pub(in crate::report) expendable: u8,
}

/// Least columns of the first cell.
const LEAST: usize = 12;

/// A column from its head.
pub(in crate::report) const fn column(head: &str, left: bool, expendable: u8) -> Column<'_> {
    Column { head, left, expendable }
}

/// Head and rows, each at most `width` wide and without blanks at its end.
pub(in crate::report) fn lines(all: &[Column], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let wide = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| columns(cell));
        cells.max().unwrap_or(0).max(columns(all[index].head))
    };
    let filled =
        |index: &usize| *index == 0 || rows.iter().any(|row| row.get(*index).is_some_and(|c| !c.is_empty()));
    let mut kept: Vec<(usize, usize)> =
        (0..all.len()).filter(filled).map(|index| (index, wide(index))).collect();
    let total =
        |kept: &[(usize, usize)]| kept.iter().map(|(_, wide)| wide + 2).sum::<usize>().saturating_sub(2);
    while total(&kept) > width {
        let most = kept.iter().map(|(index, _)| all[*index].expendable).max().unwrap_or(0);
        // A table of names alone tells nothing: the name gives way first down to some letters.
        let over = total(&kept) - width;
        let spare = kept.first().map_or(0, |(_, wide)| wide.saturating_sub(NAME_KEPT));
        if most == 0 || spare >= over {
            break;
        }
        kept.retain(|(index, _)| all[*index].expendable < most);
    }
    let over = total(&kept).saturating_sub(width);
    if let Some((_, first)) = kept.first_mut() {
        *first = first.saturating_sub(over).max(LEAST);
    }
    let heads: Vec<String> = all.iter().map(|column| column.head.to_string()).collect();
    std::iter::once(&heads).chain(rows).map(|row| line(all, &kept, row, width)).collect()
}

/// Letters of the first column that are worth more than an expendable column.
const NAME_KEPT: usize = 34;

fn line(all: &[Column], kept: &[(usize, usize)], row: &[String], width: usize) -> String {
    let mut text = String::new();
    for (index, wide) in kept {
        let cell = shortened(row.get(*index).map_or("", String::as_str), *wide);
        let padding = " ".repeat(wide.saturating_sub(columns(&cell)));
        text += &if all[*index].left { cell + &padding } else { padding + &cell };
        text += "  ";
    }
    shortened(text.trim_end(), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        column("what", true, 0),
        column("rate", false, 0),
        column("spread", false, 1),
        column("note", true, 2),
    ];

    #[test]
    fn what_is_least_needed_goes_first() {
        let row = |cells: [&str; 4]| cells.map(String::from).to_vec();
        let rows = [
            row(["sequential read, 1 worker", "98.5 MB/s", "1.2 %", "page cache"]),
            row(["x", "1 MB/s", "", ""]),
        ];
        insta::assert_snapshot!(lines(&COLUMNS, &rows, 80).join("\n"), @r"
        what                            rate  spread  note
        sequential read, 1 worker  98.5 MB/s   1.2 %  page cache
        x                             1 MB/s
        ");
        insta::assert_snapshot!(lines(&COLUMNS, &rows, 46).join("\n"), @r"
        what                            rate  spread
        sequential read, 1 worker  98.5 MB/s   1.2 %
        x                             1 MB/s
        ");
        insta::assert_snapshot!(lines(&COLUMNS, &rows, 30).join("\n"), @r"
        what                      rate
        sequential read, 1…  98.5 MB/s
        x                       1 MB/s
        ");
    }
}
