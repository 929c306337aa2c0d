//! An untyped data file: found, read, and merged over the file that it is based on.

use std::path::{Path, PathBuf};

use crate::entry::Entry;
use crate::error::{CatalogueError, Fault};
use crate::set::Set;
use crate::shelf::{MIXES, Shelf};
use crate::source::{Loaded, Source};
use crate::tree::{Node, Value};
use crate::{keys, read, suggest};

/// The key that names the file below.
const BASE: &str = "based_on";

/// A resolved file without a type.
#[derive(Clone, Debug)]
pub struct Sheet {
    shelf: &'static Shelf,
    source: Source,
    tree: Node,
}

/// A file that is text and not TOML: a mix.
#[derive(Clone, Debug)]
pub struct Text {
    /// The content.
    pub text: String,
    /// Its source.
    pub source: Source,
}

/// A file as it was found.
struct Found {
    /// For errors.
    file: String,
    /// For labels.
    name: String,
    /// If it is not a shipped one.
    path: Option<PathBuf>,
    text: String,
}

impl Sheet {
    /// The shipped file called `name`, or the file of that path if it ends in `.toml`; a relative
    /// path is looked for in `directory` first, if there is one.
    ///
    /// # Errors
    /// [`CatalogueError`].
    pub fn open(
        shelf: &'static Shelf,
        name: &str,
        directory: Option<&Path>,
    ) -> Result<Self, CatalogueError> {
        Self::of(shelf, find(shelf, name, directory)?)
    }

    /// The file whose content is `text`; `name` is used in errors.
    ///
    /// # Errors
    /// [`CatalogueError`].
    pub fn of_text(shelf: &'static Shelf, name: &str, text: &str) -> Result<Self, CatalogueError> {
        let (file, path) = (name.to_owned(), Some(PathBuf::from(name)));
        Self::of(shelf, Found { name: file.clone(), file, path, text: text.to_owned() })
    }

    fn of(shelf: &'static Shelf, found: Found) -> Result<Self, CatalogueError> {
        let (mut tree, based_on) = resolve(shelf, &found, &mut Vec::new())?;
        let Found { name, path, text, .. } = found;
        let description = described(&tree, &text);
        tree.remove("description");
        let changed = path.is_some();
        let hash = tree.hash();
        let overrides = Vec::new();
        let source = Source { name, path, based_on, overrides, changed, hash, description };
        Ok(Self { shelf, source, tree })
    }

    /// The text under a key of the root.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.tree.text(key)
    }

    /// Its source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the value after applying the `sets` of its kind.
    ///
    /// # Errors
    /// [`CatalogueError`].
    pub fn read<T: Entry>(self, sets: &[Set]) -> Result<Loaded<T>, CatalogueError> {
        let Self { shelf, mut source, mut tree } = self;
        let schema = keys::schema::<T>();
        for set in sets.iter().filter(|set| set.kind == shelf.kind) {
            tree = tree.overlaid(set.node(&schema));
            source.overrides.push(set.change());
        }
        let hash = tree.hash();
        if source.hash == hash {
            source.overrides.clear();
        } else {
            (source.changed, source.hash) = (true, hash);
        }
        keys::check(&schema, &tree)?;
        let json = serde_json::to_value(&tree).unwrap_or_default();
        let mut value = T::parse(json).map_err(|fault| fault_error(fault, &tree))?;
        value.check().map_err(|fault| fault_error(fault, &tree))?;
        value.set_name(source.label());
        Ok(Loaded { value, source, tree })
    }
}

impl Text {
    /// The shipped file called `name`, or the file of that path. Bytes that are not UTF-8 are
    /// replaced: old workfiles have comments in old encodings.
    ///
    /// # Errors
    /// [`CatalogueError`].
    pub fn open(shelf: &'static Shelf, name: &str) -> Result<Self, CatalogueError> {
        let (label, text, path) = if let Some((label, text)) = shelf.shipped(name) {
            (label.to_owned(), text.to_owned(), None)
        } else if Path::new(name).exists() {
            let bytes = read::bytes(Path::new(name))
                .map_err(|source| CatalogueError::Read { path: name.to_owned(), source })?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            (file_name(Path::new(name)), text, Some(PathBuf::from(name)))
        } else {
            return Err(unknown(shelf, name));
        };
        let (changed, description) = (path.is_some(), first_comment(&text));
        let source = Source { path, changed, description, ..Source::of_text(&label, &text) };
        Ok(Self { text, source })
    }
}

