//! The inputs of one cell, with presets and mixes found and loaded.

use std::path::PathBuf;

use convoy_catalogue::{Entry, Loaded, MIXES, Set, Sheet, Shelf, Source};
use convoy_workload::dialect::DialectError;
use convoy_workload::mix::Mix;

use super::{Setting, Settings};
use crate::job::{JobError, Part, sha256};

/// Inputs of a cell.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Values by name.
    pub settings: Settings,
    /// Where relative paths begin.
    pub directory: Option<PathBuf>,
    /// Divisor of users and start delay.
    pub scale: u32,
    /// The seed.
    pub seed: u64,
}

impl Part {
    /// The preset `loaded`.
    pub fn of<T>(kind: &'static str, loaded: &Loaded<T>) -> Self {
        Self { kind, source: loaded.source.clone(), content: loaded.to_json() }
    }

    /// A mix, with its sizes as they are in force.
    pub fn mix(mix: &Mix) -> Self {
        let content = serde_json::to_value(mix).unwrap_or_default();
        let hash = sha256(&content.to_string());
        // Not the hash of the text: sizes and the number of jobs may have been changed since.
        Self { kind: "mix", source: Source::recorded(&mix.name, &hash), content }
    }
}

impl Inputs {
    /// Whether `key` is set.
    pub fn has(&self, key: &str) -> bool {
        self.settings.contains_key(key)
    }

    /// A whole number; its range was checked when the file was read.
    pub fn whole(&self, key: &str, default: u32) -> u32 {
        self.settings.get(key).and_then(Setting::number).map_or(default, |value| value as u32)
    }

    /// A number.
    pub fn number(&self, key: &str, default: f64) -> f64 {
        self.settings.get(key).and_then(Setting::number).unwrap_or(default)
    }

    /// `true` or `false`.
    pub fn truth(&self, key: &str, default: bool) -> bool {
        match self.settings.get(key) {
            Some(Setting::Bool(value)) => *value,
            _ => default,
        }
    }

    /// A text.
    pub fn text(&self, key: &str, default: &str) -> String {
        self.settings.get(key).map_or_else(|| default.to_owned(), ToString::to_string)
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// [`JobError::Input`].
    pub fn required(&self, key: &str) -> Result<String, JobError> {
        let value = self.settings.get(key).map(ToString::to_string);
        let problem = "is set nowhere; set it in inputs or by an axis";
        value.ok_or_else(|| JobError::input(key, problem))
    }

    /// The preset of `shelf` that the input of its kind names, with the keys that are set.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn preset<T: Entry>(&self, shelf: &'static Shelf) -> Result<Loaded<T>, JobError> {
        let name = self.required(shelf.kind)?;
        let prefix = format!("{}.", shelf.kind);
        let mut sets = Vec::new();
        for (key, value) in self.settings.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            sets.push(format!("{key}={value}").parse::<Set>()?);
        }
        let sheet = Sheet::open(shelf, &name, self.directory.as_deref())?;
        if shelf.kind != "machine" || !self.has("cpus") {
            return Ok(sheet.read::<T>(&sets)?);
        }
        // The label names all CPUs; titles print the number next to it.
        let label = sheet.clone().read::<T>(&sets)?.label();
        sets.push(Set::cpus(self.whole("cpus", 1) as usize));
        let mut machine = sheet.read::<T>(&sets)?;
        machine.value.set_name(label);
        Ok(machine)
    }

    /// Returns the mix and its source.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn mix(&self) -> Result<(Mix, Part), JobError> {
        let name = self.text("mix", "shared");
        let beside = self.directory.as_ref().map(|directory| directory.join(&name));
        let path = beside.filter(|path| MIXES.shipped(&name).is_none() && path.is_file());
        let name = path.map_or(name, |path| path.display().to_string());
        let mut mix = Mix::load(&name)?;
        if self.has("dialect") {
            let parsed = self.text("dialect", "").parse();
            mix.set_dialect(
                parsed.map_err(|error: DialectError| JobError::input("dialect", error))?,
            );
        }
        mix.first = self.has("first").then(|| self.whole("first", 1));
        let part = Part::mix(&mix);
        Ok((mix, part))
    }

    /// CPUs that all tasks are kept to, if not all.
    pub fn kept_to(&self) -> Option<u32> {
        self.has("kept_to").then(|| self.whole("kept_to", 1))
    }
}
