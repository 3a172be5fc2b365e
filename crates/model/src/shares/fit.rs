//! Linear fits with instruments: the effect of the schedule on the flow ÷ its effect on what was taken, with errors
//! that suppose neither equal variance nor a normal distribution of single slots (MacKinnon and White, "Some
//! heteroskedasticity-consistent covariance matrix estimators with improved finite sample properties", 1985: HC2).
//! A neighbour who comes for a second spoils a slot or two: what lies far off counts less, or not at all (Beaton and Tukey,
//! "The fitting of power series", 1974). The schedule is random, so what is far off is so in either direction alike.

/// Where 95 % of a normal distribution lie, and what is needed for one of 1, 2, … to lie beyond in 5 % of all cases.
const NORMAL: [f64; 8] = [1.960, 2.241, 2.394, 2.498, 2.576, 2.638, 2.690, 2.734];
/// A pivot that is smaller than this part of its column is 0.
const SINGULAR: f64 = 1e-9;
/// An error of so many typical ones is far off; one of so many is of something else than the schedule. Of errors that are
/// distributed normally hardly any is either.
const FAR_OFF: f64 = 2.0;
const SPOILT: f64 = 6.0;
/// The median of the errors' amounts is this part of their standard deviation, where they are distributed normally.
const MEDIAN_OF_NORMAL: f64 = 0.6745;
/// Weights change by less than this after some turns; if they do not, the last are as good as any.
const SAME_WEIGHT: f64 = 1e-3;
const MOST_TURNS: usize = 30;
/// What a row leaves of its error at least.
const LEAST_LEFT: f64 = 0.05;
/// Fewer degrees of freedom give no interval.
const LEAST_FREEDOM: f64 = 2.0;

/// A value and half of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub half_width: f64,
}

impl Estimate {
    pub fn low(self) -> f64 {
        self.value - self.half_width
    }

    pub fn high(self) -> f64 {
        self.value + self.half_width
    }
}

/// First − second slot of these pairs, so that what drifts is in none of them.
pub(super) struct Differences<'a> {
    /// Which values a column is the mean of, as heavy as each weighs.
    pub columns: &'a [Vec<usize>],
    pub pairs: &'a [usize],
    pub weight: &'a dyn Fn(usize) -> f64,
}

impl Differences<'_> {
    pub(super) fn of(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        self.pairs.iter().map(|pair| value(2 * pair) - value(2 * pair + 1)).collect()
    }

    pub(super) fn by_column(&self, values: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mean = |parts: &[usize], slot: usize| {
            let weighted = parts.iter().map(|at| values[*at][slot] * (self.weight)(*at)).sum::<f64>();
            weighted / parts.iter().map(|at| (self.weight)(*at)).sum::<f64>()
        };
        let column = |parts: &Vec<usize>| match parts.as_slice() {
            // Of what is not used at all the weight is nothing.
            [one] => self.of(|slot| values[*one][slot]),
            parts => self.of(|slot| mean(parts, slot)),
        };
        self.columns.iter().map(column).collect()
    }
}

/// Coefficients with their covariance.
pub(super) struct Fit {
    coefficients: Vec<f64>,
    covariance: Vec<Vec<f64>>,
    freedom: f64,
    /// Standard deviation of what is left.
    pub noise: f64,
}

impl Fit {
    /// `y` by the columns of `x`, for which the columns of `z` are the instruments. None where the columns cannot be
    /// told apart, or where there are too few values.
    pub(super) fn of(y: &[f64], x: &[Vec<f64>], z: &[Vec<f64>]) -> Option<Fit> {
        Fit::weighted(y, x, z, &[Spoilt::CountsLess, Spoilt::DoesNotCount])
    }

    /// The same where all values count alike: of many columns few values are left to tell which of them lie far off.
    pub(super) fn plain(y: &[f64], x: &[Vec<f64>], z: &[Vec<f64>]) -> Option<Fit> {
        Fit::weighted(y, x, z, &[])
    }

