//! What is asked for beside an experiment's file.

use std::collections::BTreeMap;

use convoy_catalogue::Set;

use super::{Setting, Settings, Size};

/// What is asked for beside the file.
#[derive(Clone, Debug)]
pub struct Changes {
    /// Inputs in place of those of the file; axes stay what they are.
    pub settings: Settings,
    /// Only these points of an axis, or others: labels or presets by the key of the axis. Without
    /// such an axis one of them is an input.
    pub points: BTreeMap<String, Vec<String>>,
    /// Only these grids.
    pub only: Vec<String>,
    /// How much is run.
    pub size: Size,
    /// Divisor of users and start delay in place of the file's.
    pub scale: Option<u32>,
    /// Number of seeds in place of the file's.
    pub seeds: Option<u32>,
    /// The first seed.
    pub seed: u64,
    /// One cell is looked at by itself: a grid may lack the baseline of its comparison.
    pub alone: bool,
}

/// The name of a preset as a command line gives it: a relative path begins where the user is, not
/// where the experiment's file lies.
pub fn given(name: &str) -> String {
    let path = std::path::Path::new(name);
    let is_file = path.extension().is_some() && path.is_file();
    let absolute = is_file.then(|| std::path::absolute(path).ok()).flatten();
    absolute.map_or_else(|| name.to_owned(), |path| path.display().to_string())
}

impl Changes {
    /// Takes a `--set` of a preset's key as an input.
    pub fn set(&mut self, set: &Set) {
        let key = format!("{}.{}", set.kind, set.key());
        self.settings.insert(key, Setting::of(set.value()));
    }
}

impl Default for Changes {
    fn default() -> Self {
        let (settings, points) = (Settings::new(), BTreeMap::new());
        let (only, size) = (Vec::new(), Size::Usual);
        Self { settings, points, only, size, scale: None, seeds: None, seed: 1, alone: false }
    }
}