/// Finds and reads one file.
fn find(
    shelf: &'static Shelf,
    name: &str,
    directory: Option<&Path>,
) -> Result<Found, CatalogueError> {
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != shelf.extension) {
        let (label, text) = shelf.shipped(name).ok_or_else(|| unknown(shelf, name))?;
        let (file, name) = (shelf.path_of(label), label.to_owned());
        return Ok(Found { file, name, path: None, text: text.to_owned() });
    }
    let path = directory.map_or_else(|| path.to_owned(), |directory| directory.join(path));
    let file = path.display().to_string();
    let text =
        read::text(&path).map_err(|source| CatalogueError::Read { path: file.clone(), source })?;
    Ok(Found { file, name: file_name(&path), path: Some(path), text })
}

/// Merges a file over its base, and the base over its own base. Returns the base of the file.
/// `chain` has the files above.
fn resolve(
    shelf: &'static Shelf,
    found: &Found,
    chain: &mut Vec<String>,
) -> Result<(Node, Option<String>), CatalogueError> {
    let mut tree = Node::parse(&found.file, &found.text)?;
    if let Some(node) = tree.remove("name") {
        let problem = format!("a {} is named after its file; remove this line", shelf.kind);
        return Err(CatalogueError::Key { place: node.place, key: "name".to_owned(), problem });
    }
    let Some(base) = tree.remove(BASE) else { return Ok((tree, None)) };
    let wrong = |problem: String| CatalogueError::Key {
        place: base.place.clone(),
        key: BASE.to_owned(),
        problem,
    };
    let Value::String(name) = &base.value else {
        return Err(wrong("expected a name or the path of a file".to_owned()));
    };
    let canonical = found.path.as_ref().and_then(|path| path.canonicalize().ok());
    chain.push(canonical.map_or_else(|| found.file.clone(), |path| path.display().to_string()));
    let from = found.path.as_ref().map(|path| directory(path));
    let below = find(shelf, name, from.as_deref()).map_err(|error| wrong(error.to_string()))?;
    let canonical = below.path.as_ref().and_then(|path| path.canonicalize().ok());
    let id = canonical.map_or_else(|| below.file.clone(), |path| path.display().to_string());
    if chain.contains(&id) {
        return Err(wrong(format!("{name} is in the end based on this file; break the circle")));
    }
    let (mut base_tree, _) = resolve(shelf, &below, chain)?;
    // The base's description does not apply to a file derived from it.
    base_tree.remove("description");
    Ok((base_tree.overlaid(tree), Some(below.name)))
}

fn unknown(shelf: &Shelf, name: &str) -> CatalogueError {
    let file = match shelf.kind {
        kind if kind == MIXES.kind => "workfile".to_owned(),
        _ => format!(".{} file", shelf.extension),
    };
    CatalogueError::Unknown {
        kind: shelf.kind,
        name: name.to_owned(),
        hint: suggest::hint(name, shelf.names()),
        known: shelf.names().collect::<Vec<_>>().join(", "),
        file,
    }
}

fn fault_error(fault: Fault, tree: &Node) -> CatalogueError {
    let place = tree.place_of(&fault.key).clone();
    CatalogueError::Key { place, key: fault.key, problem: fault.problem }
}

fn directory(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// One line for people about the file of that content.
fn described(tree: &Node, text: &str) -> String {
    let said = tree.text("description").or_else(|| tree.text("title"));
    said.map_or_else(|| first_comment(text), str::to_owned)
}

impl Shelf {
    /// The shipped files: the name of each, and one line about it.
    pub fn described(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        self.shipped.iter().map(|(name, text)| match Node::parse(name, text) {
            Ok(tree) => (*name, described(&tree, text)),
            // A workfile.
            Err(_) => (*name, first_comment(text)),
        })
    }
}

/// The first sentence of the comment that a file begins with, without its full stop.
fn first_comment(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.trim().strip_prefix('#'));
    let text = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    match text.find(". ") {
        Some(end) => text[..end].to_owned(),
        None => text.trim_end_matches('.').to_owned(),
    }
}

#[cfg(test)]
mod tests;
