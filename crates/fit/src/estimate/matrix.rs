//! Small symmetric positive definite systems of linear equations.

/// A square matrix in rows.
pub(super) type Matrix = Vec<Vec<f64>>;

/// Returns `rows` transposed times `rows`.
pub(super) fn gram(rows: &[Vec<f64>], columns: usize) -> Matrix {
    let product = |i: usize, j: usize| rows.iter().map(|row| row[i] * row[j]).sum();
    (0..columns).map(|i| (0..columns).map(|j| product(i, j)).collect()).collect()
}

/// Returns `rows` transposed times `right`.
pub(super) fn transposed_times(rows: &[Vec<f64>], right: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).map(|i| rows.iter().zip(right).map(|(row, r)| row[i] * r).sum()).collect()
}

/// Returns the scalar product of two vectors.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns `matrix` times `vector`.
pub(super) fn times(matrix: &Matrix, vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, vector)).collect()
}

/// Returns the lower Cholesky factor of a symmetric matrix. A pivot that rounding has made zero or negative becomes tiny.
fn cholesky(matrix: &Matrix) -> Matrix {
    let n = matrix.len();
    let mut lower = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let known = dot(&lower[i][..j], &lower[j][..j]);
            let rest = matrix[i][j] - known;
            lower[i][j] =
                if i == j { rest.max(1e-14 * matrix[i][i].max(1e-300)).sqrt() } else { rest / lower[j][j] };
        }
    }
    lower
}

/// Solves `matrix` x = `right`.
pub(super) fn solve(matrix: &Matrix, right: &[f64]) -> Vec<f64> {
    let lower = cholesky(matrix);
    let n = right.len();
    let mut x = right.to_vec();
    for i in 0..n {
        x[i] = (x[i] - dot(&lower[i][..i], &x[..i])) / lower[i][i];
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| lower[k][i] * x[k]).sum();
        x[i] = (x[i] - known) / lower[i][i];
    }
    x
}

/// Returns the inverse.
pub(super) fn inverse(matrix: &Matrix) -> Matrix {
    let n = matrix.len();
    let unit = |k: usize| (0..n).map(|i| f64::from(u8::from(i == k))).collect::<Vec<_>>();
    // The columns of a symmetric matrix are its rows.
    (0..n).map(|k| solve(matrix, &unit(k))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_times_the_matrix_is_one() {
        let matrix = vec![vec![4.0, 1.0, 0.5], vec![1.0, 3.0, -0.25], vec![0.5, -0.25, 2.0]];
        let inverse = inverse(&matrix);
        for (i, row) in matrix.iter().enumerate() {
            for (k, column) in inverse.iter().enumerate() {
                let expected = f64::from(u8::from(i == k));
                assert!((dot(row, column) - expected).abs() < 1e-12);
            }
        }
    }
}
