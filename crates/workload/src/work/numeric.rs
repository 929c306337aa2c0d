//! The numeric jobs: sieve, linear systems, matrix products, Newton's method, the mathematical
//! library.

use core::hint::black_box;

/// Flags of the sieve.
const SIEVE_FLAGS: usize = 1_000_000;
/// Flags left set: the 78,498 primes below one million, and 0 and 1, which the sieve does not
/// clear.
const SIEVE_LEFT: usize = 78_500;
/// Largest order of the linear systems; the orders are 5, 10, ... up to it.
const LARGEST_ORDER: usize = 100;

/// `passes` sieves of Eratosthenes over one million one-byte flags. As in the original every prime
/// below one million clears its multiples, from its double on.
pub(crate) fn sieve(passes: u64) -> bool {
    let mut flags = vec![1_u8; SIEVE_FLAGS];
    for _ in 0..passes {
        flags.fill(1);
        for number in 2..SIEVE_FLAGS {
            if flags[number] != 1 {
                continue;
            }
            let mut multiple = 2 * number;
            while multiple < SIEVE_FLAGS {
                flags[multiple] = 0;
                multiple += number;
            }
        }
        black_box(&mut flags);
    }
    passes == 0 || flags.iter().map(|&flag| usize::from(flag)).sum::<usize>() == SIEVE_LEFT
}

/// Takes `factor` times `source` away from `row`.
fn eliminate(row: &mut [f64], source: &[f64], factor: f64) {
    for (value, other) in row.iter_mut().zip(source) {
        *value -= factor * other;
    }
}

/// Solves the `order` equations in `system` (rows of `order + 1` numbers, the last the right-hand
/// side) in place, as the original does: no pivoting, whole rows, an upper triangle first and then
/// the identity. The solution replaces the last column. False if it meets a zero on the diagonal.
fn gauss_jordan(system: &mut [f64], order: usize) -> bool {
    let wide = order + 1;
    for column in 0..order {
        let (above, below) = system.split_at_mut((column + 1) * wide);
        let source = &mut above[column * wide..];
        let divisor = source[column];
        if divisor == 0.0 {
            return false;
        }
        for value in &mut source[column..] {
            *value /= divisor;
        }
        for row in below.chunks_exact_mut(wide) {
            let factor = row[column];
            eliminate(row, source, factor);
        }
    }
    for column in (1..order).rev() {
        let (above, source) = system.split_at_mut(column * wide);
        for row in above.chunks_exact_mut(wide).rev() {
            let factor = row[column];
            eliminate(row, &source[..wide], factor);
        }
    }
    true
}

/// `count` times the twenty systems of order 5, 10, ..., 100, each solved and its residual checked.
pub(crate) fn linear_systems(count: u64) -> bool {
    let mut system = vec![0.0; LARGEST_ORDER * (LARGEST_ORDER + 1)];
    let mut original = system.clone();
    (0..count).all(|_| {
        let mut value = 1.0_f64;
        (5..=LARGEST_ORDER).step_by(5).all(|order| {
            let wide = order + 1;
            for number in &mut system[..order * wide] {
                *number = value;
                value = black_box(value) * 1.000_01 + 1.0;
            }
            original.copy_from_slice(&system);
            let solved = gauss_jordan(black_box(&mut system[..order * wide]), order);
            let rows = original[..order * wide].chunks_exact(wide);
            solved
                && rows.into_iter().all(|row| {
                    let solution = system.iter().skip(order).step_by(wide);
                    let left: f64 = row[..order].iter().zip(solution).map(|(a, x)| a * x).sum();
                    (left - row[order]).abs() < 0.5
                })
        })
    })
}

/// The numbers that the matrix job takes in turn: 0, 1, the smallest number there is, then half of
/// the difference of the two before.
const VALUES: [f64; 500] = {
    let mut values = [0.0; 500];
    values[1] = 1.0;
    values[2] = f64::from_bits(1);
    let mut index = 3;
    while index < values.len() {
        values[index] = (values[index - 2] - values[index - 1]).abs() / 2.0;
        index += 1;
    }
    values
};

