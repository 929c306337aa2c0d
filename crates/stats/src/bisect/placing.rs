//! Where the grid of the first model lies, and when it is moved.

use super::evidence::{Evidence, IMPROBABLE, posterior};
use super::grid::{Amount, Build, Centre, Grid};
use super::modes::{self, Fit};
use super::noise::{MODES, ONE_MODE};
use super::policy;
use super::search::{END_RUNS, Search};

/// The grid is checked when the data have grown by this factor.
const REGRID: f64 = 1.1;
/// A grid is replaced when the data have grown by this factor since it was placed.
const WORN: f64 = 1.5;

impl Search {
    /// Places the grid if the data have grown. Only observations do this, so that asking for the
    /// posterior at other times changes no digit of what follows.
    pub(super) fn place_grid(&mut self) {
        let ends = self.history.ends();
        if ends.into_iter().any(|end| self.runs_of(end) < END_RUNS) {
            return;
        }
        if self.grid.is_some() && (self.runs as usize) < self.regrid_at {
            return;
        }
        self.regrid_at = (f64::from(self.runs) * REGRID) as usize + 1;
        let mut amount = self.amount();
        let mut centres = self.first_centres();
        let fits = self.fits();
        if let Some(grid) = &self.grid {
            grid.fill(&mut self.builds);
            let evidence =
                posterior(&self.config, grid, &self.builds, &self.classes, self.likely, true);
            let moved = self.moved(grid, &evidence);
            centres = moved.unwrap_or(grid.centres);
            self.evidence = Some(evidence);
            if moved.is_none()
                && grid.fits_well(&fits)
                && f64::from(self.runs) < WORN * f64::from(self.placed_at)
            {
                self.prune();
                return;
            }
            amount = self.amount();
        }
        for _ in 0..12 {
            let grid = Grid::new(centres, fits, &amount);
            for build in &mut self.builds {
                build.table.clear();
            }
            grid.fill(&mut self.builds);
            let evidence =
                posterior(&self.config, &grid, &self.builds, &self.classes, self.likely, true);
            let moved = self.moved(&grid, &evidence);
            self.evidence = Some(evidence);
            self.grid = Some(grid);
            match moved {
                Some(moved) => centres = moved,
                None => break,
            }
            amount = self.amount();
        }
        self.placed_at = self.runs;
        self.prune();
    }

    /// Leaves out improbable hypers until the grid is placed again, and notes the likely culprit.
    fn prune(&mut self) {
        let (Some(grid), Some(evidence)) = (&mut self.grid, self.evidence.take()) else {
            return;
        };
        let best =
            evidence.classes.iter().zip(&self.classes).max_by(|a, b| a.0.p.total_cmp(&b.0.p));
        self.likely = best.map_or(0, |(_, class)| class.members[class.members.len() / 2]);
        let keep: Vec<bool> = evidence.hypers.iter().map(|p| *p >= IMPROBABLE).collect();
        grid.keep(&keep, &mut self.builds);
    }

    /// Where the grid should be centred, if that is far from where it is.
    fn moved(&self, grid: &Grid, evidence: &Evidence) -> Option<[Centre; ONE_MODE]> {
        let floor = self.rounding().ln();
        let moved = evidence.centres.map(|[good, bad, ln_scale]| Centre {
            levels: [good, bad],
            ln_scale: ln_scale.max(floor),
        });
        let far = moved.iter().zip(&grid.centres).any(|(to, from)| {
            let scale = from.ln_scale.exp();
            let step = |side: usize| (to.levels[side] - from.levels[side]).abs() / scale;
            (to.ln_scale - from.ln_scale).abs() > 0.6 * grid.scale_step
                || (0..2).any(|side| step(side) > grid.level_steps[side])
        });
        far.then_some(moved)
    }

    /// Returns fits of two modes about one level, about the levels of the likely sides, and about
    /// the levels of the sides that follow from the modes themselves.
    fn fits(&self) -> [Option<Fit>; MODES] {
        let floor = self.rounding();
        let of = |side: &dyn Fn(&Build) -> usize| {
            let mut sides = [Vec::new(), Vec::new()];
            for build in &self.builds {
                sides[side(build)].extend_from_slice(&build.values);
            }
            modes::fit(&sides, floor)
        };
        let one = of(&|_| 0);
        // Ends that have shown one mode each may have shown different ones.
        let apart = [1.0, -1.0].map(|sign| one.map(|fit| fit.bad_moved(sign * fit.apart)));
        let starts = apart.into_iter().chain([modes::fit(&self.end_values(), floor)]).flatten();
        let by_modes = starts.filter_map(|start| of(&|build| start.nearer(&build.values)));
        let by_modes = by_modes.min_by(|a, b| a.scale.total_cmp(&b.scale));
        [one, of(&|build| usize::from(self.bad_share(build.slot) >= 0.5)), by_modes]
    }

    /// The values of both ends, sorted.
    pub(super) fn end_values(&self) -> [Vec<f64>; 2] {
        self.history.ends().map(|end| {
            let of_end = self.builds.iter().filter(|build| build.node == end);
            let mut all: Vec<f64> =
                of_end.flat_map(|build| build.values.iter().chain(&build.above)).copied().collect();
            all.sort_by(f64::total_cmp);
            all
        })
    }

    pub(super) fn end_medians(&self, of: impl Fn(f64) -> f64) -> [f64; 2] {
        self.end_values().map(|all| {
            let mut all: Vec<f64> = all.into_iter().map(&of).collect();
            all.sort_by(f64::total_cmp);
            0.5 * (all[(all.len() - 1) / 2] + all[all.len() / 2])
        })
    }

    /// Centres from the two ends alone.
    fn first_centres(&self) -> [Centre; ONE_MODE] {
        let levels = self.end_medians(|value| value);
        let (mut squares, mut count) = (0.0, 0.0);
        for (level, all) in levels.iter().zip(self.end_values()) {
            squares += all.iter().map(|value| (value - level).powi(2)).sum::<f64>();
            count += all.len() as f64;
        }
        let floor = self.rounding();
        let scale = (squares / (count - 2.0)).sqrt().max(floor);
        [Centre { levels, ln_scale: scale.ln() }; ONE_MODE]
    }

    /// How much data each side has, by the posterior so far.
    fn amount(&self) -> Amount {
        let ends = self.history.ends();
        let mut amount = Amount { runs: [0.0; 2], end_runs: [0.0; 2] };
        for build in &self.builds {
            let bad = self.bad_share(build.slot);
            for (side, share) in [1.0 - bad, bad].into_iter().enumerate() {
                amount.runs[side] += share * build.runs() as f64;
                if build.node == ends[side] {
                    amount.end_runs[side] += build.runs() as f64;
                }
            }
        }
        amount
    }

    /// Probability that a measured commit is bad.
    fn bad_share(&self, slot: usize) -> f64 {
        let node = self.nodes[slot];
        if node == self.history.good() {
            return 0.0;
        }
        if node == self.history.bad() {
            return 1.0;
        }
        match &self.evidence {
            Some(evidence) if evidence.classes.len() == self.classes.len() => {
                policy::bad_share(&self.classes, evidence, slot)
            }
            _ => self.classes.iter().filter(|class| class.bad[slot]).map(|class| class.mass).sum(),
        }
    }
}
