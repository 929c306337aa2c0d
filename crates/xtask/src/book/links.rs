//! The links of pages: in Markdown, and in the built book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Returns the files of this tree that the Markdown page at `path` links to, from the root.
pub(super) fn of_page<'a>(path: &'a str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let ours = targets.filter(|target| !target.is_empty() && !target.contains("://"));
    ours.map(move |target| resolved(Path::new(path), target).to_string_lossy().into_owned())
}

/// Returns a line for each link of the pages below `place` that leads to no file or to no heading.
/// Pages of the crates' documentation are only targets: the compiler checks their links.
pub(super) fn dead(place: &Path) -> anyhow::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    read(place, Path::new(""), &mut pages)?;
    let anchors: BTreeMap<&Path, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path.as_path(), values(text, "id").collect())).collect();
    let mut found = Vec::new();
    for (path, text) in &pages {
        for link in values(text, "href").chain(values(text, "src")) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = target.split('?').next().unwrap_or_default();
            if link.contains(':') {
                continue;
            }
            let target = if target.is_empty() { path.clone() } else { resolved(path, target) };
            let known = anchor.is_empty()
                || anchors.get(target.as_path()).is_none_or(|ids| ids.contains(anchor));
            if !known || !place.join(&target).exists() {
                found.push(format!("{}: {link} leads nowhere", path.display()));
            }
        }
    }
    Ok(found)
}

/// Reads the pages in the directory `inside` of `place`.
fn read(place: &Path, inside: &Path, pages: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(place.join(inside))? {
        let path = inside.join(entry?.file_name());
        let is_page = path.extension().is_some_and(|extension| extension == "html");
        if place.join(&path).is_dir() && path != Path::new("api") {
            read(place, &path, pages)?;
        } else if is_page && path != Path::new("404.html") {
            // The page of an error has absolute links, for any depth.
            pages.insert(path.clone(), std::fs::read_to_string(place.join(&path))?);
        }
    }
    Ok(())
}

/// Returns the values of an attribute in the text of a page.
fn values<'a>(text: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let parts: Vec<&str> = text.split(format!(" {attribute}=\"").as_str()).skip(1).collect();
    parts.into_iter().filter_map(|rest| rest.split('"').next())
}

/// Returns the path of `target`, which is relative to the file `from`.
fn resolved(from: &Path, target: &str) -> PathBuf {
    let mut path = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_page_are_relative_to_it() {
        let text = "[a](../b.svg) [c](d.md#e) [f](#g) [h](https://i.j/k)";
        assert_eq!(of_page("docs/x.md", text).collect::<Vec<_>>(), ["b.svg", "docs/d.md"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let place = std::env::temp_dir().join(format!("convoy-links-{}", std::process::id()));
        std::fs::create_dir_all(place.join("docs")).unwrap();
        let page = r##"<a href="docs/b.html#there"> <a href="docs/b.html#gone"> <img src="no.png">
            <a href="#own" id="own"> <a href="https://a.b/c#d"> <a href="docs/b.html?x=1">"##;
        std::fs::write(place.join("a.html"), page).unwrap();
        std::fs::write(place.join("docs/b.html"), r#"<h1 id="there"><a href="../a.html">"#)
            .unwrap();
        let found = dead(&place);
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!(
            found.unwrap(),
            ["a.html: docs/b.html#gone leads nowhere", "a.html: no.png leads nowhere"]
        );
    }
}
