//! An endpoint for dashboards: answers requests on this machine with the last metrics.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum length of a request, in bytes.
const LONGEST: u64 = 8192;
/// Maximum time that a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(2);

/// An endpoint that answers until this process ends.
pub struct Endpoint {
    address: SocketAddr,
    metrics: Arc<Mutex<String>>,
}

/// Returns whether only this machine can reach an address.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().is_loopback()
}

impl Endpoint {
    /// Listens at a loopback address.
    ///
    /// # Errors
    /// The address is in use, or it is not one of this machine alone.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        if !is_loopback(address) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let metrics = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&metrics);
        let thread = std::thread::Builder::new().name("endpoint".to_owned());
        thread.spawn(move || {
            for stream in listener.incoming().flatten() {
                let metrics = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let _reader_has_closed_it = answer(&stream, &metrics);
            }
        })?;
        Ok(Self { address, metrics })
    }

    /// Returns the address with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn show(&self, metrics: String) {
        *self.metrics.lock().unwrap_or_else(PoisonError::into_inner) = metrics;
    }
}

/// Answers one request.
fn answer(mut stream: &TcpStream, metrics: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.take(LONGEST)).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    // The client may still be sending its header.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let (status, body) = match request.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["GET", "/metrics", ..] => ("200 OK", metrics),
        ["GET", ..] => ("404 Not Found", "see /metrics\n"),
        _ => ("405 Method Not Allowed", "only GET\n"),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "{request}\r\nHost: x\r\n\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    #[test]
    fn only_the_metrics_are_there_and_they_are_the_last_ones() {
        let endpoint = Endpoint::open(([127, 0, 0, 1], 0).into()).expect("a free port");
        endpoint.show("convoy_processes 1\n".to_owned());
        endpoint.show("convoy_processes 2\n".to_owned());
        let text = ask(endpoint.address(), "GET /metrics HTTP/1.1");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nconvoy_processes 2\n"), "{text}");
        assert!(ask(endpoint.address(), "GET / HTTP/1.1").starts_with("HTTP/1.1 404"));
        assert!(ask(endpoint.address(), "POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn other_machines_cannot_reach_it() {
        let address = ([0, 0, 0, 0], 0).into();
        assert!(!is_loopback(address) && Endpoint::open(address).is_err());
        assert!(is_loopback("[::1]:9".parse().expect("an address")));
    }
}
