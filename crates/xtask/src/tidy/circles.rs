//! Files of a crate that import each other in a circle.
//!
//! An edge leads from a file to the file that defines a name it uses. Re-exports are followed, and
//! do not count themselves; neither do declarations of modules, or items under `#[cfg(test)]`.
//! Calls of methods are not seen, because they name no file.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Findings;
use super::names::Names;
use super::source::Sources;

/// Edges that a finding lists.
const EDGES: usize = 12;
/// Imports that are followed from one name. A name that imports itself, such as `c` of another
/// crate `c`, would be followed without end.
const HOPS: u32 = 16;

/// The file modules of one crate by their paths, such as `["sched", "rules"]`.
type Modules<'a> = BTreeMap<Vec<String>, Module<'a>>;
/// For each file, the files that define names it uses, each with one of the names.
type Edges<'a> = BTreeMap<&'a str, BTreeMap<&'a str, String>>;

struct Module<'a> {
    file: &'a str,
    names: Names,
}

/// Reports crates in which files import each other in a circle.
pub(crate) fn check(findings: &mut Findings, sources: &Sources) {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for (&file, source) in sources {
        if let Some((name, module)) = place(file) {
            let names = Names::new(source);
            crates.entry(name).or_default().insert(module, Module { file, names });
        }
    }
    findings.begin("crates");
    for (name, modules) in &crates {
        let circle = circle(&edges(modules));
        if !circle.is_empty() {
            let imports: Vec<String> = circle.into_iter().take(EDGES).collect();
            let cure = format!("files of {name} import each other: {}", imports.join(", "));
            findings.add(0, "circle", cure);
        }
    }
}

/// Returns the imports in and between circles.
fn circle(edges: &Edges) -> Vec<String> {
    let mut files: BTreeSet<&str> = edges.keys().copied().collect();
    loop {
        let inner: BTreeSet<&str> = files
            .iter()
            .filter(|file| edges[*file].keys().any(|to| files.contains(to)))
            .filter(|file| files.iter().any(|from| edges[from].contains_key(*file)))
            .copied()
            .collect();
        if inner.len() == files.len() {
            break;
        }
        files = inner;
    }
    let imports =
        files.iter().flat_map(|from| edges[from].iter().map(move |(to, it)| (from, to, it)));
    let inside = imports.filter(|(_, to, _)| files.contains(*to));
    inside.map(|(from, to, name)| format!("{from} -> {to} ({name})")).collect()
}

/// Returns the crate and the module path of a file below `crates/*/src`; `None` for other files.
fn place(path: &str) -> Option<(&str, Vec<String>)> {
    let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let module = file.strip_suffix(".rs")?;
    let mut module: Vec<String> = module.split('/').map(str::to_owned).collect();
    let top = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
    if top || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    Some((name, module))
}

fn child(module: &[String], name: &str) -> Vec<String> {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

fn edges<'a>(modules: &Modules<'a>) -> Edges<'a> {
    let mut edges = Edges::new();
    for (path, module) in modules {
        let targets = edges.entry(module.file).or_default();
        let imports = module.names.uses.iter().filter(|import| import.counts());
        let paths = imports.map(|import| &import.path).chain(&module.names.paths);
        for used in paths {
            let target = resolve(modules, path, used, HOPS).filter(|file| *file != module.file);
            if let Some(file) = target {
                targets.entry(file).or_insert_with(|| used.last().cloned().unwrap_or_default());
            }
        }
    }
    edges
}

/// Returns the file that defines the name at the end of `path`, as seen from `module`; `None` if
/// the path leads to a module or into another crate.
fn resolve<'a>(
    modules: &Modules<'a>,
    module: &[String],
    path: &[String],
    hops: u32,
) -> Option<&'a str> {
    let hops = hops.checked_sub(1)?;
    let mut place = module.to_vec();
    for (index, name) in path.iter().enumerate() {
        let is_last = index + 1 == path.len();
        match name.as_str() {
            "crate" | "$crate" => place.clear(),
            "self" => {}
            "super" => drop(place.pop()),
            "*" => return modules.get(&place).map(|module| module.file),
            name => {
                let inner = child(&place, name);
                let definition =
                    modules.get(&place).filter(|module| module.names.items.contains(name));
                if modules.contains_key(&inner) && !(is_last && definition.is_some()) {
                    place = inner;
                } else if let Some(module) = definition {
                    return Some(module.file);
                } else {
                    return imported(modules, &place, &path[index..], hops);
                }
            }
        }
    }
    None
}

