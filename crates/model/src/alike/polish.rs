//! Median polish (J. W. Tukey, Exploratory Data Analysis, 1977, chapter 11): a table as overall + row + column +
//! residual, by medians, so that a few wild cells bend nothing.

/// A table of logarithms taken apart.
#[derive(Clone, Debug)]
pub struct Polished {
    pub overall: f64,
    pub rows: Vec<f64>,
    pub columns: Vec<f64>,
    /// None where nothing was measured.
    pub residuals: Vec<Vec<Option<f64>>>,
}

/// Sweeps until nothing moves by more than this, or so often.
const SETTLED: f64 = 1e-6;
const MOST_SWEEPS: usize = 30;

/// Middle value; the mean of the two middle ones for an even number; none where there is none.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Takes a square table apart.
pub fn polish(table: &[Vec<Option<f64>>]) -> Polished {
    let size = table.len();
    let mut polished =
        Polished { overall: 0.0, rows: vec![0.0; size], columns: vec![0.0; size], residuals: table.to_vec() };
    for _ in 0..MOST_SWEEPS {
        let mut moved = 0.0_f64;
        for row in 0..size {
            let Some(shift) = median(polished.residuals[row].iter().flatten().copied()) else { continue };
            polished.rows[row] += shift;
            polished.residuals[row].iter_mut().flatten().for_each(|cell| *cell -= shift);
            moved = moved.max(shift.abs());
        }
        for column in 0..size {
            let cells = polished.residuals.iter().filter_map(|row| row[column]);
            let Some(shift) = median(cells) else { continue };
            polished.columns[column] += shift;
            for row in &mut polished.residuals {
                row[column].iter_mut().for_each(|cell| *cell -= shift);
            }
            moved = moved.max(shift.abs());
        }
        for effects in [&mut polished.rows, &mut polished.columns] {
            let shift = median(effects.iter().copied()).unwrap_or(0.0);
            effects.iter_mut().for_each(|effect| *effect -= shift);
            polished.overall += shift;
        }
        if moved < SETTLED {
            break;
        }
    }
    polished
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The parts make the table again, whatever it holds.
        #[test]
        fn the_parts_add_up(size in 1usize..9, cells in prop::collection::vec(prop::option::of(-20.0f64..20.0), 81)) {
            let table: Vec<Vec<Option<f64>>> =
                (0..size).map(|row| (0..size).map(|column| cells[row * 9 + column]).collect()).collect();
            let parts = polish(&table);
            for (row, cells) in table.iter().enumerate() {
                for (column, cell) in cells.iter().enumerate() {
                    let rest = parts.residuals[row][column];
                    prop_assert_eq!(cell.is_some(), rest.is_some());
                    if let (Some(cell), Some(rest)) = (cell, rest) {
                        let sum = parts.overall + parts.rows[row] + parts.columns[column] + rest;
                        prop_assert!((sum - cell).abs() < 1e-6, "{} {}", sum, cell);
                    }
                }
            }
        }
    }
}
