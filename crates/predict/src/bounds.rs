//! Bounds of the throughput of a recorded program with other CPUs, threads and locks, from
//! arithmetic alone: the demands of the program on its stations, and the laws of closed networks.
//!
//! A thread that holds a lock also needs a CPU, so that its time counts at two stations. The upper
//! bound counts each second once, with the least demands; the lower bound counts it at both, with
//! the most demands, and adds the prices of moving data and of wakeups that the record may not
//! contain. Between them is the throughput of the network in which the work of a critical section
//! is a part of the service of its lock.

use std::borrow::Cow;

use convoy_machine::Preset;

use crate::demands::{Demand, Demands, Station};
use crate::edit::Edit;
use crate::network::{self, Network};

/// Largest part of the time of its threads by which windows may underestimate a class: they show a
/// small part of the run.
const WINDOWS: f64 = 0.2;
/// Cache lines that an acquisition moves if the last owner ran on another CPU: the lock and a line
/// of the data that it protects; at most the lock twice, as a waiter writes to it, and two lines of
/// data. At least none moves, since a thread may acquire the lock many times in a row.
const LINES: [f64; 2] = [2.0, 4.0];
/// Part of the utilisation of the CPUs below which a lock cannot limit.
const IDLE: f64 = 0.01;

/// A machine and locks for which throughput is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) cpus: u32,
    pub(crate) threads: u32,
    /// CPUs that other programs use.
    pub(crate) others: f64,
    /// Number of locks that replace the first one.
    pub(crate) split: u32,
    /// Change of the source at the lock that limits the recorded point.
    pub(crate) edit: Option<Edit>,
    /// Whether the program or its locks differ from the recorded ones.
    pub(crate) is_changed: bool,
    /// Whether a release may pass the lock to a thread that first has to wake up.
    pub(crate) hands_over: bool,
    pub(crate) prices: Prices,
}

/// Prices that a record may not contain, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Prices {
    /// A cache line that moves between the CPUs of the machine.
    transfer: f64,
    /// From a wakeup to the first instruction of the thread.
    wakeup: f64,
    /// CPU time of a wakeup and of the two switches around it.
    wake_work: f64,
}

impl Prices {
    pub(crate) fn new(machine: &Preset) -> Self {
        let (topology, prices) = (&machine.topology, &machine.price_ns);
        let transfer = match topology.cpus {
            1 => 0.0,
            cpus if cpus > topology.cpus_per_package => prices.remote,
            cpus if cpus > topology.cpus_per_llc => prices.package,
            _ => prices.llc,
        };
        let guest = machine.guest_ns.as_ref();
        let send = prices.ipi.max(guest.map_or(0.0, |guest| guest.send));
        let wakeup = send + prices.idle_exit.max(guest.map_or(0.0, |guest| guest.halted_exit));
        let wake_work = guest.map_or(0.0, |guest| guest.send) + 2.0 * prices.switch;
        let [transfer, wakeup, wake_work] =
            [transfer, wakeup + prices.switch, wake_work].map(|ns| ns / 1e9);
        Self { transfer, wakeup, wake_work }
    }
}

/// An interval of the throughput that follows from arithmetic, relative to the record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bounds {
    /// Least.
    pub(crate) low: f64,
    /// Approximation of the closed network.
    pub(crate) middle: f64,
    /// Most.
    pub(crate) high: f64,
    /// The station with the highest utilisation.
    pub(crate) limit: Station,
}

/// The bounds of a record: its demands, its prices, and the recorded setting.
pub(crate) struct Law {
    demands: Demands,
    /// Index of the lock that a split replaces among the locks of the process.
    first: usize,
    recorded: Setting,
    /// The station that limits the recorded point, if its diagnosis names one.
    limit: Option<Station>,
    /// CPU time in one second of the record that readers without a lock save.
    counted: f64,
    /// The recorded point by the laws: with the other programs, and alone.
    beside: Bounds,
    alone: Bounds,
}

