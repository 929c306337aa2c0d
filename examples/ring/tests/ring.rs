//! The ring under the checker: `cargo test --features checked`.

use convoy_checker::program::hint::spin_loop;
use convoy_checker::program::sync::{Arc, atomic::Ordering};
use convoy_checker::program::{check, replay, thread};
use ring::Ring;

/// A producer and a consumer of three items.
fn program(publish: Ordering) {
    let ring = Arc::new(Ring::new(publish));
    let other = Arc::clone(&ring);
    let producer = thread::spawn(move || {
        for item in 1..=3 {
            while !other.push(item) {
                spin_loop();
            }
        }
    });
    for expected in 1..=3 {
        let item = loop {
            match ring.pop() {
                Some(item) => break item,
                None => spin_loop(),
            }
        };
        assert_eq!(item, expected);
    }
    producer.join().unwrap();
}

#[test]
fn items_arrive_in_order() {
    if let Err(broken) = check(|| program(Ordering::Release)) {
        panic!("{broken}");
    }
}

#[test]
fn a_relaxed_store_publishes_nothing() {
    let broken = check(|| program(Ordering::Relaxed)).unwrap_err();
    println!("{broken}");
    let again = replay(&broken.schedule, || program(Ordering::Relaxed));
    assert_eq!(again, Ok(Some(broken)));
}
