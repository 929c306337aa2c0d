//! The list of packages that a binary contains, in the format `CycloneDX`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use super::release::{Machine, Release, output};
use crate::stage::cargo;

/// Writes the bill of materials of the binary for `machine`.
pub(super) fn write(release: &Release, machine: &Machine) -> anyhow::Result<()> {
    let filter = ["--filter-platform", machine.triple];
    let arguments = [&["metadata", "--locked", "--format-version", "1"][..], &filter].concat();
    let metadata: Value = serde_json::from_str(&output(&mut cargo(release.root, &arguments))?)?;
    let lock: toml::Table = fs::read_to_string(release.root.join("Cargo.lock"))?.parse()?;
    let when = format!("--date=@{}", release.time);
    let when = output(Command::new("date").args(["-u", &when, "+%Y-%m-%dT%H:%M:%SZ"]))?;
    let bill = bill(&metadata, &checksums(&lock), when.trim()).context("cargo metadata")?;
    let file = release.finished().join(format!("{}.cdx.json", release.archive(machine)));
    fs::write(file, serde_json::to_string_pretty(&bill)? + "\n")?;
    Ok(())
}

/// Returns the checksum of each locked package, by name and version.
fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let sums = packages.into_iter().flatten().filter_map(|package| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
    });
    sums.collect()
}

/// Returns the bill of everything that is linked into the package `convoy` of `metadata`: normal
/// dependencies, without build and test dependencies.
fn bill(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    when: &str,
) -> Option<Value> {
    let packages: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let edges: BTreeMap<&str, Vec<&str>> = metadata["resolve"]["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, linked(node)?)))
        .collect();
    let (&top, _) = packages.iter().find(|(_, package)| package["name"] == "convoy")?;
    let mut seen = BTreeSet::from([top]);
    let mut open = vec![top];
    while let Some(id) = open.pop() {
        open.extend(edges[id].iter().filter(|next| seen.insert(next)));
    }
    let component = |id: &str| {
        let package = packages[id];
        let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
        let mut component = json!({
            "type": "library",
            "bom-ref": format!("{name}@{version}"),
            "name": name,
            "version": version,
        });
        if let Some(licence) = package["license"].as_str() {
            // Before SPDX, a slash meant "or".
            let licence = licence.replace('/', " OR ");
            component["licenses"] = json!([{"expression": licence}]);
        }
        if let Some(sum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        Some(component)
    };
    let mut main = component(top)?;
    main["type"] = json!("application");
    let components: Vec<Value> =
        seen.iter().filter(|id| **id != top).filter_map(|id| component(id)).collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": when, "component": main},
        "components": components,
    }))
}

/// Returns the packages that `node` of the resolution links: dependencies of the kind `null`.
fn linked(node: &Value) -> Option<Vec<&str>> {
    let normal = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    node["deps"].as_array()?.iter().filter(normal).map(|found| found["pkg"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_packages_are_listed_and_tools_of_the_build_are_not() {
        fn package(id: &str, licence: &str) -> Value {
            let mut package = json!({"id": id, "name": id, "version": "1.0.0"});
            package["license"] = licence.into();
            package
        }
        let dependency = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let node = |id: &str, deps: Vec<Value>| json!({"id": id, "deps": deps});
        let of_convoy = vec![dependency("a", Value::Null), dependency("tool", json!("build"))];
        let packages = [("convoy", "MIT"), ("a", "MIT/Apache-2.0"), ("b", "MIT"), ("tool", "MIT")];
        let metadata = json!({
            "packages": packages.map(|(id, licence)| package(id, licence)),
            "resolve": {"nodes": [
                node("convoy", of_convoy),
                node("a", vec![dependency("b", Value::Null)]),
                node("b", vec![]),
                node("tool", vec![]),
            ]},
        });
        let sums = BTreeMap::from([(("a".to_owned(), "1.0.0".to_owned()), "ff".to_owned())]);
        let bill = bill(&metadata, &sums, "1970-01-01T00:00:00Z").unwrap();
        let names: Vec<&Value> =
            bill["components"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(bill["metadata"]["component"]["name"], "convoy");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ff");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
