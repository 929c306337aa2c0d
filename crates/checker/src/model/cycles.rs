//! Livelocks: cycles of states that a fair scheduler does not leave.
//!
//! An execution that repeats a cycle for ever is fair if every step that can be taken throughout
//! the cycle is taken in it: a task that can run runs, a deadline fires, a delayed store becomes
//! visible. A task that polls while another could end its wait is no livelock. Stale steps are not
//! part of a cycle, because memory makes newer values visible in time (Lahav and others, *Making
//! weak memory models fair*, OOPSLA 2021).
//!
//! States and the steps between them are a graph. It has a fair cycle exactly if one of its
//! strongly connected components takes every step that is possible in all of its states.

use super::schedule::{Choice, Run};
use std::collections::{BTreeMap, VecDeque};

/// Steps by their [`Choice::slot`], a bit each.
pub(super) type Slots = u64;

/// Returns the slots of the steps that are possible.
fn possible(choices: &[Choice]) -> Slots {
    choices.iter().fold(0, |slots, choice| slots | 1 << choice.slot())
}

/// Returns the steps that need no turn for fairness after `taken` of `choices`: the one that is
/// taken, and the ones that cannot be.
pub(super) fn served(choices: &[Choice], taken: Choice) -> Slots {
    !possible(choices) | 1 << taken.slot()
}

/// Steps from one state to another.
struct Edge {
    from: usize,
    to: usize,
    steps: Box<[Choice]>,
    served: Slots,
    /// Whether one of the steps is stale.
    stale: bool,
}

/// The states that a search has seen, and the steps between them.
#[derive(Default)]
pub(super) struct Cycles {
    numbers: BTreeMap<u128, usize>,
    edges: Vec<Edge>,
    /// Number of edges at which the graph is searched next.
    due: usize,
}

/// The state before the first one with a choice.
pub(super) const START: usize = 0;
/// Number of edges at which the graph is searched first. Then their number doubles each time.
const FIRST_DUE: usize = 256;

impl Cycles {
    pub(super) fn new() -> Self {
        Self { due: FIRST_DUE, ..Self::default() }
    }

    /// Adds the `steps` that lead from state number `from` to `state`. Returns the number of the
    /// latter.
    pub(super) fn add(
        &mut self,
        from: usize,
        state: u128,
        steps: &[Choice],
        served: Slots,
    ) -> usize {
        let next = self.numbers.len() + 1;
        let to = *self.numbers.entry(state).or_insert(next);
        let stale = steps.iter().any(|step| step.is_stale());
        self.edges.push(Edge { from, to, steps: steps.into(), served, stale });
        to
    }

    /// Returns the runs of an order that ends with a fair cycle, if it is time to look for one or
    /// the search has ended.
    pub(super) fn find(&mut self, ended: bool) -> Option<Vec<Run>> {
        if !ended && self.edges.len() < self.due {
            return None;
        }
        self.due = 2 * self.edges.len();
        let graph = Graph::new(self.numbers.len() + 1, &self.edges, |edge| !edge.stale);
        let component = graph.components();
        let mut served: BTreeMap<usize, Slots> = BTreeMap::new();
        for edge in self.edges.iter().filter(|edge| !edge.stale) {
            if component[edge.from] == component[edge.to] {
                *served.entry(component[edge.to]).or_default() |= edge.served;
            }
        }
        let (&fair, _) = served.iter().find(|&(_, &slots)| slots == Slots::MAX)?;
        Some(runs(&self.around(&component, fair)))
    }

