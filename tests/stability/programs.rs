//! Programs with one known use of locks in each mode. The second argument is how long to run, in
//! seconds.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

fn compute(steps: u64) {
    let mut x = 1u64;
    for _ in 0..steps {
        x = std::hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
}

fn sleep_us(us: u64) {
    thread::sleep(Duration::from_micros(us));
}

#[inline(never)]
fn record_metric(metrics: &Mutex<Vec<u64>>) {
    let mut held = metrics.lock().unwrap();
    held[0] += 1;
    sleep_us(1000);
}

#[inline(never)]
fn reload(config: &RwLock<u64>) {
    let mut held = config.write().unwrap();
    *held += 1;
    sleep_us(5000);
}

#[inline(never)]
fn read(config: &RwLock<u64>) -> u64 {
    let held = config.read().unwrap();
    compute(100);
    *held
}

#[inline(never)]
fn count(total: &Mutex<u64>) {
    let mut held = total.lock().unwrap();
    compute(200);
    *held += 1;
}

#[inline(never)]
fn serve(tasks: &Mutex<Receiver<u64>>) -> bool {
    let task = tasks.lock().unwrap().recv();
    compute(1000);
    task.is_ok()
}

#[inline(never)]
fn pass(own: &(Mutex<bool>, Condvar), next: &(Mutex<bool>, Condvar)) {
    let mut has = own.0.lock().unwrap();
    while !*has {
        has = own.1.wait(has).unwrap();
    }
    *has = false;
    drop(has);
    *next.0.lock().unwrap() = true;
    next.1.notify_one();
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let seconds: f64 = words[2].parse().unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let start = |number: usize, work: Arc<dyn Fn() + Send + Sync>| {
        let threads = (0..number).map(|_| {
            let work = Arc::clone(&work);
            thread::spawn(move || {
                while Instant::now() < end {
                    work();
                }
            })
        });
        threads.collect::<Vec<_>>()
    };
    let mut threads = Vec::new();
    match words[1].as_str() {
        "asleep" => {
            let metrics = Mutex::new(vec![0]);
            threads = start(4, Arc::new(move || record_metric(&metrics)));
        }
        "reload" => {
            let config = Arc::new(RwLock::new(0));
            let readers = Arc::clone(&config);
            threads = start(4, Arc::new(move || { read(&readers); sleep_us(50); }));
            threads.extend(start(1, Arc::new(move || { reload(&config); sleep_us(5000); })));
        }
        "short" => {
            let total = Mutex::new(0);
            let work = move || (0..100).for_each(|_| { count(&total); compute(50) });
            threads = start(4, Arc::new(work));
        }
        "own" => {
            threads = start(4, Arc::new(|| {
                let total = Mutex::new(0);
                (0..100).for_each(|_| { count(&total); compute(50) });
            }));
        }
        "channel" => {
            let (sender, receiver) = channel();
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..4 {
                let receiver = Arc::clone(&receiver);
                threads.push(thread::spawn(move || while serve(&receiver) {}));
            }
            while Instant::now() < end {
                sender.send(1).unwrap();
                sleep_us(2000);
            }
        }
        "ring" => {
            let ring: Arc<Vec<_>> =
                Arc::new((0..4).map(|i| (Mutex::new(i == 0), Condvar::new())).collect());
            for i in 0..4 {
                let ring = Arc::clone(&ring);
                threads.push(thread::spawn(move || while Instant::now() < end {
                    pass(&ring[i], &ring[(i + 1) % 4]);
                }));
            }
            thread::sleep(Duration::from_secs_f64(seconds));
            std::process::exit(0);
        }
        "stdout" => {
            threads = start(4, Arc::new(|| (0..100).for_each(|i| println!("{i}"))));
        }
        _ => std::process::exit(2),
    }
    for thread in threads {
        thread.join().unwrap();
    }
}
