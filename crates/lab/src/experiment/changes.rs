//! Changes to an experiment from the command line.

use std::collections::BTreeMap;

use convoy_catalogue::Set;

use super::{Setting, Settings, Size};

/// Changes to the file.
#[derive(Clone, Debug)]
pub struct Changes {
    /// Inputs that replace the file's; axes are not changed.
    pub settings: Settings,
    /// Only these points of an axis, or others: labels or presets by the key of the axis. Without
    /// such an axis one of them is an input.
    pub points: BTreeMap<String, Vec<String>>,
    /// Only these grids.
    pub only: Vec<String>,
    /// How much is run.
    pub size: Size,
    /// Divisor of users and start delay; replaces the file's.
    pub scale: Option<u32>,
    /// Number of seeds; replaces the file's.
    pub seeds: Option<u32>,
    /// The first seed.
    pub seed: u64,
    /// Only one cell is needed: a grid may lack the baseline of its comparison.
    pub alone: bool,
}

/// Returns the name of a preset from a command line: a relative path is relative to the working
/// directory, not to the experiment's file.
pub fn given(name: &str) -> String {
    let path = std::path::Path::new(name);
    let is_file = path.extension().is_some() && path.is_file();
    let absolute = is_file.then(|| std::path::absolute(path).ok()).flatten();
    absolute.map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

impl Changes {
    /// Takes a `--set` of a preset's key as an input.
    pub fn set(&mut self, set: &Set) {
        self.settings.insert(format!("{}.{}", set.kind, set.key()), Setting::of(set.value()));
    }
}

impl Default for Changes {
    fn default() -> Self {
        let (settings, points) = (Settings::new(), BTreeMap::new());
        let (only, size) = (Vec::new(), Size::Usual);
        Self { settings, points, only, size, scale: None, seeds: None, seed: 1, alone: false }
    }
}