/// Follows the first name of `path` through the imports of `module`.
fn imported<'a>(
    modules: &Modules<'a>,
    module: &[String],
    path: &[String],
    hops: u32,
) -> Option<&'a str> {
    let uses = &modules.get(module)?.names.uses;
    if let Some(import) = uses.iter().find(|import| import.name == path[0]) {
        let whole: Vec<String> = import.path.iter().chain(&path[1..]).cloned().collect();
        return resolve(modules, module, &whole, hops);
    }
    let mut globs = uses.iter().filter(|import| import.name == "*");
    globs.find_map(|import| {
        let inside = import.path[..import.path.len() - 1].iter().chain(path).cloned();
        resolve(modules, module, &inside.collect::<Vec<_>>(), hops)
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::sources;
    use super::*;

    fn cures(texts: &[(&str, &str)]) -> Vec<String> {
        let files =
            texts.iter().map(|(path, text)| (format!("crates/a/src/{path}"), (*text).into()));
        let files = files.collect();
        Findings::cures(|findings| check(findings, &sources(&files)))
    }

    const B: (&str, &str) = ("b.rs", "use crate::c::{One, Two as Other};\npub struct Three;\n");

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let c = ("c.rs", "pub struct One;\npub enum Two {}\nfn f(_: super::b::Three) {}\n");
        let cure = "files of a import each other: crates/a/src/b.rs -> crates/a/src/c.rs (One), \
                    crates/a/src/c.rs -> crates/a/src/b.rs (Three)";
        let user = ("d.rs", "use crate::c::One;\n");
        assert_eq!(cures(&[B, c, user]), [cure]);
    }

    #[test]
    fn one_direction_is_no_circle() {
        assert_eq!(cures(&[B, ("c.rs", "pub struct One;\npub struct Two;\n")]), [""; 0]);
    }

    #[test]
    fn tests_are_left_out() {
        let test = "#[cfg(test)]\nmod tests {\n    use crate::b::Three;\n}\n";
        let c = format!("pub struct One;\n{test}");
        assert_eq!(cures(&[B, ("c.rs", &c)]), [""; 0]);
        let c = ("c.rs", "pub struct One;\n#[cfg(test)]\nmod tests;\n");
        let tests = ("c/tests.rs", "use super::One;\nuse crate::b::Three;\npub fn f() {}\n");
        assert_eq!(cures(&[B, c, tests]), [""; 0]);
    }

    #[test]
    fn re_exports_lead_to_the_definition() {
        let lib = ("lib.rs", "mod b;\nmod d;\npub use d::deep::*;\n");
        let b = ("b.rs", "use crate::Deep;\npub struct Three;\n");
        let deep = ("d/deep.rs", "use crate::b;\npub struct Deep(b::Three);\n");
        assert_eq!(cures(&[lib, b, ("d/mod.rs", "pub mod deep;\n"), deep]).len(), 1);
        let deep = ("d/deep.rs", "use crate::b;\npub struct Deep;\n");
        assert_eq!(cures(&[lib, b, ("d/mod.rs", "pub mod deep;\n"), deep]), [""; 0]);
    }

    #[test]
    fn a_module_may_re_export_children_that_use_it_but_not_call_them() {
        let child = ("d/deep.rs", "use super::Top;\npub struct Deep(Top);\n");
        let top = "mod deep;\npub use deep::Deep;\npub struct Top;\n";
        assert_eq!(cures(&[("d/mod.rs", top), child]), [""; 0]);
        let top = "mod deep;\npub use deep::Deep;\npub struct Top(Deep);\n";
        assert_eq!(cures(&[("d/mod.rs", top), child]).len(), 1);
    }

    #[test]
    fn names_of_other_crates_lead_nowhere() {
        let b = ("b.rs", "use c::c;\nuse std::fmt;\nfn f() { fmt::b(); }\n");
        assert_eq!(cures(&[b, ("c.rs", "fn c() {}\n")]), [""; 0]);
    }
}
