//! Sentences of predictions written by hand.

use super::*;
use convoy_predict::{
    Doubt, Edit, FAIR, Feature, Figure, Holders, Limit, Named, Part, Reason, Remedy, Row, SLEEP,
    SPIN, Simulated, Station,
};
use convoy_record::Kind;

fn named(name: &str) -> Named {
    Named { name: name.to_owned(), place: Some("put (queue.c:7)".to_owned()) }
}

fn row(policy: &str, [low_percent, change_percent, high_percent]: [f64; 3]) -> Row {
    Row {
        cpus: 8,
        threads: 2,
        policy: policy.to_owned(),
        split: 1,
        edit: None,
        machine: "8 CPUs of a Xeon".to_owned(),
        acquisitions_per_s: 1e4,
        change_percent,
        low_percent,
        high_percent,
        runs_percent: None,
        limit: Station::Pool { pool: named("pool"), units: 2 },
        program_times: None,
        simulated: None,
        reason: None,
    }
}

fn simulated(row: Row, wait_max_us: f64, parts: Vec<Part>) -> Row {
    let figures = Simulated { cpus_used: 2.0, wait_p99_us: 10.0, wait_max_us, jain: 1.0, parts };
    Row { simulated: Some(figures), ..row }
}

fn advised(lock: &str, kind: Kind, remedies: Vec<Remedy>) -> String {
    let prediction = Prediction::default();
    let (lock, recorded) = (lock.to_owned(), SLEEP.to_owned());
    advice(&Advice {
        lock,
        kind,
        recorded,
        remedies,
        command: None,
        check: None,
        source: None,
        prediction,
    })
}

fn gain(row: Row, longer_us: Option<[f64; 2]>) -> Vec<Remedy> {
    vec![Remedy::Gain { row, longer_us }]
}

#[test]
fn intervals_name_the_station_that_sets_them() {
    let rows = vec![row(SLEEP, [90.0, 120.0, 140.0]), row(FAIR, [0.0, 1.0, 2.0])];
    let text = bounds(&Prediction { rows, ..Prediction::default() });
    let known = "Throughput on 8 CPUs between 1.9 and 2.4 times: the pool `pool` of 2 limits.";
    assert_eq!(text.as_deref(), Some(known));
    let one = Row { cpus: 1, limit: Station::Cpus, ..row(SLEEP, [-50.0; 3]) };
    let more = Row { threads: 16, ..row(SLEEP, [900.0, 950.0, 1150.0]) };
    let rows = vec![one, more];
    let known = "Throughput on 1 CPU with 2 threads 0.50 times: the CPUs limit; on 8 CPUs with 16 \
                 threads between 10 and 12 times: the pool `pool` of 2 limits.";
    assert_eq!(bounds(&Prediction { rows, ..Prediction::default() }).as_deref(), Some(known));
}

/// Bounds are printed at once, and what simulations change of them afterwards.
#[test]
fn the_rest_of_a_page_repeats_intervals_only_if_they_are_narrower() {
    let wide = Prediction { rows: vec![row(SLEEP, [0.0, 50.0, 140.0])], ..Prediction::default() };
    let narrow =
        Prediction { rows: vec![row(SLEEP, [90.0, 120.0, 140.0])], ..Prediction::default() };
    assert!(prediction_head(&wide).contains("between 1.0 and 2.4 times"));
    let rest = prediction_rest(&narrow, &wide);
    assert!(rest.starts_with("Narrowed by simulations, throughput on 8 CPUs between 1.9 and 2.4"));
    assert!(!prediction_rest(&wide, &wide).contains("throughput on"));
    assert_eq!(prediction_text(&wide), prediction_head(&wide) + &prediction_rest(&wide, &wide));
}

