//! The names in a directory, and the bytes that they take in a buffer of the C library.

use std::collections::BTreeMap;
use std::rc::Rc;

/// An entry's inode number, offset, length and type, and the end of its name, bytes.
const ENTRY_HEAD: usize = 20;
/// Returns the bytes of the buffer that the entry of `name` takes.
pub(super) fn size_in_buffer(name: &str) -> usize {
    (ENTRY_HEAD + name.len()).next_multiple_of(8)
}

/// The names of a directory, each with a dentry `D`.
pub(crate) struct Entries<D> {
    names: BTreeMap<Rc<str>, Rc<D>>,
    /// Bytes of a buffer that they take.
    bytes: usize,
}

impl<D> Default for Entries<D> {
    fn default() -> Self {
        Self { names: BTreeMap::new(), bytes: 0 }
    }
}

impl<D> Entries<D> {
    /// Gives `name` to `dentry`.
    pub(crate) fn insert(&mut self, name: &str, dentry: Rc<D>) {
        if self.names.insert(name.into(), dentry).is_none() {
            self.bytes += size_in_buffer(name);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if self.names.remove(name).is_some() {
            self.bytes -= size_in_buffer(name);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Rc<D>> {
        self.names.get(name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// In the order of their names.
    pub(super) fn dentries(&self) -> impl Iterator<Item = &Rc<D>> {
        self.names.values()
    }

    /// In order.
    pub(super) fn names(&self) -> impl Iterator<Item = &Rc<str>> {
        self.names.keys()
    }
}
