//! Checks that the tests named in `run.sh` exist.

use std::fs;
use std::path::Path;

use berth_tests::peer::checkout;

/// The sources of all Rust files below a folder.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            all.push_str(&fs::read_to_string(&path).expect("a source"));
        }
    }
    all
}

/// Whether a word of the script is a part of a test's name: at least three words of lower case.
fn names_a_test(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.chars().all(is_plain) && word.matches('_').count() >= 2
}

#[test]
fn every_test_that_make_soak_names_exists() {
    let tests = checkout().join("tests");
    let script = fs::read_to_string(tests.join("soak/run.sh")).expect("the script");
    let sources = sources(&tests);
    let functions: Vec<&str> = sources
        .lines()
        .filter_map(|line| line.trim_start().split_once("fn ")?.1.split_once('('))
        .map(|(name, _)| name)
        .collect();
    let lines = script
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(|line| line.split([' ', '"', '\'', ':', ')', '(']));
    let named: Vec<&str> = words.filter(|word| names_a_test(word)).collect();
    assert!(named.len() > 10, "{named:?}");
    let is_unknown = |word: &&str| {
        let is_own = script.contains(&format!("\n{word}() {{"));
        !is_own && !functions.iter().any(|name| name.contains(word))
    };
    let unknown: Vec<_> = named.into_iter().filter(is_unknown).collect();
    assert!(unknown.is_empty(), "no test has these names: {unknown:?}");
}
