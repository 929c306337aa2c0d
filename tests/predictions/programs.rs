//! Small servers: each thread makes passes until the time is up.
//! usage: programs MODE THREADS SECONDS; prints the passes per second.
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock, mpsc};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

static OVER: AtomicBool = AtomicBool::new(false);
static PASSES: AtomicU64 = AtomicU64::new(0);

fn rest(us: u64) {
    sleep(Duration::from_micros(us));
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *seed >> 33
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (mode, threads) = (arguments[1].as_str(), arguments[2].parse::<u64>().unwrap());
    let accounts = Mutex::new(HashMap::<u64, i64>::new());
    let config = RwLock::new(Arc::new(vec![0_u64; 64]));
    let (sender, receiver) = mpsc::sync_channel::<u64>(8);
    let receiver = Mutex::new(receiver);
    let begin = Instant::now();
    scope(|scope| {
        if mode == "channel" {
            scope.spawn(move || while !OVER.load(Relaxed) && sender.send(1).is_ok() {});
        }
        for number in 1..=threads {
            let (accounts, config, receiver) = (&accounts, &config, &receiver);
            scope.spawn(move || {
                let (mut seed, mut count) = (number, 0);
                while !OVER.load(Relaxed) {
                    match mode {
                        // A transfer looks the accounts up, and waits 1 ms for a reply.
                        "bank" => {
                            let keys = [next(&mut seed) % 5000, next(&mut seed) % 5000];
                            let mut accounts = accounts.lock().unwrap();
                            *accounts.entry(keys[0]).or_default() -= 1;
                            *accounts.entry(keys[1]).or_default() += 1;
                            drop(accounts);
                            rest(1000);
                        }
                        // Workers share the receiving end of a channel; a task takes 2 ms.
                        "channel" => {
                            let task = receiver.lock().unwrap().recv();
                            if task.is_ok() {
                                rest(2000);
                            }
                        }
                        // One of a hundred requests replaces the configuration.
                        "config" => {
                            if next(&mut seed) % 100 == 0 {
                                *config.write().unwrap() = Arc::new(vec![next(&mut seed); 64]);
                            } else {
                                let config = Arc::clone(&config.read().unwrap());
                                seed ^= config[0];
                            }
                            rest(500);
                        }
                        // Words are counted without a sleep.
                        _ => {
                            let key = next(&mut seed) % 5000;
                            *accounts.lock().unwrap().entry(key).or_default() += 1;
                            for _ in 0..200 {
                                std::hint::black_box(next(&mut seed));
                            }
                        }
                    }
                    count += 1;
                }
                PASSES.fetch_add(count, Relaxed);
            });
        }
        rest((1e6 * arguments[3].parse::<f64>().unwrap()) as u64);
        OVER.store(true, Relaxed);
        // Until the producer, which may wait for room, has ended.
        while mode == "channel" && receiver.lock().unwrap().recv().is_ok() {}
    });
    println!("{}", PASSES.load(Relaxed) as f64 / begin.elapsed().as_secs_f64());
}
