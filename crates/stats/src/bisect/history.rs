//! The commits between good and bad, and their ancestry.

use super::BisectError;

/// Commits in topological order: every parent has a lower number than its child.
///
/// A commit that is an ancestor of (or is) the bad end and no ancestor of (nor is) the good end is
/// a *candidate*: one of them is the culprit. A commit is bad if the culprit is among its ancestors
/// or is itself.
#[derive(Clone, Debug)]
pub struct History {
    /// `None`: each commit's parent is the previous one.
    parents: Option<Vec<Vec<usize>>>,
    nodes: usize,
    good: usize,
    bad: usize,
    candidates: Vec<usize>,
}

impl History {
    /// A chain of `nodes` commits: 0 is the good end, `nodes - 1` the bad end and a candidate.
    ///
    /// # Errors
    /// [`BisectError::NoCandidates`] if `nodes` is below 2.
    pub fn linear(nodes: usize) -> Result<Self, BisectError> {
        if nodes < 2 {
            return Err(BisectError::NoCandidates);
        }
        let candidates = (1..nodes).collect();
        Ok(Self { parents: None, nodes, good: 0, bad: nodes - 1, candidates })
    }

    /// Any history with merges. `parents[i]` are the parents of commit `i`, each below `i`; parents
    /// outside the list are left out.
    ///
    /// # Errors
    /// [`BisectError::Order`] if a parent is not below its child, [`BisectError::Node`] if an end
    /// does not exist, [`BisectError::NoCandidates`] if all ancestors of `bad` are ancestors of
    /// `good`.
    pub fn dag(parents: &[Vec<usize>], good: usize, bad: usize) -> Result<Self, BisectError> {
        let nodes = parents.len();
        for (node, of_node) in parents.iter().enumerate() {
            if let Some(&parent) = of_node.iter().find(|parent| **parent >= node) {
                return Err(BisectError::Order { node, parent });
            }
        }
        if let Some(node) = [good, bad].into_iter().find(|end| *end >= nodes) {
            return Err(BisectError::Node { node, nodes });
        }
        let parents = Some(parents.to_vec());
        let mut history = Self { parents, nodes, good, bad, candidates: Vec::new() };
        let below_good = history.reach(good);
        let below_bad = history.reach(bad);
        history.candidates =
            (0..nodes).filter(|node| below_bad[*node] && !below_good[*node]).collect();
        if history.candidates.is_empty() { Err(BisectError::NoCandidates) } else { Ok(history) }
    }

    /// Number of commits, ends and commits outside the range included.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The good end.
    pub fn good(&self) -> usize {
        self.good
    }

    /// The bad end.
    pub fn bad(&self) -> usize {
        self.bad
    }

    /// The good end and the bad end.
    pub(super) fn ends(&self) -> [usize; 2] {
        [self.good, self.bad]
    }

    /// The commits that may be the culprit, in order.
    pub fn candidates(&self) -> &[usize] {
        &self.candidates
    }

    /// The good end and the commits from there to the bad one along first parents, in order.
    pub(super) fn line(&self) -> Vec<usize> {
        let mut line = Vec::new();
        let mut at = Some(self.bad);
        while let Some(node) = at.filter(|node| self.candidates.binary_search(node).is_ok()) {
            line.push(node);
            at = match &self.parents {
                None => node.checked_sub(1),
                Some(parents) => parents[node].first().copied(),
            };
        }
        line.push(self.good);
        line.reverse();
        line
    }

    pub(super) fn parents(&self, node: usize) -> Vec<usize> {
        match &self.parents {
            None => node.checked_sub(1).into_iter().collect(),
            Some(parents) => parents[node].clone(),
        }
    }

    /// Which commits contain `node`: itself and its descendants.
    pub(super) fn descendants(&self, node: usize) -> Vec<bool> {
        let mut bad = vec![false; self.nodes];
        match &self.parents {
            None => bad[node..].fill(true),
            Some(parents) => {
                for (at, of) in parents.iter().enumerate() {
                    bad[at] = at == node || of.iter().any(|parent| bad[*parent]);
                }
            }
        }
        bad
    }

    /// Which commits `node` contains: itself and its ancestors.
    pub(super) fn reach(&self, node: usize) -> Vec<bool> {
        let mut reached = vec![false; self.nodes];
        reached[node] = true;
        match &self.parents {
            None => reached[..node].fill(true),
            Some(parents) => {
                for child in (0..=node).rev() {
                    if reached[child] {
                        for &parent in &parents[child] {
                            reached[parent] = true;
                        }
                    }
                }
            }
        }
        reached
    }
}
