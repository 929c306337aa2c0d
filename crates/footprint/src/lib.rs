//! Size of the code of each lock, from the object files of `convoy-lockcode`.
//!
//! The size includes the functions of the lock and all generic code that they call or refer to.
//! Code of other libraries, such as the futex calls of the native platform and the messages of
//! panics, is shared by all locks and does not count. Each function has its section, whose
//! relocations name the sections that it refers to.

use std::collections::{BTreeMap, BTreeSet};

use convoy_sync::{LockName, Promise};
use object::read::archive::ArchiveFile;
use object::{
    File, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SectionKind,
};

/// The archive of `convoy-lockcode`, empty if it was not built.
static ARCHIVE: &[u8] = include_bytes!(env!("CONVOY_LOCKCODE"));

/// Functions that every lock has.
const FUNCTIONS: [&str; 4] = ["acquire", "try_acquire", "acquire_unless", "release"];
/// Functions that only readers need.
const SHARED: [&str; 2] = ["acquire_shared", "release_shared"];

/// A reason for which the sizes cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum FootprintError {
    /// The program was built without the locks' object files.
    #[error("this program was built without the object files of the locks; build it on Linux")]
    NotBuilt,
    /// An object file cannot be read.
    #[error("an object file of the locks cannot be read: {0}")]
    Object(#[from] object::Error),
    /// A function of a lock is in no object file.
    #[error("no object file has the function {0}")]
    Missing(String),
}

/// Size of a lock's code, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Instructions.
    pub text: u64,
    /// Initialised variables.
    pub data: u64,
    /// Variables that are zero at the start.
    pub bss: u64,
}

/// The sizes of all locks, in the order of the list.
///
/// # Errors
///
/// [`FootprintError`].
pub fn footprints() -> Result<Vec<(LockName, Footprint)>, FootprintError> {
    let code = Code::read(ARCHIVE)?;
    LockName::ALL.iter().map(|&lock| Ok((lock, code.footprint(lock)?))).collect()
}

/// A section of one of the files: their numbers.
type Place = (usize, usize);

/// All object files, by what their sections refer to.
struct Code<'a> {
    files: Vec<File<'a>>,
    /// Where each global symbol is defined.
    symbols: BTreeMap<String, Place>,
}

impl<'a> Code<'a> {
    fn read(archive: &'a [u8]) -> Result<Self, FootprintError> {
        if archive.is_empty() {
            return Err(FootprintError::NotBuilt);
        }
        let (mut files, mut symbols) = (Vec::new(), BTreeMap::new());
        for member in ArchiveFile::parse(archive)?.members() {
            let member = member?;
            // The archive also contains metadata of the compiler.
            if !member.name().ends_with(b".o") {
                continue;
            }
            let file = File::parse(member.data(archive)?)?;
            for symbol in file.symbols().filter(ObjectSymbol::is_global) {
                if let Some(section) = symbol.section_index() {
                    symbols.insert(symbol.name()?.to_owned(), (files.len(), section.0));
                }
            }
            files.push(file);
        }
        Ok(Self { files, symbols })
    }

    /// The size of `lock`.
    fn footprint(&self, lock: LockName) -> Result<Footprint, FootprintError> {
        let shared = if lock.promises_to(Promise::Shared) { &SHARED[..] } else { &[] };
        let mut open = Vec::new();
        for function in FUNCTIONS.iter().chain(shared) {
            let name = format!("{function}:{}", lock.name());
            let place = self.symbols.get(&name).copied();
            open.push(place.ok_or(FootprintError::Missing(name))?);
        }
        let (mut seen, mut footprint) = (BTreeSet::new(), Footprint::default());
        while let Some(place) = open.pop() {
            if !seen.insert(place) {
                continue;
            }
            let section = self.files[place.0].section_by_index(SectionIndex(place.1))?;
            // Constants that contain addresses are written only by the linker.
            let constant = section.name()?.starts_with(".data.rel.ro");
            match section.kind() {
                _ if constant => {}
                SectionKind::Text => footprint.text += section.size(),
                SectionKind::Data | SectionKind::Tls => footprint.data += section.size(),
                SectionKind::UninitializedData | SectionKind::UninitializedTls => {
                    footprint.bss += section.size();
                }
                _ => {}
            }
            open.extend(self.referred(place)?);
        }
        Ok(footprint)
    }

    /// Returns the sections to which the section at `place` refers, except sections of other
    /// libraries.
    fn referred(&self, place: Place) -> Result<Vec<Place>, FootprintError> {
        let file = &self.files[place.0];
        let mut places = Vec::new();
        for (_, relocation) in file.section_by_index(SectionIndex(place.1))?.relocations() {
            let RelocationTarget::Symbol(index) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(index)?;
            let local = symbol.section_index().map(|section| (place.0, section.0));
            places.extend(local.or_else(|| self.symbols.get(symbol.name().ok()?).copied()));
        }
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lock: LockName) -> u64 {
        let sizes = footprints().expect("object files that can be read");
        sizes.iter().find(|(name, _)| *name == lock).expect("every lock has a size").1.text
    }

    #[test]
    fn sizes_follow_the_code() {
        // A test-and-set lock is a few instructions; a semaphore has queues and a slow path.
        let (small, large) = (text(LockName::TestAndSet), text(LockName::Handoff));
        assert!((20..400).contains(&small), "{small}");
        assert!(large > 2 * small, "{large}");
        // A lock that contains another one is larger than it.
        assert!(text(LockName::QuotaExtended) > text(LockName::Quota));
    }

    #[test]
    fn no_lock_has_variables() {
        for (lock, Footprint { data, bss, .. }) in footprints().expect("object files") {
            assert_eq!((data, bss), (0, 0), "{lock}");
        }
    }

    #[test]
    fn an_empty_archive_has_no_code() {
        assert!(matches!(Code::read(&[]), Err(FootprintError::NotBuilt)));
    }
}