impl Law {
    /// Returns the bounds of a program with these demands on the recorded machine. A split replaces
    /// the lock with the index `first`; `limit` is the station that limits the recorded point, if
    /// it is known; readers without a lock save `counted` seconds of CPU time in each second.
    pub(crate) fn new(
        demands: Demands,
        first: usize,
        limit: Option<Station>,
        counted: f64,
        machine: &Preset,
    ) -> Self {
        let recorded = Setting {
            cpus: demands.cpus,
            threads: demands.threads,
            others: demands.others,
            split: 1,
            edit: None,
            is_changed: false,
            hands_over: false,
            prices: Prices::new(machine),
        };
        let [beside, alone] = [Bounds::UNKNOWN; 2];
        let mut law = Self { demands, first, recorded, limit, counted, beside, alone };
        law.beside = law.speed(&recorded);
        law.alone = law.speed(&Setting { others: 0.0, ..recorded });
        law
    }

    /// Returns the throughput of the recorded point without other programs, relative to the record.
    pub(crate) fn alone(&self) -> f64 {
        if self.demands.others > 0.0 {
            (self.alone.middle / self.beside.middle).max(1.0)
        } else {
            1.0
        }
    }

    /// Returns the bounds for a setting without other programs, relative to the recorded point
    /// without them.
    pub(crate) fn bounds(&self, setting: &Setting, is_disturbed: bool) -> Bounds {
        let speed = self.speed(setting);
        let is_recorded = (setting.cpus, setting.threads, setting.split)
            == (self.recorded.cpus, self.recorded.threads, 1)
            && setting.edit.is_none();
        let limit = speed.limit;
        if is_recorded && !setting.is_changed {
            let limit = self.limit.clone().unwrap_or(limit);
            return Bounds { low: 1.0, middle: 1.0, high: 1.0, limit };
        }
        // The recorded throughput belongs to the recorded point, so the laws must contain it.
        // Alone, the program is at least as fast as next to other programs.
        let [low, high] = if is_disturbed {
            let least = (self.alone.low / self.beside.low.max(1.0)).max(1.0);
            let most = (self.alone.high / self.beside.high.min(1.0)).max(least);
            [speed.low / most, speed.high / least]
        } else {
            [speed.low / self.beside.low.max(1.0), speed.high / self.beside.high.min(1.0)]
        };
        let base = if is_disturbed { self.alone.middle } else { self.beside.middle };
        // A network whose demands fall, or that has more servers, is not slower.
        let is_less = setting.split > 1 || setting.edit.is_some_and(|edit| edit != Edit::Thread);
        let is_only_less = is_less && !setting.is_changed && self.is_same_place(setting);
        let low = if is_only_less { low.max(1.0) } else { low }.min(high);
        let middle = (speed.middle / base).clamp(low, high);
        Bounds { low, middle, high, limit }
    }

    /// Returns whether a setting has the recorded CPUs and threads.
    fn is_same_place(&self, setting: &Setting) -> bool {
        (setting.cpus, setting.threads) == (self.recorded.cpus, self.recorded.threads)
    }

