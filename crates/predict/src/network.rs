//! Closed queueing networks: the throughput of a fixed number of customers that visit stations.
//!
//! Bounds: the upper one is asymptotic and follows from the utilisation law and Little's law alone
//! (Denning and Buzen, *The Operational Analysis of Queueing Network Models*, ACM Computing Surveys
//! 10(3), 1978); the lower one is that of balanced jobs (Zahorjan et al., *Balanced Job Bound
//! Analysis of Queueing Networks*, Communications of the ACM 25(2), 1982) and assumes service times
//! that vary no more than exponential ones. The throughput between them is exact for networks with
//! a product form: mean value analysis (Reiser and Lavenberg, Journal of the ACM 27(2), 1980) for
//! stations of one server, to which stations of several servers are added one by one, each in the
//! place of a flow-equivalent server (Chandy, Herzog and Woo, IBM Journal of Research and
//! Development 19(1), 1975). The notation is that of Lazowska et al., *Quantitative System
//! Performance*, 1984.

/// Customers above which the throughput is its upper bound: queues are never empty, or there are
/// none.
const CUSTOMERS: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Station {
    /// Service that a customer needs per pass, in any unit of time.
    pub(crate) demand: f64,
    /// Customers that it serves simultaneously.
    pub(crate) servers: f64,
}

impl Station {
    /// Returns the largest number of passes per unit of time.
    pub(crate) fn capacity(&self) -> f64 {
        self.servers / self.demand
    }

