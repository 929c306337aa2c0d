//! `convoy top` on a terminal and without one.

use crate::common::{interrupt, with_default_signals};
use crate::{code, compile, convoy, directory, ends, finish, json, outputs, stderr, stdout};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program with three threads that wait for `held` until its input ends.
struct Held(Child);

impl Held {
    fn start(place: &Path) -> Self {
        let program = place.join("held");
        compile("../record/tests/programs/held.c", &program, &[]);
        let child = Command::new(&program).stdin(Stdio::piped()).spawn().expect("it starts");
        // Its threads wait soon.
        let threads = || std::fs::read_dir(format!("/proc/{}/task", child.id()));
        while threads().expect("its threads").count() < 4 {
            std::thread::yield_now();
        }
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("it ends").success());
    }
}

/// A terminal of 80 columns and 24 lines in which `convoy top` runs.
struct Terminal {
    place: PathBuf,
    child: Child,
    parser: vt100::Parser,
}

impl Terminal {
    /// Starts the command in a shell that keeps the settings of the terminal before and after it,
    /// the process ID and the exit code.
    fn start(place: &Path, args: &str) -> Self {
        let convoy = env!("CARGO_BIN_EXE_convoy");
        let line = format!(
            "cd '{}'; stty cols 80 rows 24; stty -g > before; \
             sh -c 'echo $$ > pid; exec \"$0\" top {args}' '{convoy}'; \
             echo $? > code; stty -g > after",
            place.display()
        );
        // It is killed if it hangs, so that the test fails.
        let mut script = Command::new("timeout");
        script.args(["-k", "1", "120", "script", "-qfec", &line, "/dev/null"]);
        script.env("TERM", "xterm").env("CONVOY_STORE", "none").env_remove("COLUMNS");
        let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let parser = vt100::Parser::new(24, 80, 0);
        Self { place: place.to_owned(), child: child.expect("script"), parser }
    }

    /// Reads output until the screen has a row that begins with this text.
    fn read_until(&mut self, row: &str) {
        let has_row =
            |parser: &vt100::Parser| parser.screen().rows(0, 80).any(|one| one.starts_with(row));
        let output = self.child.stdout.as_mut().expect("it is piped");
        let mut bytes = [0; 4096];
        while !has_row(&self.parser) {
            let length = output.read(&mut bytes).expect("the terminal");
            assert!(length > 0, "no {row}: {}", self.parser.screen().contents());
            self.parser.process(&bytes[..length]);
        }
    }

    fn press(&mut self, keys: &str) {
        let input = self.child.stdin.as_mut().expect("it is piped");
        input.write_all(keys.as_bytes()).and_then(|()| input.flush()).expect("it reads");
    }

    /// Waits for the end, and checks that the terminal is as it was before.
    fn end(mut self, expected: &str) {
        let mut output = Vec::new();
        self.child.stdout.take().expect("piped").read_to_end(&mut output).expect("the terminal");
        self.parser.process(&output);
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends");
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", screen.contents());
        let read = |name: &str| std::fs::read_to_string(self.place.join(name)).unwrap_or_default();
        assert_eq!(read("before"), read("after"));
        assert_eq!(read("code").trim(), expected, "{}", screen.contents());
    }

    fn signal(&self, signal: Signal) {
        let pid = std::fs::read_to_string(self.place.join("pid")).expect("it has begun");
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().expect("a number"));
        rustix::process::kill_process(pid.expect("a process"), signal).expect("sent");
    }
}

const FAST: &str = "--kernel off --interval 0.2";

#[test]
fn the_screen_names_the_lock_and_the_terminal_is_restored_at_each_end() {
    let place = directory("top-screen");
    for end in ["q", "\x03", "SIGTERM", "exit"] {
        let held = Held::start(&place);
        let mut terminal = Terminal::start(&place, &format!("--pid {} {FAST}", held.pid()));
        terminal.read_until("held");
        terminal.read_until("q quit");
        let screen = terminal.parser.screen();
        assert!(screen.alternate_screen(), "{end}");
        assert!(screen.contents().contains("wait_here"), "{}", screen.contents());
        let rows: Vec<String> = screen.rows(0, 80).collect();
        assert!(rows[0].starts_with("1 process, 4 threads; "), "{rows:#?}");
        assert!(rows[23].starts_with("q quit"), "{rows:#?}");
        match end {
            "SIGTERM" => terminal.signal(Signal::TERM),
            "exit" => drop(held),
            key => terminal.press(key),
        }
        terminal.end("0");
    }
}