    fn demand_in<'a>(&self, demand: &'a Demand, setting: &Setting) -> Cow<'a, Demand> {
        let is_edited = self.limit.as_ref() == Some(&demand.station);
        match setting.edit.filter(|_| is_edited) {
            Some(edit) => Cow::Owned(edit.applied(demand)),
            None => Cow::Borrowed(demand),
        }
    }

    /// Returns the throughput of a setting by the laws.
    fn speed(&self, setting: &Setting) -> Bounds {
        let demands = &self.demands;
        let cpus = f64::from(setting.cpus);
        let free = (cpus - setting.others).max(IDLE * cpus);
        let threads = f64::from(setting.threads.max(1));
        let saved = if setting.edit == Some(Edit::Readers) { self.counted } else { 0.0 };
        let (work, sleep) = (demands.work.less(saved), demands.sleep);
        let times = grown(setting.threads, demands.threads, demands.singles);
        let users = times * f64::from(demands.users);
        let mut high = capacity(cpus, work.least, demands.single);
        high = high.min(users / (work.least + sleep.least));
        // What an edit moves out of a lock, or a split spreads, still takes the time of a thread.
        let holds = demands.stations.iter().map(|demand| match setting.edit {
            Some(Edit::Readers) => self.demand_in(demand, setting).service.least,
            _ => demand.service.least,
        });
        high = holds.fold(high, |high, hold| high.min(users / hold));
        let grown = times.max(1.0);
        for crew in demands.crews.iter().filter(|_| demands.crews.len() > 1) {
            high = high.min(grown / (crew.busy * (1.0 - WINDOWS)));
        }
        let (mut likely, mut least) = (Network::default(), Network::default());
        let (mut held_work, mut held_sleep) = (0.0, 0.0);
        let mut overhead = self.overhead(setting);
        let mut busiest = (&Station::Cpus, 0.0);
        for station in &demands.stations {
            let demand = &*self.demand_in(station, setting);
            let split = if demand.lock == self.first { f64::from(setting.split) } else { 1.0 };
            let [most, low] = demand.servers.map(|servers| servers * split);
            high = high.min(capacity(most, demand.service.least, demand.single));
            let moved = self.moved(demand, setting);
            let passed = passed(demand, setting);
            let service = [
                demand.service.middle + moved[0] + passed[0],
                demand.service.most + moved[1] + passed[1],
            ];
            overhead = [overhead[0] + moved[0], overhead[1] + moved[1]];
            let servers = [most.min(f64::MAX), low];
            if service[1] / low < IDLE * work.middle / cpus {
                continue;
            }
            held_work += demand.work;
            held_sleep += demand.slept;
            likely.stations.push(network::Station { demand: service[0], servers: servers[0] });
            least.stations.push(network::Station { demand: service[1], servers: servers[1] });
            busiest = busier(busiest, (&station.station, service[0] / servers[0]));
        }
        let used = work.middle + overhead[0];
        busiest = busier(busiest, (&Station::Cpus, used / free));
        busiest = busier(busiest, (&Station::Threads, (used + sleep.middle) / threads));
        let own = (used - held_work).max(IDLE * used);
        likely.stations.push(network::Station { demand: own, servers: free });
        likely.think = (sleep.middle - held_sleep).max(0.0) + demands.idle;
        least.stations.push(network::Station { demand: work.most + overhead[1], servers: free });
        least.think = sleep.most + demands.idle;
        for network in [&mut likely, &mut least] {
            network.stations.retain(|station| station.demand > 0.0);
        }
        let middle = likely.throughput(setting.threads.max(1)).min(free / used).min(high);
        let low = least.lower(setting.threads.max(1)).min(middle);
        // More threads may all wait for as many units of a pool as threads were recorded.
        let is_full = demands.is_unwaited && setting.threads > demands.threads;
        let low = if is_full { low.min(1.0) } else { low };
        Bounds { low, middle, high, limit: busiest.0.clone() }
    }

    /// Returns the time for which the acquisitions of a lock wait for lines of other CPUs, in
    /// addition to the record: middle and most.
    fn moved(&self, demand: &Demand, setting: &Setting) -> [f64; 2] {
        let recorded = if self.recorded.cpus > 1 { self.recorded.prices.transfer } else { 0.0 };
        let more = (setting.prices.transfer - recorded).max(0.0);
        // The last owner is as likely on each CPU that the threads use.
        let cpus = f64::from(setting.cpus.min(setting.threads).max(1));
        let share = if demand.is_shared { 1.0 - 1.0 / cpus } else { 0.0 };
        LINES.map(|lines| lines * share * more * demand.acquired)
    }

    /// Returns the CPU time of wakeups in addition to the record: middle and most. Until a woken
    /// thread runs, a lock that the next thread may take needs no other wakeup.
    fn overhead(&self, setting: &Setting) -> [f64; 2] {
        let Prices { wakeup, wake_work, .. } = setting.prices;
        let is_more = self.recorded.cpus == 1 && setting.cpus > 1 || setting.is_changed;
        if !is_more || wakeup <= 0.0 {
            return [0.0; 2];
        }
        let shared = self.demands.stations.iter().filter(|demand| demand.is_shared);
        let acquired = shared.fold([0.0; 2], |[likely, most], demand| {
            // An acquisition may have to wait if the lock is held.
            let held = (demand.service.middle / demand.servers[0]).min(1.0);
            [likely + demand.acquired * held, most + demand.acquired]
        });
        let woken =
            if setting.hands_over { acquired } else { acquired.map(|a| a.min(1.0 / wakeup)) };
        woken.map(|wakeups| wakeups * wake_work)
    }
}