    fn rate(&self, customers: u32) -> f64 {
        self.servers.min(f64::from(customers)) / self.demand
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Network {
    /// Stations with a positive demand.
    pub(crate) stations: Vec<Station>,
    /// Time of a pass away from all stations.
    pub(crate) think: f64,
}

impl Network {
    /// Returns the largest throughput: no station serves beyond its capacity, and no customer
    /// passes in less time than its demands take.
    pub(crate) fn upper(&self, customers: u32) -> f64 {
        let least = self.think + self.stations.iter().map(|station| station.demand).sum::<f64>();
        let capacities = self.stations.iter().map(Station::capacity);
        capacities.fold(f64::from(customers) / least, f64::min)
    }

    /// Returns the least throughput of balanced jobs. A station of *m* servers is a queue with an
    /// *m*th of the demand and a delay with the rest (Seidmann et al., 1987), or a delay if every
    /// customer has a server.
    pub(crate) fn lower(&self, customers: u32) -> f64 {
        let population = f64::from(customers);
        let (mut queued, mut longest, mut delay) = (0.0, 0.0_f64, self.think);
        for station in &self.stations {
            if station.servers >= population {
                delay += station.demand;
                continue;
            }
            let demand = station.demand / station.servers;
            queued += demand;
            longest = longest.max(demand);
            delay += station.demand - demand;
        }
        if queued <= 0.0 {
            return population / delay;
        }
        let others = (population - 1.0) * longest / (1.0 + delay / (population * queued));
        population / (queued + delay + others)
    }

    pub(crate) fn throughput(&self, customers: u32) -> f64 {
        if customers > CUSTOMERS {
            return self.upper(customers);
        }
        let (shared, mut single): (Vec<Station>, Vec<Station>) =
            self.stations.iter().partition(|station| station.servers > 1.0);
        let population = f64::from(customers);
        let (shared, free): (Vec<Station>, Vec<Station>) =
            shared.into_iter().partition(|station| station.servers < population);
        let think = self.think + free.iter().map(|station| station.demand).sum::<f64>();
        // The throughput of the network needs a station or a delay to start with.
        let mut shared = shared.into_iter();
        if single.is_empty() && think <= 0.0 {
            let Some(first) = shared.next() else { return f64::INFINITY };
            let rates = (1..=customers).map(|present| first.rate(present)).collect();
            return joined(rates, shared);
        }
        single.retain(|station| station.demand > 0.0);
        joined(mean_values(&single, think, customers), shared)
    }
}

/// Returns the throughput with 1, 2, … customers of stations of one server.
fn mean_values(stations: &[Station], think: f64, customers: u32) -> Vec<f64> {
    let mut lengths = vec![0.0; stations.len()];
    let mut rates = Vec::new();
    for present in 1..=customers {
        let residences: Vec<f64> = stations
            .iter()
            .zip(&lengths)
            .map(|(station, length)| station.demand / station.servers * (1.0 + length))
            .collect();
        let rate = f64::from(present) / (think + residences.iter().sum::<f64>());
        lengths = residences.iter().map(|residence| rate * residence).collect();
        rates.push(rate);
    }
    rates
}

/// Returns the throughput of a network, given its rates with 1, 2, … customers, after more stations
/// have joined it.
fn joined(mut rates: Vec<f64>, stations: impl Iterator<Item = Station>) -> f64 {
    let mut stations = stations.peekable();
    while let Some(station) = stations.next() {
        let customers = rates.len() as u32;
        let first = if stations.peek().is_some() { 1 } else { customers };
        rates = (first..=customers).map(|present| with(&rates, &station, present)).collect();
    }
    rates.last().copied().unwrap_or(0.0)
}

/// Returns the throughput of `customers` that alternate between a station and the rest of the
/// network, which serves 1, 2, … of them at these rates.
fn with(rates: &[f64], station: &Station, customers: u32) -> f64 {
    // The probability of each number of customers at the station, relative to the first, and the
    // sums of all and of those at which the rest of the network is served.
    let (mut part, mut whole, mut served) = (1.0, 0.0, 0.0);
    for present in 0..=customers {
        let elsewhere = customers - present;
        let rate = elsewhere.checked_sub(1).map_or(0.0, |last| rates[last as usize]);
        whole += part;
        served += part * rate;
        part *= rate / station.rate(present + 1);
        // Only ratios matter.
        if whole > 1e200 {
            (part, whole, served) = (part / whole, 1.0, served / whole);
        }
    }
    served / whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(demand: f64, servers: f64) -> Station {
        Station { demand, servers }
    }

    fn network(stations: &[(f64, f64)], think: f64) -> Network {
        let stations = stations.iter().map(|&(demand, servers)| station(demand, servers)).collect();
        Network { stations, think }
    }

    /// Returns the normalisation constant of a network with a product form: the sum over all states
    /// (Gordon and Newell, Operations Research 15(2), 1967).
    fn constant(network: &Network, stations: &[Station], customers: u32) -> f64 {
        let Some((first, others)) = stations.split_first() else {
            // Customers away from all stations.
            return (1..=customers).map(|present| network.think / f64::from(present)).product();
        };
        let states = (0..=customers).map(|present| {
            let here: f64 = (1..=present).map(|number| 1.0 / first.rate(number)).product();
            here * constant(network, others, customers - present)
        });
        states.sum()
    }

    fn exact(network: &Network, customers: u32) -> f64 {
        let of = |customers| constant(network, &network.stations, customers);
        of(customers - 1) / of(customers)
    }

    /// The networks of textbooks, with the published throughput or the one that follows from a
    /// closed form.
    fn textbook() -> Vec<(&'static str, Network, u32, f64)> {
        let repairman = |load: f64, machines: u32| {
            // Erlang: machines that break at rate 1 and are repaired at rate 1 / load.
            let mut part = 1.0;
            let sum: f64 = (0..=machines)
                .map(|broken| {
                    let here = part;
                    part *= f64::from(machines - broken) * load;
                    here
                })
                .sum();
            (1.0 - 1.0 / sum) / load
        };
        let disks = [(0.605, 1.0), (2.1, 1.0), (1.35, 1.0)];
        vec![
            ("Lazowska, table 6.2, 1 user", network(&disks, 15.0), 1, 0.0525),
            ("Lazowska, table 6.2, 2 users", network(&disks, 15.0), 2, 0.1031),
            ("Lazowska, table 6.2, 3 users", network(&disks, 15.0), 3, 0.1515),
            ("balanced, 3 stations, 5 users", network(&[(2.0, 1.0); 3], 0.0), 5, 5.0 / 7.0 / 2.0),
            ("balanced, 8 stations, 64 users", network(&[(1.0, 1.0); 8], 0.0), 64, 64.0 / 71.0),
            ("cycle of two, 4 users", network(&[(2.0, 1.0), (1.0, 1.0)], 0.0), 4, 15.0 / 31.0),
            ("machine repair, 1 of 10", network(&[(0.1, 1.0)], 1.0), 10, repairman(0.1, 10)),
            ("machine repair, 1 of 60", network(&[(0.1, 1.0)], 1.0), 60, repairman(0.1, 60)),
            ("delay alone", network(&[], 4.0), 12, 3.0),
            ("a server for each of 6", network(&[(3.0, 6.0)], 0.0), 6, 2.0),
            ("two servers, 16 users", network(&[(5.0, 2.0)], 1e-3), 16, 0.4),
            // Denning and Buzen: 25 terminals think for 18 s; a request visits the disk 20 times
            // for 25 ms, which makes its utilisation a half.
            ("terminals, half of the disk", network(&[(0.5, 1.0)], 24.0), 25, repairman_of_disk()),
        ]
    }

    /// Returns 25 terminals that are away for 24 s and need the disk for 0.5 s, by summation.
    fn repairman_of_disk() -> f64 {
        exact(&network(&[(0.5, 1.0)], 24.0), 25)
    }

    #[test]
    fn textbook_networks_are_within_their_bounds_and_exact() {
        for (name, network, users, known) in textbook() {
            let [low, middle, high] =
                [network.lower(users), network.throughput(users), network.upper(users)];
            let case = format!("{name}: {low} {middle} {high}, known {known}");
            assert!((middle / known - 1.0).abs() < 0.005, "{case}");
            assert!(low <= known * 1.001 && known <= high * 1.001, "{case}");
        }
    }

    /// The throughput equals the sum over all states, also with several stations of several
    /// servers.
    #[test]
    fn every_network_is_within_its_bounds_and_equals_the_sum_over_its_states() {
        let stations =
            [[(1.0, 1.0), (3.0, 2.0)], [(2.0, 4.0), (0.5, 1.0)], [(4.0, 3.0), (7.0, 5.0)]];
        for think in [0.0, 0.7, 9.0] {
            for users in [1, 2, 5, 9, 14] {
                for stations in stations.iter().flatten().collect::<Vec<_>>().chunks(3) {
                    let stations: Vec<(f64, f64)> = stations.iter().map(|pair| **pair).collect();
                    let network = network(&stations, think);
                    let known = exact(&network, users);
                    let middle = network.throughput(users);
                    assert!((middle / known - 1.0).abs() < 1e-9, "{middle} {known}: {network:?}");
                    let [low, high] = [network.lower(users), network.upper(users)];
                    assert!(low <= known * (1.0 + 1e-9), "{low} {known}: {network:?}");
                    assert!(known <= high * (1.0 + 1e-9), "{high} {known}: {network:?}");
                }
            }
        }
    }

    #[test]
    fn many_customers_saturate_without_overflow() {
        let network = network(&[(1e-6, 64.0), (0.02, 2.0), (1e-5, 1.0)], 30.0);
        for users in [512, 4096, 10_000] {
            let [low, middle, high] =
                [network.lower(users), network.throughput(users), network.upper(users)];
            assert!(low <= middle * 1.001 && middle <= high * 1.001, "{low} {middle} {high}");
            assert!(high <= 100.0);
        }
    }
}
