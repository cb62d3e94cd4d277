//! What the tests of this crate share.

use std::path::Path;

use berth_import::{ConfFile, ImportRequest, ImportedConfig, import};
use serde_json::Value as Json;

/// Checks a value by Berth's own option.
pub(crate) fn check(section: &str, key: &str, value: &Json) -> Result<(), String> {
    let row = berth_config::table::find(section, key).ok_or("there is no such option")?;
    let checked = row.kind.check(value);
    checked
        .map(drop)
        .map_err(|error| format!("{}; {}", error.wrong, error.right))
}

/// Imports files with secrets in `secrets`.
pub(crate) fn imported(files: &[ConfFile], secrets: &Path) -> ImportedConfig {
    import(&ImportRequest {
        files,
        secrets,
        check: &check,
    })
}
