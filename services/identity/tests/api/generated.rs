//! `docs/api/identity.json` matches the code. `BLESS=1 cargo test -p berth-identity --test api generated` writes it.

use std::path::Path;

#[test]
fn the_openapi_document_is_the_codes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/identity.json");
    let expected = berth_identity::openapi();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/api/identity.json differs from the code: BLESS=1 cargo test -p berth-identity --test api generated"
    );
}
