// A service with eight threads. Each request reads a row from a slow store (here: it sleeps) while
// it holds the mutex of the connection. `--cfg pool` is the repaired version: four connections.
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

struct Connection {
    rows: u64,
}

fn query(connection: &Mutex<Connection>) {
    let mut connection = connection.lock().unwrap();
    thread::sleep(Duration::from_micros(300));
    connection.rows += 1;
}

fn main() {
    let count = if cfg!(pool) { 4 } else { 1 };
    let connections: Vec<_> = (0..count).map(|_| Mutex::new(Connection { rows: 0 })).collect();
    thread::scope(|scope| {
        for number in 0..8 {
            let connection = &connections[number % count];
            scope.spawn(move || (0..250).for_each(|_| query(connection)));
        }
    });
    let rows: u64 = connections.iter().map(|one| one.lock().unwrap().rows).sum();
    println!("{rows} rows");
}
