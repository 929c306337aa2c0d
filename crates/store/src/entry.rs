//! The stored data of one run.

use serde::{Deserialize, Serialize};

/// One finished run: its command, place, time and result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Unique over all machines and processes; a record is taken into a store once only.
    pub uid: String,
    /// What kind of record: `run`, `reproduce`, `compare`, `bisect`.
    pub kind: String,
    /// The arguments of the command, without the program.
    pub command: Vec<String>,
    /// The seed, if the command has one.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Version and build of the program.
    pub build: String,
    /// The machine.
    pub host: Host,
    /// When the run ended, milliseconds since 1970 (UTC).
    pub time_ms: i64,
    /// The result in the JSON of its kind.
    pub body: serde_json::Value,
    /// Names for it.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its operating system and release.
    pub system: String,
    /// Model of its CPUs.
    pub cpu: String,
    /// Number of CPUs.
    pub cpus: u32,
}

/// An entry in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Its number in this store; numbers are never used again.
    pub id: i64,
    /// The entry, with the tags it has now.
    pub entry: Entry,
}

impl Entry {
    /// An entry that ends now on this machine, without seed and tags.
    pub fn now(kind: &str, command: Vec<String>, build: &str, body: serde_json::Value) -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let time = since_1970();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let host = Host::this();
        Self {
            uid: format!("{:x}-{:x}-{count:x}-{}", time.as_nanos(), std::process::id(), host.name),
            kind: kind.to_owned(),
            command,
            seed: None,
            build: build.to_owned(),
            host,
            time_ms: time.as_millis() as i64,
            body,
            tags: Vec::new(),
        }
    }

    /// The result up to now.
    pub fn set(&mut self, body: serde_json::Value) {
        (self.time_ms, self.body) = (since_1970().as_millis() as i64, body);
    }
}

fn since_1970() -> std::time::Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

impl Host {
    /// This machine; what cannot be found out is empty.
    pub fn this() -> Self {
        let system = rustix::system::uname();
        let [name, kernel, release] = [system.nodename(), system.sysname(), system.release()]
            .map(|text| text.to_string_lossy().into_owned());
        Self {
            name,
            system: format!("{kernel} {release}"),
            cpu: convoy_os::cpus::model().unwrap_or_default(),
            cpus: convoy_os::clock::cpus(),
        }
    }
}
