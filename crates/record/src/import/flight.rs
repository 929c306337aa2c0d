//! Events of a Java flight recording as `jfr print --json` writes them, and how to run `jfr`: only
//! a JDK can read the binary format.

use serde::Deserialize;
use std::io::{BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// The first bytes of a flight recording.
const HEAD: &[u8] = b"FLR\0";
/// Maximum number of frames of each stack. About eight are between a method and `park`.
const DEPTH: &str = "64";
/// Events that are waits for locks.
const EVENTS: &str = "jdk.JavaMonitorEnter,jdk.ThreadPark";

/// The fields of a printed recording that are read. The others, such as class loaders, are most of
/// the text.
#[derive(Deserialize)]
pub(super) struct Printed {
    pub(super) recording: Recording,
}

#[derive(Deserialize)]
pub(super) struct Recording {
    #[serde(default)]
    pub(super) events: Vec<Printable>,
}

#[derive(Deserialize)]
pub(super) struct Printable {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) values: Values,
}

/// Fields of an event.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Values {
    pub(super) start_time: Option<String>,
    pub(super) duration: Option<String>,
    pub(super) event_thread: Option<Thread>,
    pub(super) stack_trace: Option<Stack>,
    pub(super) monitor_class: Option<Class>,
    pub(super) parked_class: Option<Class>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread {
    pub(super) os_thread_id: Option<i64>,
}

/// A call stack, the innermost method first.
#[derive(Deserialize)]
pub(super) struct Stack {
    pub(super) frames: Option<Vec<Frame>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Frame {
    pub(super) method: Option<Method>,
    pub(super) line_number: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct Method {
    #[serde(rename = "type")]
    class: Option<Class>,
    name: Option<String>,
    modifiers: Option<u64>,
}

/// A class, with slashes between packages.
#[derive(Deserialize)]
pub(super) struct Class {
    name: Option<String>,
}

impl Class {
    /// Returns the name with dots, as in a program.
    pub(super) fn name(&self) -> String {
        self.name.as_deref().unwrap_or_default().replace('/', ".")
    }
}

impl Method {
    fn class(&self) -> String {
        self.class.as_ref().map(Class::name).unwrap_or_default()
    }

    /// Returns the class that the method locks as its monitor, if the method is both static and
    /// synchronized.
    pub(super) fn locks_class(&self) -> Option<String> {
        /// Both flags, as in the format of class files.
        const BOTH: u64 = 0x8 | 0x20;
        (self.modifiers? & BOTH == BOTH).then(|| self.class() + ".class")
    }
}

impl Frame {
    /// Returns, for example, `Broker.load (line 5)`.
    pub(super) fn place(&self) -> String {
        let method = self.method.as_ref();
        let class = method.map(Method::class).unwrap_or_default();
        let name = method.and_then(|method| method.name.as_deref()).unwrap_or_default();
        format!("{class}.{name} (line {})", self.line_number.unwrap_or(-1))
    }
}

/// Returns whether these bytes are a flight recording.
pub fn is_flight(bytes: &[u8]) -> bool {
    bytes.starts_with(HEAD)
}

/// Returns the waits for locks in a flight recording, or the reason why it cannot be read.
pub(super) fn printed(path: &Path) -> Result<Printed, String> {
    let home = std::env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/jfr"));
    let program = home.filter(|program| program.exists()).unwrap_or_else(|| "jfr".into());
    let mut command = Command::new(program);
    command.args(["print", "--json", "--stack-depth", DEPTH, "--events", EVENTS]).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        format!(
            "it is a flight recording of Java, and `jfr`, which reads it, cannot be started \
             ({error}): set JAVA_HOME to a JDK, or name a file with the output of `jfr print \
             --json --events {EVENTS} {}`",
            path.display()
        )
    })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // The messages of `jfr` are short, so it does not block until they are read.
    let printed = stdout.map(|stdout| serde_json::from_reader(BufReader::new(stdout)));
    let mut said = String::new();
    let _read = stderr.map(|mut stderr| stderr.read_to_string(&mut said));
    let _ended = child.wait();
    printed.and_then(Result::ok).ok_or_else(|| {
        let said = said.lines().map(str::trim).find(|line| !line.is_empty());
        format!("`jfr print` cannot read it: {}", said.unwrap_or("its output is not JSON"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_method_locks_its_class() {
        fn class(modifiers: u64) -> Option<String> {
            let class = Some(Class { name: Some("org/Broker".to_owned()) });
            Method { class, name: None, modifiers: Some(modifiers) }.locks_class()
        }
        assert_eq!(class(0x28).as_deref(), Some("org.Broker.class"));
        assert_eq!((class(0x20), class(0x8)), (None, None));
    }
}
