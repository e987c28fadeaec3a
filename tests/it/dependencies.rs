//! Dependencies: their licences and their sources.

use serde_json::Value;
use spdx::Expression;

use test_support::cluster::cargo_metadata;

/// Every package of this machine's build, tests included.
fn packages() -> Vec<Value> {
    let metadata = cargo_metadata().unwrap();
    assert!(metadata.status.success(), "{metadata:?}");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().clone();
    assert!(packages.len() > 100, "only {} packages", packages.len());
    packages
}

#[test]
fn every_dependency_has_a_licence_and_a_source_that_are_allowed() {
    let rules: toml::Table = include_str!("../../deny.toml").parse().unwrap();
    let list = |section: &str, key: &str| -> Vec<String> {
        rules[section][key].clone().try_into().unwrap()
    };
    let (licences, sources) = (list("licenses", "allow"), list("sources", "allow-registry"));
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        // Expressions of some years ago have a slash for OR.
        let licence = package["license"].as_str().unwrap_or_default().replace('/', " OR ");
        let expression =
            Expression::parse(&licence).unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_allowed =
            expression.evaluate(|requirement| licences.contains(&requirement.to_string()));
        assert!(is_allowed, "{name}: deny.toml does not allow {licence}");
        let is_known = match package["source"].as_str() {
            None => name.starts_with(env!("CARGO_PKG_NAME")) || name == "test-support",
            Some(source) => sources.iter().any(|registry| source == format!("registry+{registry}")),
        };
        assert!(is_known, "{name}: deny.toml does not allow {}", package["source"]);
    }
}
