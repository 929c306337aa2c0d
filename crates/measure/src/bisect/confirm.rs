//! The last question to the machine: the first bad commit against its parent, in pairs, the order
//! within each pair drawn from the seed. It is a separate comparison, independent of the model of
//! the search; its runs are evidence for the search, too.

use convoy_stats::{GOLDEN, Sample, mix, paired_difference};

/// A confirmation that fails is given up after this many times the pairs that were asked for.
const MOST: u32 = 4;

/// A confirmation under way, or made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Confirmation {
    pub(super) culprit: usize,
    pub(super) parent: usize,
    /// Values of the parent and of the culprit.
    pub(super) values: [Vec<f64>; 2],
    over: bool,
}

impl Confirmation {
    pub(super) fn new(culprit: usize, parent: usize) -> Self {
        Self { culprit, parent, values: [Vec::new(), Vec::new()], over: false }
    }

    /// Returns the next commit; `None` after all pairs.
    pub(super) fn next(&self, pairs: u32, seed: u64) -> Option<usize> {
        let [parent, culprit] = self.values.each_ref().map(Vec::len);
        if self.over || parent.min(culprit) >= pairs as usize {
            return None;
        }
        let first = if parent == culprit {
            coin(seed, parent as u64)
        } else {
            // The other one of the pair.
            culprit < parent
        };
        Some(if first { self.culprit } else { self.parent })
    }

    /// How many pairs are wanted: `pairs`, and up to [`MOST`] times as many as long as those that
    /// were made do not show a difference on the side of `effect`.
    pub(super) fn wanted(&self, pairs: u32, effect: f64) -> u32 {
        let made = self.pairs()[0].len() as u32;
        if made < pairs || self.shown(effect) { pairs } else { (made + 1).min(MOST * pairs) }
    }

    /// Whether the interval of the difference lies on the side of `effect`.
    fn shown(&self, effect: f64) -> bool {
        let [Ok(parent), Ok(culprit)] = self.pairs().map(Sample::new) else { return false };
        paired_difference(&parent, &culprit).is_ok_and(|difference| {
            if effect > 0.0 { difference.lo > 0.0 } else { difference.hi < 0.0 }
        })
    }

    /// A run of the confirmation.
    pub(super) fn take(&mut self, node: usize, value: f64) {
        let side = usize::from(node == self.culprit);
        self.values[side].push(value);
    }

    /// One of the two cannot be measured any more.
    pub(super) fn skipped(&mut self, node: usize) {
        self.over |= node == self.culprit || node == self.parent;
    }

    /// Complete pairs: parent, culprit.
    pub(super) fn pairs(&self) -> [Vec<f64>; 2] {
        let n = self.values[0].len().min(self.values[1].len());
        self.values.each_ref().map(|values| values[..n].to_vec())
    }
}

/// A well mixed number of `seed` and `index`.
pub(super) fn mixed(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
}

fn coin(seed: u64, index: u64) -> bool {
    mixed(seed, index) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_confirmation_buys_pairs_and_gives_up() {
        let mut confirmation = Confirmation::new(7, 5);
        while let Some(node) = confirmation.next(confirmation.wanted(6, 1.0), 3) {
            let pair = confirmation.values[usize::from(node == 7)].len();
            confirmation.take(node, f64::from(u8::from((node == 7) == pair.is_multiple_of(2))));
        }
        assert_eq!(confirmation.pairs()[0].len(), 24, "no difference was shown");
        let mut confirmation = Confirmation::new(7, 5);
        while let Some(node) = confirmation.next(confirmation.wanted(6, 1.0), 3) {
            let pair = confirmation.values[usize::from(node == 7)].len();
            confirmation
                .take(node, node as f64 + 0.1 * pair as f64 * f64::from(u8::from(node == 7)));
        }
        assert_eq!(confirmation.pairs()[0].len(), 6, "the difference was shown");
    }

    #[test]
    fn both_sides_alternate_in_random_order_and_resume_where_they_were() {
        let mut confirmation = Confirmation::new(7, 5);
        let mut order = Vec::new();
        while let Some(node) = confirmation.next(40, 3) {
            confirmation.take(node, node as f64);
            order.push(node);
        }
        assert_eq!(order.len(), 80);
        assert!(order.chunks(2).all(|pair| pair[0] != pair[1]));
        let first = order.chunks(2).filter(|pair| pair[0] == 7).count();
        assert!((10..=30).contains(&first), "{first} of 40");
        assert_eq!(confirmation.pairs(), [vec![5.0; 40], vec![7.0; 40]]);
        let mut confirmation = Confirmation::new(7, 5);
        confirmation.skipped(5);
        assert_eq!(confirmation.next(40, 3), None);
    }
}
