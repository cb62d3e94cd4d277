//! Files that are generated from tables in the code must equal the committed ones. `BLESS=1` writes them.

use std::fs;
use std::path::{Path, PathBuf};

use berth_cli::reference;
use berth_config::reference::{configuration_page, sample_file};
use berth_config::{ConfigDocument, resolve as resolve_documents};

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn same(path: &str, expected: &str) {
    let file = at(path);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "{path} is not what the code says: BLESS=1 cargo test -p berth-cli --test cli generated"
    );
}

#[test]
fn the_option_reference_is_the_option_table() {
    same(
        "docs/guide/reference/configuration.md",
        &configuration_page(),
    );
}

#[test]
fn the_page_of_flavors_and_images_is_the_table_of_hosts() {
    same(
        "docs/guide/reference/flavors-and-images.md",
        &reference::flavors_and_images_page(),
    );
}

#[test]
fn the_accelerator_policy_page_is_the_default_policy() {
    same(
        "docs/guide/reference/accelerator-policy.md",
        &reference::accelerator_policy_page(),
    );
}

#[test]
fn the_compute_policy_page_is_the_default_policy() {
    same(
        "docs/guide/reference/compute-policy.md",
        &reference::compute_policy_page(),
    );
}

#[test]
fn the_placement_policy_page_is_the_default_policy() {
    same(
        "docs/guide/reference/placement-policy.md",
        &reference::placement_policy_page(),
    );
}

#[test]
fn the_metrics_page_lists_the_metrics_of_agent_and_scheduler() {
    same(
        "docs/guide/reference/metrics.md",
        &reference::metrics_page(),
    );
}

#[test]
fn the_exit_code_page_is_the_exit_code_enum() {
    same(
        "docs/guide/reference/exit-codes.md",
        &reference::exit_codes_page(),
    );
}

#[test]
fn the_sample_file_is_the_option_table() {
    same("packaging/berth.toml.sample", &sample_file());
}

/// The file resolves to the defaults as it is, and resolves with every option of it uncommented.
fn changes_nothing_and_can_be_uncommented(text: &str) {
    let resolve = |text: String| {
        let name = "berth.toml".to_owned();
        resolve_documents(&[ConfigDocument { name, text }], &[])
    };
    let loaded = resolve(text.to_owned()).unwrap();
    assert_eq!(
        loaded.public(),
        resolve_documents(&[], &[]).unwrap().public()
    );
    assert!(loaded.effective.iter().all(|each| !each.is_set()));

    // A system scope contradicts a project, and the file with a secret the secret.
    let contradicts =
        |line: &str| line.contains("system_scope") || line.contains("/etc/berth/secrets/");
    let is_option =
        |line: &str| line.starts_with('#') && !line.starts_with("# ") && !contradicts(line);
    let uncommented: Vec<&str> = text
        .lines()
        .map(|line| if is_option(line) { &line[1..] } else { line })
        .collect();
    resolve(uncommented.join("\n")).unwrap();
}

#[test]
fn every_line_of_the_sample_file_can_be_uncommented() {
    changes_nothing_and_can_be_uncommented(&sample_file());
}

#[test]
fn every_line_of_the_installed_file_can_be_uncommented_and_it_is_short() {
    let text = fs::read_to_string(at("packaging/berth.toml")).unwrap();
    changes_nothing_and_can_be_uncommented(&text);
    assert!(text.lines().count() < 50);
}
