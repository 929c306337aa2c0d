//! Reading a file of measurements, and why that fails.

use crate::MeasureError;
use convoy_catalogue::read::bytes_up_to;
use std::path::Path;

/// Names of the formats.
pub(super) const FORMATS: &str = "hyperfine's --export-json, criterion's sample.json or its \
    folder, Go benchmark text, reaim.csv, re-aim's multiuser.ss, singleuser.ss, \
    reaim.debuglog and stp_mdata.txt, AIM7's suite7.ss and log, what either prints, a record of \
    convoy run";

/// Largest file that is read, bytes: ten million numbers.
const LARGEST: u64 = 256 << 20;

/// Why a file gives no numbers: one line that names the file, the place and the cure.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {what}")]
pub struct ReadError {
    file: String,
    pub(super) what: String,
}

impl From<ReadError> for MeasureError {
    fn from(error: ReadError) -> Self {
        Self::request(error)
    }
}

impl ReadError {
    pub(super) fn new(path: &Path, what: impl Into<String>) -> Self {
        Self { file: path.display().to_string(), what: what.into() }
    }
}

pub(super) fn text(path: &Path) -> Result<String, ReadError> {
    let bytes =
        bytes_up_to(path, LARGEST).map_err(|error| ReadError::new(path, error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| {
        ReadError::new(
            path,
            format!("binary data, not a file of measurements; known are {FORMATS}"),
        )
    })
}

/// A JSON array of finite numbers.
pub(super) fn numbers(
    path: &Path,
    key: &str,
    value: &serde_json::Value,
) -> Result<Vec<f64>, ReadError> {
    let list = value.get(key).and_then(serde_json::Value::as_array);
    let list = list.ok_or_else(|| ReadError::new(path, format!("no list {key:?} of numbers")))?;
    let number = |(at, value): (usize, &serde_json::Value)| {
        value.as_f64().ok_or_else(|| {
            ReadError::new(path, format!("{key}[{at}] is {value}, which is not a number"))
        })
    };
    list.iter().enumerate().map(number).collect()
}