#[test]
fn a_filter_hides_other_locks_until_it_is_removed() {
    let place = directory("top-filter");
    let held = Held::start(&place);
    let mut terminal = Terminal::start(&place, &format!("--pid {} {FAST}", held.pid()));
    terminal.read_until("held");
    terminal.press("/other\r");
    terminal.read_until("No lock matches");
    terminal.press("\x1b");
    terminal.read_until("held");
    terminal.press("q");
    terminal.end("0");
    drop(held);
}

#[test]
fn without_a_terminal_one_window_is_printed() {
    let place = directory("top-once");
    let held = Held::start(&place);
    let args = ["top", "--pid", &held.pid(), "--kernel", "off", "--window", "0.5"];
    let output = finish(convoy(&args).env("COLUMNS", "80"), 0);
    let text = stdout(&output);
    assert!(text.lines().any(|line| line.starts_with("held ")), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let value = json(&[&args[..], &["--once", "--format", "json"]].concat(), 0);
    let all = json(&["schema"], 0);
    let mut problems = Vec::new();
    outputs::problems(&value, &all["$defs"]["top"], &all, "top", &mut problems);
    assert!(problems.is_empty(), "{problems:?}\n{value}");
    let lock = &value["locks"][0];
    assert_eq!((lock["lock"].as_str(), lock["kind"].as_str()), (Some("held"), Some("mutex")));
    let waiting = lock["waiting_threads"].as_f64().expect("a number");
    assert!(lock["waiting_now"] == 3 && (2.0..=3.1).contains(&waiting), "{lock}");
    assert_eq!(lock["owner"]["thread"].to_string(), held.pid());
    assert_eq!(lock["doing"][0]["what"], "read(2)");
    let threads = value["threads"].as_array().expect("rows");
    let sum: f64 = threads.iter().filter_map(|row| row["threads"].as_f64()).sum();
    assert!((sum - 4.0).abs() < 1e-6, "{threads:?}");
    drop(held);
}

#[test]
fn what_was_seen_can_be_kept_and_explained() {
    let place = directory("top-record");
    let held = Held::start(&place);
    let store = place.path("runs.sqlite3");
    let pid = held.pid();
    let words = ["top", "--pid", &pid, "--kernel", "off", "--seconds", "0.5", "--record"];
    let output = ends(&[&words[..], &["--store", store]].concat(), 0);
    assert!(stderr(&output).contains("convoy explain 1"), "{}", stderr(&output));
    let value = json(&["explain", "1", "--store", store, "--format", "json"], 0);
    assert_eq!(value["locks"][0]["name"], "held");
    drop(held);
}

#[test]
fn dashboards_are_answered_on_this_machine_alone() {
    ends(&["top", "--serve", "0.0.0.0:9184"], 2);
    let place = directory("top-serve");
    let held = Held::start(&place);
    let args = ["top", "--pid", &held.pid(), "--kernel", "off", "--interval", "0.2"];
    let command = convoy(&[&args[..], &["--serve", "127.0.0.1:0"]].concat());
    let mut child = with_default_signals(&command).spawn().expect("it starts");
    let mut messages = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    messages.read_line(&mut line).expect("a message");
    let address = line.trim().strip_prefix("convoy: http://").expect("an address");
    let address = address.strip_suffix("/metrics").expect("of the metrics");
    loop {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let metric = "convoy_lock_waiting_threads{pid=";
        let held = answer.lines().find(|line| line.starts_with(metric));
        if let Some(held) = held {
            assert!(held.contains("program=\"held\",lock=\"held\",kind=\"mutex\"} "), "{held}");
            break;
        }
        assert!(child.try_wait().expect("a child").is_none(), "it ended");
    }
    assert_eq!(code(&interrupt(child, Signal::TERM)), Some(0));
    drop(held);
}

#[test]
fn a_command_is_watched_to_its_end_and_its_code_is_returned() {
    let words = ["top", "--kernel", "off", "--window", "30", "--", "sh", "-c", "sleep 1; exit 7"];
    let output = ends(&words, 7);
    assert!(stdout(&output).contains(": sh -c sleep 1;"), "{}", stdout(&output));
}
