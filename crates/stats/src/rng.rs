//! The generator of everything random here: resampling, permutations, orders of runs.

/// 2^64 divided by the golden ratio: the step of `SplitMix64`.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of `SplitMix64` (G. Steele, D. Lea, C. Flood, OOPSLA 2014): every bit of the
/// result depends on every bit of `word`.
#[inline]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// xoshiro256++ (D. Blackman, S. Vigna, 2019), seeded by `SplitMix64`. Same seed, same numbers, on
/// every machine and in every version: results that depend on it are part of records.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of a seed; any seed is good.
    pub fn new(seed: u64) -> Self {
        let mut word = seed;
        let state = [(); 4].map(|()| {
            word = word.wrapping_add(GOLDEN);
            mix(word)
        });
        Self { state }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number from 0 (included) to 1 (excluded), a multiple of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `end`, each equally likely; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = end as u64;
        // The lowest products would favour some numbers by one in 2^64 / end: drawn again.
        let unfair = end.wrapping_neg().checked_rem(end).unwrap_or(0);
        loop {
            let product = u128::from(self.bits()) * u128::from(end);
            if product as u64 >= unfair {
                return (product >> 64) as usize;
            }
        }
    }

    /// Puts `items` into random order, each order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// A number from the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        // Never 0 or 1: the middle of one of 2^53 equal parts.
        crate::normal::quantile(self.uniform() + 0.5 / (1_u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        // The reference implementation in C, seeded by SplitMix64 of 0.
        let mut rng = Rng::new(0);
        let found: Vec<u64> = (0..3).map(|_| rng.bits()).collect();
        assert_eq!(found, [0x5317_5D61_490B_23DF, 0x61DA_6F3D_C380_D507, 0x5C0F_DF91_EC9A_7BFC]);
    }

    #[test]
    fn bounded_numbers_and_orders_are_even() {
        let mut rng = Rng::new(1);
        let mut counts = [0_u32; 6];
        let mut first = [0_u32; 4];
        for _ in 0..60_000 {
            counts[rng.below(6)] += 1;
            let mut items = [0, 1, 2, 3];
            rng.shuffle(&mut items);
            first[items[0]] += 1;
        }
        // Five standard deviations around 10,000 and 15,000.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 460), "{counts:?}");
        assert!(first.iter().all(|count| count.abs_diff(15_000) < 530), "{first:?}");
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
    }

    #[test]
    fn normal_numbers_have_mean_and_spread() {
        let mut rng = Rng::new(2);
        let values: Vec<f64> = (0..40_000).map(|_| rng.normal()).collect();
        let sample = crate::Sample::new(values).unwrap();
        assert!(sample.mean().abs() < 0.025 && (sample.sd().unwrap() - 1.0).abs() < 0.02);
    }
}
