//! Which of several like things (hosts, NICs, disks, memory nodes) does clearly less than the others: pure, from what
//! each did. Rates are judged by their logarithms, so that half the rate is as far as double.
//!
//! A table of them (who sends to whom) is taken apart by median polish (J. W. Tukey, Exploratory Data Analysis, 1977,
//! chapter 11): as overall + row + column + residual, by medians, so that a few wild cells bend nothing.

/// What differs is this many times as far off as the usual value.
const SIGMAS: f64 = 4.0;
/// The median absolute deviation of normal values times this is their standard deviation.
pub const MAD_TO_SIGMA: f64 = 1.4826;
/// Fewer values do not show how far values of like things usually are from each other.
const LEAST_FOR_NOISE: usize = 4;

/// A table is swept until nothing moves by more than this, or so often.
const SETTLED: f64 = 1e-6;
const MOST_SWEEPS: usize = 30;

/// An effect that is both large and far beyond what values usually differ by.
pub fn differs(effect: f64, ratio: f64, noise: f64) -> bool {
    effect < ratio.ln() && effect < -SIGMAS * noise
}

/// What one of several like things did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlikeFigure {
    pub bytes_per_second: f64,
    /// Where its rate lies by its own repeats; none: the values of all of them have to show their noise.
    pub interval: Option<[f64; 2]>,
    /// It did not do more because of itself: it was measured alone, or nearly full. Else it is at least that fast.
    pub is_own: bool,
}

/// One that does less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slower {
    pub index: usize,
    /// Its rate ÷ the usual one.
    pub ratio: f64,
    /// The median of the others.
    pub usual: f64,
}

/// Those that do less than `ratio` of the median of the others, beyond noise.
pub fn slower(figures: &[AlikeFigure], ratio: f64) -> Vec<Slower> {
    let sane = |figure: &AlikeFigure| figure.bytes_per_second.is_finite() && figure.bytes_per_second > 0.0;
    let log = |index: usize| figures[index].bytes_per_second.ln();
    let valid: Vec<usize> = (0..figures.len()).filter(|index| sane(&figures[*index])).collect();
    let has_intervals = valid.iter().all(|index| figures[*index].interval.is_some());
    let noise = noise(valid.iter().map(|index| log(*index)));
    let mut found = Vec::new();
    for index in valid.iter().copied().filter(|index| figures[*index].is_own) {
        let others = || valid.iter().copied().filter(move |other| *other != index);
        let Some(usual) = median(others().map(log)) else { continue };
        let beyond_noise = match noise {
            _ if has_intervals => {
                let not_slower = others().filter(|other| log(*other) >= usual);
                not_slower.map(|other| &figures[other]).all(|other| lies_below(&figures[index], other))
            }
            Some(noise) => differs(log(index) - usual, ratio, noise),
            None => false,
        };
        if beyond_noise && differs(log(index) - usual, ratio, 0.0) {
            found.push(Slower { index, ratio: (log(index) - usual).exp(), usual: usual.exp() });
        }
    }
    found
}

/// How far the values usually are from their middle; none where they are too few to show it.
fn noise(logarithms: impl Iterator<Item = f64>) -> Option<f64> {
    let all: Vec<f64> = logarithms.collect();
    let middle = median(all.iter().copied()).filter(|_| all.len() >= LEAST_FOR_NOISE)?;
    Some(median(all.iter().map(|value| (value - middle).abs())).unwrap_or(0.0) * MAD_TO_SIGMA)
}

fn lies_below(slow: &AlikeFigure, fast: &AlikeFigure) -> bool {
    slow.interval.zip(fast.interval).is_some_and(|([_, high], [low, _])| high < low)
}

/// A table of logarithms taken apart.
#[derive(Clone, Debug)]
pub struct Polished {
    pub overall: f64,
    pub rows: Vec<f64>,
    pub columns: Vec<f64>,
    /// None where nothing was measured.
    pub residuals: Vec<Vec<Option<f64>>>,
}

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

    fn within(rate: f64, spread: f64) -> AlikeFigure {
        let interval = Some([rate * (1.0 - spread), rate * (1.0 + spread)]);
        AlikeFigure { bytes_per_second: rate, interval, is_own: true }
    }

    const NONE: [usize; 0] = [];

    fn indexes(figures: &[AlikeFigure]) -> Vec<usize> {
        slower(figures, 0.8).into_iter().map(|one| one.index).collect()
    }

    #[test]
    fn one_slow_twin_of_two_and_of_four_is_found() {
        let found = slower(&[within(956.0, 0.01), within(95.8, 0.01)], 0.8);
        assert_eq!((found.len(), found[0].index), (1, 1));
        assert!((found[0].ratio - 0.1002).abs() < 1e-3 && (found[0].usual - 956.0).abs() < 1e-6);
        let four = [100.0, 70.0, 103.0, 98.0].map(|rate| within(rate, 0.05));
        assert_eq!(indexes(&four), [1]);
        let half = [100.0, 50.0, 100.0, 50.0].map(|rate| within(rate, 0.05));
        assert_eq!(indexes(&half), [1, 3]);
        assert_eq!(indexes(&[within(100.0, 0.01)]), NONE, "nothing is like it");
    }

    #[test]
    fn what_noise_explains_is_not_blamed() {
        assert_eq!(indexes(&[within(100.0, 0.2), within(75.0, 0.2)]), NONE, "the intervals meet");
        assert_eq!(indexes(&[within(100.0, 0.01), within(85.0, 0.01)]), NONE, "not far enough");
        let bare = |rate| AlikeFigure { interval: None, ..within(rate, 0.0) };
        assert_eq!(indexes(&[bare(100.0), bare(10.0)]), NONE, "nobody knows their noise");
        assert_eq!(indexes(&[100.0, 101.0, 40.0, 99.0].map(bare)), [2]);
        assert_eq!(indexes(&[100.0, 60.0, 140.0, 80.0].map(bare)), NONE, "they differ anyway");
    }

    #[test]
    fn what_something_else_held_is_never_the_slow_one() {
        let held = AlikeFigure { is_own: false, ..within(50.0, 0.01) };
        assert_eq!(indexes(&[within(100.0, 0.01), held]), NONE);
        let at_least = AlikeFigure { is_own: false, ..within(100.0, 0.01) };
        assert_eq!(indexes(&[at_least, within(50.0, 0.01)]), [1]);
    }

    proptest! {
        /// Names and order are nothing; neither is the unit.
        #[test]
        fn order_and_unit_do_not_matter(
            rates in prop::collection::vec(1.0f64..1000.0, 0..8), unit in 0.001f64..1e6, turn in 0usize..8,
        ) {
            let figures: Vec<AlikeFigure> = rates.iter().map(|rate| within(*rate, 0.02)).collect();
            let found = indexes(&figures);
            let scaled: Vec<AlikeFigure> = rates.iter().map(|rate| within(*rate * unit, 0.02)).collect();
            prop_assert_eq!(&indexes(&scaled), &found);
            let mut turned = figures.clone();
            let turn = turn % figures.len().max(1);
            turned.rotate_left(turn);
            let back = indexes(&turned).into_iter().map(|index| (index + turn) % figures.len());
            let mut back: Vec<usize> = back.collect();
            back.sort_unstable();
            prop_assert_eq!(back, found);
        }
    }

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
