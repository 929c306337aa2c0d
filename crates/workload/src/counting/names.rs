//! Paths of the counting kernel, and the symbolic links in them.

use super::Counting;
use crate::Errno;
use crate::api::Sys;

/// Symbolic links of one path, at most.
const MOST_LINKS: u32 = 40;

impl Counting {
    /// Paths that exist.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') {
            path.trim_end_matches('/').to_owned()
        } else {
            format!("{}/{path}", self.working_directory)
        }
    }

    /// Where `path` leads, which need not exist; symbolic links are followed.
    pub(super) fn resolve(&self, path: &str) -> Sys<String> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        self.follow(&self.absolute(path), &mut 0)
    }

    /// [`Self::resolve`] but for the last name.
    pub(super) fn place(&self, path: &str) -> Sys<String> {
        let path = self.absolute(path);
        let Some((above, name)) = path.rsplit_once('/') else { return Ok(path) };
        Ok(format!("{}/{name}", self.follow(above, &mut 0)?))
    }

    fn follow(&self, path: &str, followed: &mut u32) -> Sys<String> {
        let mut at = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let next = format!("{at}/{name}");
            let target = self.names.get(&next).and_then(|&inode| self.inodes[inode].target.clone());
            let Some(target) = target else {
                at = next;
                continue;
            };
            *followed += 1;
            if *followed > MOST_LINKS {
                return Err(Errno::ELOOP);
            }
            let whole = if target.starts_with('/') { target } else { format!("{at}/{target}") };
            at = self.follow(&whole, followed)?;
        }
        Ok(at)
    }

    /// What `path` leads to.
    pub(super) fn find(&self, path: &str) -> Sys<usize> {
        self.names.get(&self.resolve(path)?).copied().ok_or(Errno::ENOENT)
    }

    /// Enters a new name of `inode`.
    pub(super) fn enter(&mut self, path: &str, inode: usize) -> Sys<()> {
        let path = self.place(path)?;
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let parent = *self.names.get(parent).ok_or(Errno::ENOENT)?;
        if !self.inodes[parent].directory {
            return Err(Errno::ENOTDIR);
        }
        if self.names.contains_key(&path) {
            return Err(Errno::EEXIST);
        }
        self.inodes[inode].links += 1;
        self.names.insert(path, inode);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Errno;
    use crate::api::{Kernel as _, Open};
    use crate::counting::Counting;

    #[test]
    fn a_link_leads_on_and_is_removed_alone() {
        let mut k = Counting::new();
        k.mkdir("/real").expect("new");
        k.symlink("real", "/link").expect("new");
        let fd = k.open("/link/file", Open::CREAT).expect("through the link");
        k.close(fd).expect("open");
        assert_eq!(k.stat("/real/file"), k.stat("/link/file"));
        assert_eq!(k.symlink("x", "/link"), Err(Errno::EEXIST));
        k.unlink("/link").expect("the link, not the directory");
        assert_eq!(k.stat("/link/file"), Err(Errno::ENOENT));
        assert!(k.stat("/real/file").is_ok());
        k.symlink("/a", "/b").expect("new");
        k.symlink("/b", "/a").expect("new");
        assert_eq!(k.stat("/a"), Err(Errno::ELOOP));
    }
}
