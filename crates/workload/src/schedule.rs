//! The load points of a run: a list, or a sweep that depends on its measurements.
//!
//! A sweep starts at some number of users and goes up by an increment to its end. It may end early
//! ([`Until`]), and its increment may follow the measurements ([`Sweep::adaptive`]), by AIM7's
//! rules, stated here for `T` = Jobs/Min, `N` = users:
//!
//! | when | increment |
//! |---|---|
//! | fewer than 8 points and a start below 20 | stays |
//! | `(T − N) / N ≤ 0.10`: the crossover is near | `(T − N) / 2`, at least 1 |
//! | time of this point below 1.2 times the previous time | times `2 · mean / last`, from 1.1 to 2 |
//! | above 1.3 times | divided by the same factor, at least 1 |
//! | between | stays |
//!
//! where the time of a point is its Real, and the mean is over all points so far.

/// When a sweep ends before its last number of users.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Until {
    /// Not at all.
    #[default]
    End,
    /// At the first point with this many Jobs/Min per user or fewer: 1.0 is AIM7's crossover.
    Crossover(f64),
    /// Once the peak has been passed, by re-aim's rule: of the last [`WINDOW`] points the last lies
    /// more than 1 % under their mean and below its predecessor, or they differ by less than 1 %
    /// of the mean (standard deviation).
    Peak,
}

/// Points that the rule for the peak evaluates.
pub const WINDOW: usize = 5;
/// Share of the mean that the rule for the peak calls a difference.
const FLAT: f64 = 0.01;
/// Points before an adaptive increment begins to move, unless the sweep starts high.
const ADAPT_AFTER: usize = 8;
/// Start from which an adaptive increment changes immediately.
const ADAPT_FROM: u32 = 20;

/// A sweep over numbers of users.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// First number of users.
    pub start: u32,
    /// Last number of users; it is always visited, unless the sweep ends early.
    pub end: u32,
    /// From one point to the next.
    pub increment: u32,
    /// Whether the increment follows the measurements.
    pub adaptive: bool,
    /// When to end early.
    pub until: Until,
}

/// The load points of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// These, in this order.
    List(Vec<u32>),
    /// A sweep.
    Sweep(Sweep),
}

/// The measurements of a point that a schedule uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Users.
    pub users: u32,
    /// Jobs/Min.
    pub jobs_per_min: f64,
    /// Real, seconds.
    pub real_s: f64,
}

/// A schedule on its way.
#[derive(Clone, Debug)]
pub struct Visits<'a> {
    schedule: &'a Schedule,
    seen: Vec<Seen>,
    visited: usize,
    /// Users of the last visit.
    last: u32,
    increment: f64,
}

impl Schedule {
    /// The most users of any point.
    pub fn most_users(&self) -> u32 {
        match self {
            Self::List(users) => users.iter().copied().max().unwrap_or(0),
            Self::Sweep(sweep) => sweep.end,
        }
    }

    /// The numbers of users to come if nothing ends the run early and no increment adapts; for the
    /// estimate of the time left.
    pub fn planned(&self) -> Vec<u32> {
        match self {
            Self::List(users) => users.clone(),
            Self::Sweep(Sweep { start, end, increment, .. }) => {
                let mut users: Vec<u32> =
                    (*start..=*end).step_by((*increment).max(1) as usize).collect();
                if users.last() != Some(end) {
                    users.push(*end);
                }
                users
            }
        }
    }

    /// Returns whether the points depend on previous measurements.
    pub fn looks(&self) -> bool {
        matches!(self, Self::Sweep(sweep) if sweep.adaptive || sweep.until != Until::End)
    }

    /// The first visit is next.
    pub fn visits(&self) -> Visits<'_> {
        let increment = match self {
            Self::List(_) => 0.0,
            Self::Sweep(sweep) => f64::from(sweep.increment.max(1)),
        };
        Visits { schedule: self, seen: Vec::new(), visited: 0, last: 0, increment }
    }
}

impl Visits<'_> {
    /// Passes the measurement of the last visit. A point that failed is not told.
    pub fn saw(&mut self, seen: Seen) {
        self.seen.push(seen);
    }

    /// The users of the next point; `None` at the end.
    pub fn next_users(&mut self) -> Option<u32> {
        let users = match self.schedule {
            Schedule::List(users) => users.get(self.visited).copied(),
            Schedule::Sweep(sweep) if self.visited == 0 => Some(sweep.start.min(sweep.end)),
            Schedule::Sweep(sweep) => self.next_of(sweep),
        };
        self.visited += 1;
        self.last = users.unwrap_or(self.last);
        users
    }

    fn next_of(&mut self, sweep: &Sweep) -> Option<u32> {
        if self.last >= sweep.end {
            return None;
        }
        // A point that failed tells nothing: the sweep goes on as before.
        if let Some(last) = self.seen.last().copied().filter(|seen| seen.users == self.last) {
            let over = match sweep.until {
                Until::End => false,
                Until::Crossover(limit) => last.jobs_per_min / f64::from(last.users) <= limit,
                Until::Peak => is_past_peak(&self.seen),
            };
            if over {
                return None;
            }
            let early = self.seen.len() < ADAPT_AFTER && sweep.start < ADAPT_FROM;
            if sweep.adaptive && !early {
                self.adapt(last);
            }
        }
        let step = self.increment.round().clamp(1.0, f64::from(u32::MAX)) as u32;
        Some(self.last.saturating_add(step).min(sweep.end))
    }

    fn adapt(&mut self, last: Seen) {
        let users = f64::from(last.users);
        let above = last.jobs_per_min - users;
        if above / users <= 0.10 {
            self.increment = (above / 2.0).max(1.0);
            return;
        }
        let [.., before, _] = self.seen[..] else { return };
        let mean = self.seen.iter().map(|seen| seen.real_s).sum::<f64>() / self.seen.len() as f64;
        // The mean of a long sweep lags behind: without a least factor the growth would stop.
        let factor = (2.0 * mean / before.real_s).clamp(1.1, 2.0);
        let ratio = last.real_s / before.real_s;
        if ratio < 1.2 {
            self.increment *= factor;
        } else if ratio > 1.3 {
            self.increment = (self.increment / factor).max(1.0);
        }
    }
}