    fn weighted(y: &[f64], x: &[Vec<f64>], z: &[Vec<f64>], spoilt: &[Spoilt]) -> Option<Fit> {
        let left = y.len() as f64 - x.len() as f64;
        if left < LEAST_FREEDOM {
            return None;
        }
        let mut weights = vec![1.0; y.len()];
        let mut solved = Solved::of(y, x, z, &weights)?;
        for spoilt in spoilt {
            for _ in 0..MOST_TURNS {
                let next = spoilt.weights(&solved.errors, left);
                let is_same = weights.iter().zip(&next).all(|(a, b)| (a - b).abs() < SAME_WEIGHT);
                let Some(again) = (!is_same).then(|| Solved::of(y, x, z, &next)).flatten() else { break };
                (solved, weights) = (again, next);
            }
        }
        solved.with_errors(x, z, &weights)
    }

    /// A coefficient as a share, where one of `among` values is looked at.
    pub(super) fn share_among(&self, column: usize, among: usize) -> Estimate {
        let normal = NORMAL[(among.max(1) - 1).min(NORMAL.len() - 1)];
        self.interval(-self.coefficients[column], self.covariance[column][column], normal)
    }

    /// The sum of some coefficients times `sign`.
    pub(super) fn sum(&self, columns: &[usize], sign: f64) -> Estimate {
        let value: f64 = columns.iter().map(|column| self.coefficients[*column]).sum();
        let across = |a: &usize| columns.iter().map(|b| self.covariance[*a][*b]).sum::<f64>();
        self.interval(sign * value, columns.iter().map(across).sum(), NORMAL[0])
    }

    fn interval(&self, value: f64, variance: f64, normal: f64) -> Estimate {
        Estimate { value, half_width: student(normal, self.freedom) * variance.max(0.0).sqrt() }
    }
}

/// A fit with weights, and what it leaves.
struct Solved {
    inverse: Vec<Vec<f64>>,
    coefficients: Vec<f64>,
    errors: Vec<f64>,
}

impl Solved {
    fn of(y: &[f64], x: &[Vec<f64>], z: &[Vec<f64>], weights: &[f64]) -> Option<Solved> {
        let weighted = |column: &[f64]| column.iter().zip(weights).map(|(z, w)| z * w).collect::<Vec<f64>>();
        let z: Vec<Vec<f64>> = z.iter().map(|column| weighted(column)).collect();
        let inverse = inverse(z.iter().map(|z| x.iter().map(|x| dot(z, x)).collect()).collect())?;
        let moments: Vec<f64> = z.iter().map(|z| dot(z, y)).collect();
        let coefficients: Vec<f64> = inverse.iter().map(|line| dot(line, &moments)).collect();
        let errors = (0..y.len()).map(|row| y[row] - dot(&row_of(x, row), &coefficients)).collect();
        Some(Solved { inverse, coefficients, errors })
    }

    fn with_errors(self, x: &[Vec<f64>], z: &[Vec<f64>], weights: &[f64]) -> Option<Fit> {
        let Solved { inverse, coefficients, errors } = self;
        // A row that pulls the fit towards itself has a smaller error than it should have.
        let square = |row: usize| {
            let (x, z) = (row_of(x, row), row_of(z, row));
            let pull: f64 = inverse.iter().zip(&x).map(|(line, x)| x * dot(line, &z)).sum();
            (weights[row] * errors[row]).powi(2) / (1.0 - weights[row] * pull).max(LEAST_LEFT)
        };
        let squares: Vec<f64> = (0..errors.len()).map(square).collect();
        let weighted =
            |a: &[f64], b: &[f64]| a.iter().zip(b).zip(&squares).map(|((a, b), e)| a * b * e).sum();
        let middle: Vec<Vec<f64>> =
            z.iter().map(|a| z.iter().map(|b| weighted(a, b)).collect::<Vec<f64>>()).collect();
        // inverse × middle × inverse transposed. A row whose weight falls with its error follows the coefficients less than
        // by its weight, so that the inverse is too small.
        let slope = |weight: &f64| weight.sqrt() * (5.0 * weight.sqrt() - 4.0);
        let follows = weights.iter().sum::<f64>() / weights.iter().map(slope).sum::<f64>();
        let half: Vec<Vec<f64>> =
            inverse.iter().map(|line| middle.iter().map(|column| dot(line, column)).collect()).collect();
        let of = |a: &Vec<f64>, b: &Vec<f64>| dot(a, b) * follows.powi(2);
        let covariance =
            half.iter().map(|line| inverse.iter().map(|other| of(line, other)).collect()).collect();
        let left = errors.len() as f64 - coefficients.len() as f64;
        let noise = (dot(&errors, &errors) / left).sqrt();
        let all_finite = coefficients.iter().all(|value| value.is_finite()) && noise.is_finite();
        all_finite.then_some(Fit { coefficients, covariance, freedom: left, noise })
    }
}