/// Returns at most how many times as many of `threads` do the work of the `recorded` ones, of which
/// `singles` may be single in any program.
fn grown(threads: u32, recorded: u32, singles: u32) -> f64 {
    let [all, workers] = [0, singles].map(|singles| {
        let count = |threads: u32| f64::from(threads.saturating_sub(singles).max(1));
        count(threads) / count(recorded)
    });
    if threads > recorded { all.max(workers) } else { all }
}

/// Returns at most how many times as fast `servers` serve a program that needs `demand` of them, of
/// which the part `single` need not grow with the throughput.
fn capacity(servers: f64, demand: f64, single: f64) -> f64 {
    let all = servers / demand;
    if single <= 0.0 || single >= servers || all <= 1.0 {
        return all;
    }
    all.max((servers - single) / (demand - single).max(0.0))
}

/// Returns the station with the higher utilisation; of equal ones, the second.
fn busier<'a>(first: (&'a Station, f64), second: (&'a Station, f64)) -> (&'a Station, f64) {
    if second.1 >= first.1 { second } else { first }
}

/// Returns the time for which a lock is passed to threads that wake up: middle and most.
fn passed(demand: &Demand, setting: &Setting) -> [f64; 2] {
    if !setting.hands_over {
        return [0.0; 2];
    }
    let wakeups = demand.acquired * setting.prices.wakeup;
    [wakeups * demand.contended, wakeups]
}

impl Bounds {
    const UNKNOWN: Self = Self { low: 0.0, middle: 0.0, high: 0.0, limit: Station::Cpus };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two readers need a quarter of a CPU, and a writer that works at intervals a half: the rest
    /// is enough for twice as many readers. The program was bounded by 4/3.
    #[test]
    fn work_of_a_single_thread_need_not_grow_with_the_throughput() {
        assert!((capacity(1.0, 0.75, 0.0) - 4.0 / 3.0).abs() < 1e-12);
        assert!((capacity(1.0, 0.75, 0.5) - 2.0).abs() < 1e-12);
        assert!(capacity(1.0, 0.75, 0.75).is_infinite(), "nothing grows");
        // The single thread alone fills the server.
        assert!((capacity(1.0, 0.75, 1.5) - 4.0 / 3.0).abs() < 1e-12);
        assert!((capacity(1.0, 1.0, 0.5) - 1.0).abs() < 1e-12, "already full");
    }

    #[test]
    fn a_producer_stays_one_while_its_workers_become_more() {
        assert!((grown(5, 3, 1) - 2.0).abs() < 1e-12);
        assert!((grown(5, 3, 0) - 5.0 / 3.0).abs() < 1e-12);
        assert!((grown(2, 3, 1) - 2.0 / 3.0).abs() < 1e-12, "fewer");
        assert!((grown(2, 1, 1) - 2.0).abs() < 1e-12);
    }
}
