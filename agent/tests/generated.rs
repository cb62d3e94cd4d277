//! Compares the generated pages with the code. `BLESS=1 cargo test -p berth-agent --test generated` writes them.

use std::path::Path;

fn compare(page: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, expected).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{page} differs from the code: BLESS=1 cargo test -p berth-agent --test generated"
    );
}

#[test]
fn the_openapi_document_is_the_codes() {
    compare("docs/api/agent.json", &berth_agent_api::openapi::openapi());
}

#[test]
fn the_admin_api_page_is_the_codes() {
    compare(
        "docs/guide/reference/admin-api.md",
        &berth_agent_api::admin_page(),
    );
}
