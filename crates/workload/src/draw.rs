//! Pseudo-random draws: the 15-bit generator of AIM7 and the order in which a user runs the jobs of
//! a mix.
//!
//! The 1996 rule: draw one of the kinds of the mix; if it has runs left, take it; otherwise draw
//! uniformly among the kinds that have. The rule favours neither rare nor frequent kinds by their
//! remaining number, so it is kept unchanged. The generator is seeded by the run's seed and the
//! user's index, never by a process id: an order can be repeated, and the run record holds the
//! seed.

use crate::jobs::Job;

/// The 15-bit linear congruential generator of the C standard's example, which AIM7 uses.
#[derive(Clone, Debug)]
pub struct Lcg {
    state: u32,
}

impl Lcg {
    /// A generator that starts at `seed`.
    pub const fn new(seed: u32) -> Self {
        Self { state: seed }
    }

    /// The generator of one user. Seed 0 is the seeding of 1996: the user's index.
    pub const fn for_user(seed: u64, user: u32) -> Self {
        // 2^32 divided by the golden ratio spreads neighbouring seeds over all bits; zero stays
        // zero.
        let folded = (seed ^ (seed >> 32)) as u32;
        Self::new(folded.wrapping_mul(0x9E37_79B9).wrapping_add(user))
    }

    /// The next draw, 0 to 32,767.
    pub const fn draw(&mut self) -> u16 {
        self.state = self.state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        ((self.state >> 16) & 0x7FFF) as u16
    }

    /// A draw below `limit`, of 30 bits, so that a random offset reaches the whole of a large file.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub const fn draw_below(&mut self, limit: u64) -> u64 {
        let high = self.draw() as u64;
        let low = self.draw() as u64;
        ((high << 15) | low) % limit
    }
}

/// Shuffles `items` by exchanging each with a drawn one.
pub fn shuffle<T>(random: &mut Lcg, items: &mut [T]) {
    for index in 0..items.len() {
        let other = random.draw_below(items.len() as u64) as usize;
        items.swap(index, other);
    }
}

/// The order in which `user` runs `jobs` (kinds with their counts) under `seed`.
pub fn order(jobs: &[(Job, u32)], seed: u64, user: u32) -> Vec<Job> {
    let mut random = Lcg::for_user(seed, user);
    let mut left: Vec<u32> = jobs.iter().map(|(_, count)| *count).collect();
    let total: usize = left.iter().map(|count| *count as usize).sum();
    let mut order = Vec::with_capacity(total);
    while order.len() < total {
        let drawn = usize::from(random.draw()) % jobs.len();
        let taken = if left[drawn] > 0 {
            drawn
        } else {
            let kinds: Vec<usize> = (0..jobs.len()).filter(|&kind| left[kind] > 0).collect();
            kinds[usize::from(random.draw()) % kinds.len()]
        };
        left[taken] -= 1;
        order.push(jobs[taken].0);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_gives_the_published_first_draws() {
        // The example of the C standard with srand(1): 16838, 5758, 10113, 17515, 31051.
        let mut random = Lcg::new(1);
        let draws: Vec<u16> = (0..5).map(|_| random.draw()).collect();
        assert_eq!(draws, [16_838, 5_758, 10_113, 17_515, 31_051]);
    }

    #[test]
    fn random_offsets_reach_beyond_32_mib() {
        let mut random = Lcg::new(7);
        let blocks = 1_u64 << 20;
        let largest = (0..1000).map(|_| random.draw_below(blocks)).max();
        assert!(largest > Some(blocks * 9 / 10), "{largest:?}");
    }

    #[test]
    fn order_holds_every_run_once_and_repeats() {
        let jobs = [(Job::AddInt, 3), (Job::PipeCpy, 1), (Job::ForkTest, 2)];
        let first = order(&jobs, 11, 4);
        for (job, count) in jobs {
            assert_eq!(first.iter().filter(|&&other| other == job).count(), count as usize);
        }
        assert_eq!(first, order(&jobs, 11, 4));
        let others = (0..20).map(|user| order(&jobs, 11, user)).filter(|other| *other != first);
        assert!(others.count() > 10, "users differ in their order");
    }

    #[test]
    fn an_order_of_no_jobs_is_empty() {
        assert!(order(&[], 1, 0).is_empty());
    }
}