#[test]
fn changes_of_the_source_are_sentences_with_their_place_and_check() {
    let limit =
        Limit::Pool { pool: named("pool"), units: 2, waited: 0.8, hold_us: 5000.0, per_s: 400.0 };
    let more = Row { edit: Some(Edit::Units { units: 4 }), ..row(SLEEP, [0.0, 100.0, 110.0]) };
    let half = Row { edit: Some(Edit::Half), ..row(SLEEP, [0.0, 90.0, 110.0]) };
    let prediction =
        Prediction { limit, rows: vec![more.clone(), half.clone()], ..Prediction::default() };
    let check = "convoy compare ./pool ./pool.changed".to_owned();
    let advised = Advice {
        lock: "pool".to_owned(),
        kind: Kind::Condition,
        recorded: SLEEP.to_owned(),
        remedies: [more, half].map(|row| Remedy::Gain { row, longer_us: None }).to_vec(),
        command: None,
        check: None,
        source: Some(SourceChange { place: Some("acquire (pool.cc:10)".to_owned()), check }),
        prediction,
    };
    assert_eq!(
        advice(&advised),
        "Giving the pool `pool` 4 units instead of 2 gives 2.0 times as many acquisitions per \
         second (1.0 to 2.1), by arithmetic. Keeping a unit of the pool `pool` for half as long \
         gives 90 % more acquisitions per second (+0 to +110 %), by arithmetic."
    );
    let page = advice_text(&advised).replace("\n  ", " ");
    assert!(page.contains("To measure the change of the source in acquire (pool.cc:10), build"));
    assert!(page.contains("convoy compare ./pool ./pool.changed"), "{page}");
    assert!(page.contains("half the hold"), "{page}");
    let head = advice_head(&advised.prediction).replace("\n  ", " ");
    assert!(head.contains("Arithmetic allows 1.0 to 2.1 times with 4 units, 1.0 to 2.1 times"));
}

/// The record of a program next to others knows little of its work.
#[test]
fn ends_of_intervals_that_say_nothing_are_left_out() {
    let split = Row { split: 4, ..row(SLEEP, [0.0, 50.0, 317_000.0]) };
    let rows = vec![
        row(SPIN, [-100.0, 0.0, 317_000.0]),
        row(FAIR, [-100.0, -5.0, 20.0]),
        Row { edit: Some(Edit::Sleep), ..row(SLEEP, [0.0, 516.0, 317_000.0]) },
        split,
    ];
    let prediction = Prediction { rows: rows.clone(), ..Prediction::default() };
    assert_eq!(
        rows::changes(&prediction).expect("bounds"),
        "Arithmetic allows at most 1.2 times with `fair`, at least 1.0 times with no sleep held, \
         at least 1.0 times with a split by 4."
    );
    assert!(!table(&prediction).to_text().contains("317"));
    let text = advised("cache", Kind::Mutex, gain(rows[2].clone(), None));
    assert!(text.contains("6.2 times as many acquisitions per second (at least 1.0)"), "{text}");
}

#[test]
fn the_limit_is_said_with_its_whole_holds() {
    fn said(limit: Limit) -> String {
        verdict(&Prediction { limit, ..Prediction::default() })
    }
    let (lock, waited) = (named("queue"), 0.25);
    let holders = Holders::One;
    assert_eq!(
        said(Limit::Lock { lock, waited, holders, hold_us: Some(8000.0), per_s: Some(125.0) }),
        "`queue` in put (queue.c:7) limits the program: threads spent 25 % of their time waiting \
         for it. Held for 8 ms at a time on average, it allows at most 125 acquisitions per second."
    );
    let first = Some((named("queue"), 4));
    assert_eq!(
        said(Limit::Nothing { cpus: 2, waited: 0.0001, first }),
        "No lock limits this program on 2 CPUs: threads spent less than 0.1 % of their time \
         waiting for locks. `queue` in put (queue.c:7) would be the first to, from about 4 CPUs on."
    );
}

#[test]
fn rows_of_arithmetic_alone_say_why() {
    fn doubts_of(prediction: &Prediction) -> String {
        doubts(prediction).join("\n")
    }
    let reason = Reason::Differs { figure: Figure::Throughput, replayed: 3.14e6, recorded: 5.15e6 };
    let refused = Prediction { reason: Some(reason.clone()), ..Prediction::default() };
    assert_eq!(
        doubts_of(&refused),
        "The intervals are arithmetic alone: the replay of the record differs from it: its \
         throughput is 3140000 per second where 5150000 per second were recorded."
    );
    let unsteady = Row { reason: Some(Reason::Unsteady), ..row(SPIN, [0.0; 3]) };
    let rows = vec![unsteady.clone(), row(FAIR, [0.0; 3]), Row { split: 4, ..unsteady }];
    assert_eq!(
        doubts_of(&Prediction { rows, ..Prediction::default() }),
        "Arithmetic alone for `spin` on 8 CPUs, `spin` split by 4 on 8 CPUs: the simulation has no \
         steady throughput within its limit of work."
    );
    let order = vec![Feature::Nesting, Feature::Classes(3)];
    let doubt = Doubt::Unordered { order, reason: Box::new(reason) };
    let text = doubts_of(&Prediction { doubts: vec![doubt], ..Prediction::default() });
    assert!(text.contains("(locks held around others, 3 classes of threads)"), "{text}");
}

