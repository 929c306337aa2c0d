//! The numeric jobs: sieve, linear systems, matrix products, Newton's method, the mathematical
//! library.

use core::hint::black_box;

use crate::draw::Lcg;

/// Flags of the sieve.
const SIEVE_FLAGS: usize = 1_000_000;
/// Flags left set: the 78,498 primes below one million, and 0 and 1, which the sieve does not
/// clear.
const SIEVE_LEFT: usize = 78_500;
/// Largest order of the linear systems; the orders are 5, 10, ... up to it.
const LARGEST_ORDER: usize = 100;

/// `passes` sieves of Eratosthenes over one million one-byte flags.
pub(crate) fn sieve(passes: u64) -> bool {
    let mut flags = vec![1_u8; SIEVE_FLAGS];
    (0..passes).all(|_| {
        flags.fill(1);
        let mut number = 2;
        while number * number < SIEVE_FLAGS {
            if flags[number] == 1 {
                let mut multiple = number * number;
                while multiple < SIEVE_FLAGS {
                    flags[multiple] = 0;
                    multiple += number;
                }
            }
            number += 1;
        }
        black_box(&flags).iter().map(|&flag| usize::from(flag)).sum::<usize>() == SIEVE_LEFT
    })
}

/// Solves the `order` equations of `matrix` (rows of `order + 1` numbers, the last the right-hand
/// side) in place by Gauss-Jordan elimination with row pivoting; the solution replaces the last
/// column.
fn gauss_jordan(matrix: &mut [Vec<f64>]) {
    let order = matrix.len();
    for column in 0..order {
        let pivot = (column..order)
            .max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))
            .unwrap_or(column);
        matrix.swap(column, pivot);
        let divisor = matrix[column][column];
        for value in &mut matrix[column][column..] {
            *value /= divisor;
        }
        let pivot_row = matrix[column].clone();
        for (row, values) in matrix.iter_mut().enumerate() {
            let factor = values[column];
            if row != column && factor != 0.0 {
                for (value, pivot_value) in values.iter_mut().zip(&pivot_row).skip(column) {
                    *value -= factor * pivot_value;
                }
            }
        }
    }
}

/// `count` times the twenty systems of order 5, 10, ..., 100, each solved and its residual checked.
pub(crate) fn linear_systems(count: u64) -> bool {
    let mut random = Lcg::new(1);
    (0..count).all(|_| {
        (5..=LARGEST_ORDER).step_by(5).all(|order| {
            // A dominant diagonal keeps the system solvable whatever the other coefficients are.
            let system: Vec<Vec<f64>> = (0..order)
                .map(|row| {
                    let mut values: Vec<f64> =
                        (0..=order).map(|_| f64::from(random.draw()) / 32_768.0).collect();
                    values[row] += order as f64;
                    values
                })
                .collect();
            let mut solved = black_box(system.clone());
            gauss_jordan(&mut solved);
            system.iter().all(|row| {
                let left: f64 = row[..order].iter().zip(&solved).map(|(a, x)| a * x[order]).sum();
                (left - row[order]).abs() < 1e-8
            })
        })
    })
}

/// `count` products of a 4-vector and a rotation matrix of order four.
pub(crate) fn matrix_products(count: u64) -> bool {
    let (sine, cosine) = (0.6_f64, 0.8_f64);
    let matrix = black_box([
        [cosine, -sine, 0.0, 0.0],
        [sine, cosine, 0.0, 0.0],
        [0.0, 0.0, cosine, -sine],
        [0.0, 0.0, sine, cosine],
    ]);
    let mut vector = black_box([1.0_f64, 0.0, 0.0, 1.0]);
    for _ in 0..count {
        let mut product = [0.0; 4];
        for (result, row) in product.iter_mut().zip(&matrix) {
            *result = row.iter().zip(&vector).map(|(a, b)| a * b).sum();
        }
        vector = product;
    }
    let length: f64 = black_box(vector).iter().map(|value| value * value).sum();
    (length - 2.0).abs() < 1e-6
}

/// `count` solutions of 1000 sin x cos x = 0 by Newton's method from 0.05 n, at most 100 steps
/// each.
pub(crate) fn newton(count: u64) -> bool {
    (1..=count).all(|n| {
        // Every start of the job's 200 lies in 0.05..=10.
        let mut x = black_box(0.05 * ((n - 1) % 200 + 1) as f64);
        for _ in 0..100 {
            let value = 1000.0 * x.sin() * x.cos();
            let slope = 1000.0 * (x.cos() * x.cos() - x.sin() * x.sin());
            let step = value / slope;
            x -= step;
            if step.abs() < 1e-12 {
                break;
            }
        }
        (x.sin() * x.cos()).abs() < 1e-9
    })
}

/// `count` rounds of twelve calls of the mathematical library and the random number generator.
pub(crate) fn library_numbers(count: u64) -> bool {
    let mut random = Lcg::new(2);
    (0..count).all(|n| {
        let x = black_box(1.5 + (n % 100) as f64);
        let (whole, part) = (x.trunc(), x.fract());
        let exponent = x.log2().floor();
        let fraction = x / exponent.exp2();
        let scaled = fraction * exponent.exp2();
        let sum = x.floor()
            + x.min(20.0).exp()
            + x.ceil()
            + x.log10()
            + x.ln()
            + x % 2.5
            + x.sqrt()
            + x.powf(1.25)
            + f64::from(random.draw());
        black_box(sum).is_finite() && (whole + part - scaled).abs() < 1e-9
    })
}

/// `count` rounds of acos, cos, asin, sin, tanh, atan, tan, atan2, sinh, cosh.
pub(crate) fn trigonometry(count: u64) -> bool {
    (0..count).all(|n| {
        let x = black_box(((n % 199) as f64 - 99.0) / 100.0);
        let y = x.cos().acos() + x.sin().asin();
        let z = x.tanh() + x.atan().tan();
        let w = x.atan2(1.0) + x.sinh() + x.cosh();
        (y - (x.abs() + x)).abs() < 1e-6 && black_box(z + w).is_finite()
    })
}

/// `count` Taylor sums of the sine until a term no longer changes the sum.
pub(crate) fn sine_series(count: u64) -> bool {
    (0..count).all(|n| {
        let x = black_box((n % 100) as f64 / 100.0);
        let (mut sum, mut term, mut k) = (x, x, 1.0);
        loop {
            term *= -x * x / ((k + 1.0) * (k + 2.0));
            k += 2.0;
            let next = sum + term;
            if next.to_bits() == sum.to_bits() {
                break;
            }
            sum = next;
        }
        (sum - x.sin()).abs() < 1e-12
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_jobs_check_their_results() {
        assert!(sieve(1));
        assert!(linear_systems(1));
        assert!(matrix_products(100));
        assert!(newton(200));
        assert!(library_numbers(100));
        assert!(trigonometry(1000));
        assert!(sine_series(100));
    }

    #[test]
    fn gauss_jordan_solves_a_system_that_needs_a_pivot() {
        let mut system = vec![vec![0.0, 2.0, 4.0], vec![1.0, 1.0, 3.0]];
        gauss_jordan(&mut system);
        assert!((system[0][2] - 1.0).abs() < 1e-12);
        assert!((system[1][2] - 2.0).abs() < 1e-12);
    }
}
