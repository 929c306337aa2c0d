//! `cargo xtask book`: the documents as a site with search, and the documentation of the crates
//! next to them, in a directory that carries the version.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::dist::CRATES;
use crate::outline::{Page, links, outline, resolve};
use crate::stage::{Ending, cargo, run as show};
use crate::tidy::files;
use crate::tools::MDBOOK;

/// The page that leads to the documentation of the crates.
const API: &str = "api.md";

/// Pages are read from copies, in which links lead to the same places as in the tree.
const CONFIG: &str = r#"[book]
title = "Convoy VERSION"
language = "en"
src = "pages"

[output.html]
no-section-label = true
playground.runnable = false
print.enable = false
fold.enable = true
additional-css = ["book.css"]
"#;
/// Code has 100 columns.
const STYLE: &str = ":root { --content-max-width: 920px; }\n";

/// Builds the book in `target/book/VERSION`. `cargo xtask tidy` checks its links.
pub(crate) fn run(root: &Path) -> anyhow::Result<Ending> {
    let mdbook = MDBOOK.installed(root)?;
    let version = env!("CARGO_PKG_VERSION");
    let files = files::read(root)?.texts;
    let source = fresh(root.join("target/book-source"))?;
    let mut pages: Vec<&str> = vec!["README.md"];
    for part in outline(&files) {
        pages
            .extend(part.pages.iter().flat_map(|page| [&[page.path][..], &page.children].concat()));
    }
    let readmes: Vec<String> =
        CRATES.map(|name| name.replace("convoy-", "crates/") + "/README.md").into();
    pages.extend(readmes.iter().map(String::as_str));
    let mut titles = BTreeMap::new();
    for path in pages {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned())?;
        let title = text.lines().next().unwrap_or(path).trim_start_matches("# ").replace('`', "");
        titles.insert(path, title);
        let targets = links(&text).filter_map(|link| link.split('#').next());
        for target in targets.filter(|target| !target.is_empty() && !target.ends_with(".md")) {
            let target = resolve(path, target);
            let copy = made(source.join("pages").join(&target))?;
            std::fs::copy(root.join(&target), copy).with_context(|| target)?;
        }
        let text = text.replace("README.md)", "index.md)").replace("README.md#", "index.md#");
        std::fs::write(made(source.join("pages").join(indexed(path)))?, text)?;
    }
    std::fs::write(source.join("book.toml"), CONFIG.replace("VERSION", version))?;
    std::fs::write(source.join("book.css"), STYLE)?;
    std::fs::write(source.join("pages/SUMMARY.md"), summary(&files, &titles, &readmes))?;
    std::fs::write(source.join("pages").join(API), api())?;

    let place = fresh(root.join("target/book").join(version))?;
    let built = show(Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(&place))?;
    ensure!(matches!(built, Ending::Passed), "the pages cannot be built");
    let crates: Vec<&str> = CRATES.iter().flat_map(|name| ["-p", name]).collect();
    let doc = ["doc", "--no-deps", "--locked", "--target-dir", "target/book-api"];
    let built = show(&mut cargo(root, &[&doc[..], &crates].concat()))?;
    ensure!(matches!(built, Ending::Passed), "the crates cannot be documented");
    std::fs::rename(root.join("target/book-api/doc"), place.join("api"))?;
    println!("{}", place.join("index.html").display());
    Ok(Ending::Passed)
}

/// Makes the directory of the file at `path`.
fn made(path: PathBuf) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(path.parent().context("a file is in a directory")?)?;
    Ok(path)
}

/// Returns an empty directory at `path`.
fn fresh(path: PathBuf) -> anyhow::Result<PathBuf> {
    if path.exists() {
        std::fs::remove_dir_all(&path)?;
    }
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// Returns the name of a page in the book: a server shows `index.html` for its directory.
fn indexed(path: &str) -> String {
    path.replace("README.md", "index.md")
}

/// Returns a link to a page by its title.
fn link(titles: &BTreeMap<&str, String>, path: &str) -> String {
    let title = titles.get(path).map_or(path, String::as_str);
    format!("[{title}]({})", indexed(path))
}

/// Returns the table of contents in mdbook's format.
fn summary(
    files: &BTreeMap<String, String>,
    titles: &BTreeMap<&str, String>,
    readmes: &[String],
) -> String {
    let mut text = format!("# Contents\n\n{}\n", link(titles, "README.md"));
    for part in outline(files) {
        let _ = writeln!(text, "\n# {}\n", part.title);
        for Page { path, children } in part.pages {
            let _ = writeln!(text, "- {}", link(titles, path));
            for child in children {
                let _ = writeln!(text, "  - {}", link(titles, child));
            }
        }
    }
    let _ = writeln!(text, "\n# Crates\n\n- [Documentation of the crates]({API})");
    for readme in readmes {
        let _ = writeln!(text, "- {}", link(titles, readme));
    }
    text
}

/// Returns the page of links to the documentation of the crates.
fn api() -> String {
    let mut text = String::from("# Documentation of the crates\n\n");
    for name in CRATES {
        let _ = writeln!(text, "- [`{name}`](api/{}/index.html)", name.replace('-', "_"));
    }
    text
}
