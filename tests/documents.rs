//! Checks of the documents: links have targets, the files and tests that the spec notes name exist, and OpenAPI documents are
//! complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("this package is a folder of the workspace")
        .to_owned()
}

fn files_below(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files_below(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

#[test]
fn every_link_between_pages_leads_to_a_file() {
    let root = root();
    let mut pages = Vec::new();
    files_below(&root, ".md", &mut pages);
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let target = link.split('#').next().unwrap_or_default();
            let outside = target.contains("://") || target.is_empty();
            if !outside && !page.parent().unwrap().join(target).exists() {
                broken.push(format!(
                    "{} -> {link}",
                    page.strip_prefix(&root).unwrap().display()
                ));
            }
        }
    }
    assert!(pages.len() > 10, "only {} pages found", pages.len());
    assert!(
        broken.is_empty(),
        "links that lead nowhere:\n{}",
        broken.join("\n")
    );
}

#[test]
fn links_work_in_the_package_too() {
    let folder = tempfile::tempdir().unwrap();
    let staged = Command::new(root().join("packaging/scripts/deb.sh"))
        .arg("--documentation")
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&staged.stderr);
    assert!(staged.status.success(), "{said}");
    assert!(folder.path().join("guide/README.md").exists());
}

#[test]
fn every_file_and_test_that_the_spec_notes_name_exists() {
    let root = root();
    let mut sources = Vec::new();
    files_below(&root, ".rs", &mut sources);
    let code: String = sources
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect::<Vec<_>>()
        .join("\n");
    let mut notes = vec![root.join("docs/guide/reference/messages.md")];
    files_below(&root.join("docs/spec-notes"), ".md", &mut notes);
    let mut missing = Vec::new();
    for note in &notes {
        let text = fs::read_to_string(note).unwrap();
        for row in text.lines().filter(|line| line.starts_with('|')) {
            for word in row.split('`').skip(1).step_by(2) {
                let is_path = word.contains('/') && !word.contains(' ');
                let is_test = word.contains('_')
                    && word
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
                let found = if is_path {
                    root.join(word).exists()
                } else {
                    !is_test || code.contains(&format!("fn {word}("))
                };
                if !found {
                    missing.push(format!(
                        "{}: {word}",
                        note.strip_prefix(&root).unwrap().display()
                    ));
                }
            }
        }
    }
    assert!(!notes.is_empty());
    assert!(
        missing.is_empty(),
        "named but not there:\n{}",
        missing.join("\n")
    );
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_openapi_document_has_what_it_refers_to_and_services_name_each_operation_once() {
    let mut paths = Vec::new();
    files_below(&root().join("docs/api"), ".json", &mut paths);
    assert!(paths.len() >= 4, "{paths:?}");
    for path in &paths {
        let document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 30, "{path:?}: {found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{path:?}: {reference}");
        }
        // The agent's operations have no ids.
        if path.ends_with("agent.json") {
            continue;
        }
        let mut ids = BTreeSet::new();
        for (route, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let at = format!("{path:?}: {method} {route}");
                let text = |key: &str| operation[key].as_str().unwrap_or_default();
                assert!(!text("summary").is_empty(), "{at}");
                let id = text("operationId");
                assert!(!id.is_empty() && ids.insert(id), "{at}: {id:?}");
                let responses = operation["responses"].as_object().unwrap();
                let is_described = responses.keys().any(|status| status.as_str() < "4");
                assert!(is_described, "{at}");
            }
        }
    }
}