/// `count` products of a 4-vector and a 4x4 matrix, both fetched anew, scaled to a screen.
pub(crate) fn matrix_products(count: u64) -> bool {
    let mut taken = 0_usize;
    let mut next = || {
        taken += 1;
        black_box(&VALUES)[(taken - 1) % VALUES.len()]
    };
    let mut sum = 0.0;
    for _ in 0..count {
        let vector: [f64; 4] = core::array::from_fn(|_| next());
        let matrix: [[f64; 4]; 4] = core::array::from_fn(|_| core::array::from_fn(|_| next()));
        let product: [f64; 4] =
            core::array::from_fn(|row| matrix[row].iter().zip(&vector).map(|(a, b)| a * b).sum());
        let [x, y, z, _] = black_box(product);
        let screen = (x * 1280.0) as i32 + (y * 1024.0) as i32 + (z * 8192.0) as i32;
        sum += x * y * z;
        black_box(f64::from(screen) + sum);
    }
    sum.is_finite()
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

/// The generator behind C's `rand`, the additive one with 31 words: seeding it costs more than all
/// else that a round of `num_rtns_1` does.
struct Additive {
    words: [u32; 31],
    at: usize,
}

impl Additive {
    /// Distance of the two words that are added.
    const LAG: usize = 3;

    /// What `srand(seed)` does: words by a multiplicative generator, then 310 numbers thrown away.
    fn seeded(seed: u32) -> Self {
        let mut word = i64::from(seed.max(1));
        let mut words = [0; 31];
        for slot in &mut words {
            *slot = word as u32;
            word = word * 16_807 % 2_147_483_647;
        }
        let mut generator = Self { words, at: Self::LAG };
        for _ in 0..310 {
            black_box(generator.draw());
        }
        generator
    }

    fn draw(&mut self) -> u32 {
        let behind = (self.at + self.words.len() - Self::LAG) % self.words.len();
        self.words[self.at] = self.words[self.at].wrapping_add(self.words[behind]);
        let drawn = self.words[self.at] >> 1;
        self.at = if self.at + 1 == self.words.len() { 0 } else { self.at + 1 };
        drawn
    }
}

/// `count` rounds of twelve calls of the mathematical library, and a random number of a generator
/// that is seeded for it.
pub(crate) fn library_numbers(count: u64) -> bool {
    (0..count).all(|n| {
        let x = black_box(1.5 + (n % 100) as f64);
        let (whole, part) = (x.trunc(), x.fract());
        let exponent = x.log2().floor();
        let fraction = x / exponent.exp2();
        let scaled = fraction * exponent.exp2();
        let random = Additive::seeded(exponent as u32).draw();
        let sum = x.floor()
            + x.min(20.0).exp()
            + x.ceil()
            + x.log10()
            + x.ln()
            + x % 2.5
            + x.sqrt()
            + x.powf(1.25)
            + f64::from(random);
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

    /// The first three numbers of glibc's `rand` after `srand(1)`.
    #[test]
    fn the_generator_is_that_of_c() {
        let mut generator = Additive::seeded(1);
        assert_eq!([(); 3].map(|()| generator.draw()), [1_804_289_383, 846_930_886, 1_681_692_777]);
    }

    #[test]
    fn gauss_jordan_solves_a_system_and_knows_a_singular_one() {
        let mut system = [2.0, 1.0, 5.0, 1.0, 3.0, 10.0];
        assert!(gauss_jordan(&mut system, 2));
        assert!((system[2] - 1.0).abs() < 1e-12 && (system[5] - 3.0).abs() < 1e-12);
        assert!(!gauss_jordan(&mut [0.0, 1.0, 1.0, 0.0, 1.0, 1.0], 2));
    }
}