    /// Returns steps into the component number `fair`, and then through a fair cycle of it.
    fn around(&self, component: &[usize], fair: usize) -> Vec<Choice> {
        let inside =
            |edge: &Edge| !edge.stale && component[edge.from] == fair && component[edge.to] == fair;
        let whole = Graph::new(component.len(), &self.edges, |_| true);
        let cyclic = Graph::new(component.len(), &self.edges, inside);
        let path = whole.path(START, |state| component[state] == fair).expect("it was reached");
        let first = path.last().map_or(START, |&edge| self.edges[edge].to);
        let (mut state, mut slots, mut route) = (first, 0, path);
        while slots != Slots::MAX {
            let edges = &self.edges;
            // An edge that serves more, and the path to it.
            let next = |at: usize| {
                let mut from = cyclic.from[at].iter().copied();
                from.find(|&edge| edges[edge].served & !slots != 0)
            };
            let path = cyclic.path(state, |at| next(at).is_some());
            let path = path.expect("a component is connected");
            let last = next(path.last().map_or(state, |&edge| edges[edge].to));
            for edge in path.into_iter().chain(last) {
                slots |= edges[edge].served;
                state = edges[edge].to;
                route.push(edge);
            }
        }
        let back = cyclic.path(state, |other| other == first);
        route.extend(back.expect("a component is connected"));
        route.iter().flat_map(|&edge| &self.edges[edge].steps).copied().collect()
    }
}

/// Returns steps as runs, each of which ends after its number of steps.
fn runs(steps: &[Choice]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &step in steps {
        match runs.last_mut() {
            Some(Run { start, steps: Some(count) })
                if !start.is_flush() && step == Choice::run(start.task()) =>
            {
                *count += 1;
            }
            _ => runs.push(Run { start: step, steps: Some(1) }),
        }
    }
    runs
}

/// Edges by the state in which they begin.
struct Graph<'a> {
    edges: &'a [Edge],
    from: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn new(states: usize, edges: &'a [Edge], holds: impl Fn(&Edge) -> bool) -> Self {
        let mut from = vec![Vec::new(); states];
        for (number, edge) in edges.iter().enumerate().filter(|(_, edge)| holds(edge)) {
            from[edge.from].push(number);
        }
        Self { edges, from }
    }

    /// Returns the edges of a shortest path from `start` to a state that is wanted.
    fn path(&self, start: usize, wanted: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let mut into = vec![None; self.from.len()];
        let mut left = VecDeque::from([start]);
        while let Some(state) = left.pop_front() {
            if wanted(state) {
                let mut path: Vec<usize> = Vec::new();
                let mut at = state;
                while at != start {
                    let edge: usize = into[at].expect("reached by an edge");
                    path.push(edge);
                    at = self.edges[edge].from;
                }
                path.reverse();
                return Some(path);
            }
            for &edge in &self.from[state] {
                let to = self.edges[edge].to;
                if to != start && into[to].is_none() {
                    into[to] = Some(edge);
                    left.push_back(to);
                }
            }
        }
        None
    }

    /// Returns the number of the strongly connected component of each state (Gabow, 2000).
    fn components(&self) -> Vec<usize> {
        const NONE: usize = usize::MAX;
        let states = self.from.len();
        let (mut order, mut component) = (vec![NONE; states], vec![NONE; states]);
        let (mut count, mut unassigned, mut roots) = (0, Vec::new(), Vec::new());
        for start in 0..states {
            // A state, and the number of its edges that were followed.
            let mut path = if order[start] == NONE { vec![(start, 0)] } else { Vec::new() };
            while let Some(&mut (state, ref mut followed)) = path.last_mut() {
                if *followed == 0 {
                    order[state] = count;
                    count += 1;
                    unassigned.push(state);
                    roots.push(state);
                }
                let next = self.from[state].get(*followed).map(|&edge| self.edges[edge].to);
                *followed += 1;
                match next {
                    Some(to) if order[to] == NONE => path.push((to, 0)),
                    Some(to) if component[to] == NONE => {
                        while roots.last().is_some_and(|&root| order[root] > order[to]) {
                            roots.pop();
                        }
                    }
                    Some(_) => {}
                    None => {
                        if roots.last() == Some(&state) {
                            roots.pop();
                            while let Some(member) = unassigned.pop() {
                                component[member] = state;
                                if member == state {
                                    break;
                                }
                            }
                        }
                        path.pop();
                    }
                }
            }
        }
        component
    }
}