#[test]
fn a_lock_that_costs_more_than_a_tenth_is_named_and_not_advised() {
    fn of(percent: f64) -> String {
        let row = simulated(row(FAIR, [percent - 2.0, percent, percent + 2.0]), 900.0, vec![]);
        let is_worth = percent > -10.0;
        advised("m", Kind::Mutex, vec![Remedy::Bounded { row, waited_us: 2e5, is_worth }])
    }
    assert_eq!(
        of(-9.0),
        "Starvation: a thread waited up to 200 ms for `m`. `fair` instead of `sleep` bounds the \
         wait to 900 us, with 9 % fewer acquisitions per second (-11 to -7 %)."
    );
    let dear = of(-12.0);
    assert!(dear.contains("would bound the wait to 900 us, but it is not advised"), "{dear}");
    assert!(dear.contains("12 % fewer acquisitions per second (-14 to -10 %)"), "{dear}");
}

#[test]
fn a_change_of_shares_names_each_class() {
    fn part(place: &str, acquisitions_per_s: f64, recorded_per_s: f64) -> Part {
        Part { place: place.to_owned(), acquisitions_per_s, recorded_per_s }
    }
    let parts = vec![part("tick", 2300.0, 2500.0), part("read", 2200.0, 80.0)];
    let row = simulated(row(FAIR, [-11.0, -9.0, -7.0]), 900.0, parts);
    assert_eq!(
        advised("m", Kind::Mutex, gain(row, None)),
        "`fair` instead of `sleep` gives 9 % fewer acquisitions per second (-11 to -7 %) in tick, \
         and 2200 per second instead of 80 in read."
    );
}

#[test]
fn gains_are_said_as_people_say_them() {
    let split = Row { split: 6, ..row(SLEEP, [355.0, 360.0, 365.0]) };
    let split = simulated(split, 900.0, vec![]);
    assert_eq!(
        advised("journals", Kind::Mutex, gain(split.clone(), None)),
        "Splitting `journals` into 6 locks gives 4.6 times as many acquisitions per second (4.5 to \
         4.7)."
    );
    let pool = advised("connections", Kind::Semaphore, gain(split, None));
    assert!(pool.starts_with("Initialising `connections` with 6 times as many"), "{pool}");
    let wide = Row { split: 4, ..row(SLEEP, [90.0, 95.0, 101.0]) };
    let (waited, hold_us, per_s) = (0.6, 5000.0, 400.0);
    let limit = Limit::Pool { pool: named("pool"), units: 2, waited, hold_us, per_s };
    let advised_pool = Advice {
        source: None,
        lock: "m".to_owned(),
        kind: Kind::Mutex,
        recorded: SLEEP.to_owned(),
        remedies: gain(wide, None),
        command: None,
        check: None,
        prediction: Prediction { limit, ..Prediction::default() },
    };
    assert_eq!(
        advice(&advised_pool),
        "Giving the pool `pool` 8 units instead of 2 gives 95 % more acquisitions per second (+90 \
         to +101 %), by arithmetic."
    );
    let spin = simulated(row(SPIN, [10.0, 12.0, 14.0]), 900_000.0, vec![]);
    assert_eq!(
        advised("m", Kind::Mutex, gain(spin, Some([900_000.0, 2000.0]))),
        "`spin` instead of `sleep` gives 12 % more acquisitions per second (+10 to +14 %), at the \
         price of waits of up to 900 ms instead of 2 ms."
    );
    let best = Some(row(SPIN, [-30.0, 5.0, 60.0]));
    assert_eq!(
        advised("m", Kind::Mutex, vec![Remedy::Nothing { best }]),
        "No lock replacement gives a certain gain: arithmetic allows 5 % more acquisitions per \
         second (-30 to +60 %) with `spin`."
    );
}