/// How a row is weighted whose error is large.
#[derive(Clone, Copy)]
enum Spoilt {
    /// As if its error were not larger than what is far off: finds the fit from anywhere.
    CountsLess,
    /// The less, the larger its error, and not at all in the end: needs a fit to begin with.
    DoesNotCount,
}

impl Spoilt {
    fn weights(self, errors: &[f64], left: f64) -> Vec<f64> {
        let mut amounts: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        amounts.sort_by(f64::total_cmp);
        let typical = amounts[amounts.len() / 2] / MEDIAN_OF_NORMAL * (errors.len() as f64 / left).sqrt();
        let weight = |error: &f64| match self {
            Spoilt::CountsLess => (FAR_OFF * typical / error.abs()).min(1.0),
            Spoilt::DoesNotCount => (1.0 - (error / (SPOILT * typical)).powi(2)).max(0.0).powi(2),
        };
        match typical > 0.0 {
            true => errors.iter().map(weight).collect(),
            // Most rows are met exactly.
            false => vec![1.0; errors.len()],
        }
    }
}

fn row_of(columns: &[Vec<f64>], row: usize) -> Vec<f64> {
    columns.iter().map(|it| it[row]).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Gauss and Jordan, with the largest pivot of each column; none where there is no inverse.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let scale: Vec<f64> =
        (0..size).map(|column| matrix.iter().map(|line| line[column].abs()).fold(0.0, f64::max)).collect();
    for (row, line) in matrix.iter_mut().enumerate() {
        line.extend((0..size).map(|column| f64::from(u8::from(row == column))));
    }
    for column in 0..size {
        let largest =
            (column..size).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()));
        matrix.swap(column, largest?);
        let pivot = matrix[column][column];
        if !pivot.is_finite() || pivot.abs() <= SINGULAR * scale[column] {
            return None;
        }
        let line: Vec<f64> = matrix[column].iter().map(|value| value / pivot).collect();
        for (row, other) in matrix.iter_mut().enumerate() {
            let factor = other[column];
            if row != column {
                other.iter_mut().zip(&line).for_each(|(value, of_line)| *value -= factor * of_line);
            }
        }
        matrix[column] = line;
    }
    Some(matrix.into_iter().map(|line| line[size..].to_vec()).collect())
}

/// Student's quantile from that of the normal distribution (Gaver and Kafadar, "A Retrievable Recipe for
/// Inverse t", The American Statistician 1984): within 1 % from two degrees of freedom on.
pub fn student(normal: f64, freedom: f64) -> f64 {
    let part = (freedom - 5.0 / 6.0) / (freedom - 2.0 / 3.0 + 0.1 / freedom).powi(2);
    (freedom * (normal.powi(2) * part).exp_m1()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_by_the_tables() {
        let two_sided = [(1.960, 2.0, 4.303), (1.960, 3.0, 3.182), (1.960, 30.0, 2.042)];
        let one_sided = [(2.326, 10.0, 2.764), (3.090, 10.0, 4.144), (2.326, 5.0, 3.365)];
        for (normal, freedom, table) in two_sided.into_iter().chain(one_sided) {
            assert!((student(normal, freedom) / table - 1.0).abs() < 0.01, "{normal} {freedom}");
        }
    }

    #[test]
    fn columns_that_are_the_same_have_no_fit() {
        let x = vec![vec![1.0, -1.0, 1.0, -1.0, 1.0, 1.0]; 2];
        assert!(Fit::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &x, &x).is_none());
        assert!(Fit::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &x[..1], &x[..1]).is_some());
        assert!(inverse(vec![vec![f64::NAN]]).is_none() && inverse(vec![vec![0.0]]).is_none());
        assert_eq!(
            inverse(vec![vec![0.0, 2.0], vec![4.0, 0.0]]),
            Some(vec![vec![0.0, 0.25], vec![0.5, 0.0]])
        );
    }
}