/// Whether the last points say that the most Jobs/Min lie behind.
fn is_past_peak(seen: &[Seen]) -> bool {
    let Some(window) = seen.len().checked_sub(WINDOW).map(|from| &seen[from..]) else {
        return false;
    };
    let rates: Vec<f64> = window.iter().map(|seen| seen.jobs_per_min).collect();
    let mean = rates.iter().sum::<f64>() / WINDOW as f64;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    let deviation = (squares / WINDOW as f64).sqrt();
    let (before, last) = (rates[WINDOW - 2], rates[WINDOW - 1]);
    (last < before && last < mean * (1.0 - FLAT)) || deviation < FLAT * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(start: u32, end: u32, increment: u32) -> Sweep {
        Sweep { start, end, increment, adaptive: false, until: Until::End }
    }

    /// Follows `sweep` over the curve `jobs_per_min`; the time of a point is users per rate.
    fn follow(sweep: Sweep, jobs_per_min: impl Fn(u32) -> f64) -> Vec<u32> {
        let schedule = Schedule::Sweep(sweep);
        let mut visits = schedule.visits();
        let mut users = Vec::new();
        while let Some(next) = visits.next_users() {
            users.push(next);
            assert!(users.len() < 1000, "no end: {users:?}");
            let rate = jobs_per_min(next);
            let real_s = 6000.0 * f64::from(next) / rate;
            visits.saw(Seen { users: next, jobs_per_min: rate, real_s });
        }
        users
    }

    #[test]
    fn a_sweep_visits_its_end_whatever_the_increment() {
        assert_eq!(follow(sweep(1, 10, 4), |_| 100.0), [1, 5, 9, 10]);
        assert_eq!(follow(sweep(3, 3, 1), |_| 100.0), [3]);
        for (start, end, increment) in [(1, 10, 4), (10, 90, 10), (3, 3, 1)] {
            let planned = Schedule::Sweep(sweep(start, end, increment)).planned();
            assert_eq!(planned, follow(sweep(start, end, increment), |_| 100.0));
        }
    }

    #[test]
    fn the_crossover_is_the_first_point_at_the_limit() {
        let until = Until::Crossover(1.0);
        // 55 Jobs/Min whatever the load: one each at 55 users.
        let visited = follow(Sweep { until, ..sweep(10, 10_000, 10) }, |_| 55.0);
        assert_eq!(visited, [10, 20, 30, 40, 50, 60]);
        let quick = Sweep { until: Until::Crossover(60.0), ..sweep(1, 10_000, 1) };
        assert_eq!(follow(quick, |_| 300.0), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn an_adaptive_sweep_finds_a_far_crossover_in_few_points() {
        let until = Until::Crossover(1.0);
        let adaptive = Sweep { adaptive: true, until, ..sweep(1, 10_000, 2) };
        let visited = follow(adaptive.clone(), |users| 5000.0_f64.min(500.0 * f64::from(users)));
        assert_eq!(visited[..8], [1, 3, 5, 7, 9, 11, 13, 15], "eight points by the increment");
        let last = *visited.last().expect("visited");
        assert!((5000..6500).contains(&last) && visited.len() < 80, "{visited:?}");
        let fixed = follow(Sweep { adaptive: false, end: 900, ..adaptive }, |_| 5000.0);
        assert_eq!(fixed.len(), 451);
    }

    #[test]
    fn the_peak_is_noticed_when_the_rate_falls_or_stays() {
        let until = Until::Peak;
        let hill = |users: u32| 1000.0 - (f64::from(users) - 6.0).powi(2) * 10.0;
        let visited = follow(Sweep { until, ..sweep(1, 100, 1) }, hill);
        assert!((7..=10).contains(visited.last().expect("visited")), "{visited:?}");
        assert_eq!(follow(Sweep { until, ..sweep(1, 100, 1) }, |_| 1000.0).len(), WINDOW);
        let rising = follow(Sweep { until, ..sweep(1, 20, 1) }, |users| f64::from(users) * 100.0);
        assert_eq!(rising.len(), 20);
    }

    #[test]
    fn a_failed_point_does_not_end_a_schedule() {
        let schedule = Schedule::Sweep(sweep(1, 3, 1));
        let mut visits = schedule.visits();
        let visited: Vec<u32> = std::iter::from_fn(|| visits.next_users()).collect();
        assert_eq!(visited, [1, 2, 3]);
        let list = Schedule::List(vec![4, 2]);
        let mut visits = list.visits();
        assert_eq!((visits.next_users(), visits.next_users()), (Some(4), Some(2)));
        assert_eq!((visits.next_users(), list.most_users()), (None, 4));
    }
}
