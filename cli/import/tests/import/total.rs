//! Any bytes end in a result, and what is written is TOML.

use std::path::Path;

use berth_import::{NovaOptions, berth_toml, parse};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::imported;

/// Lines that look like a nova.conf, with every character that has a meaning.
fn lines() -> impl Strategy<Value = String> {
    let options: Vec<(String, String)> = NovaOptions::nova_34()
        .iter()
        .map(|it| (it.group.to_string(), it.name.to_string()))
        .collect();
    let value = "[ \\t]{0,2}[a-z0-9'\"$\\{\\}.,:=\\[\\]#;\\\\\u{e9}\u{7f}\u{2028}-]{0,24}";
    let line = prop_oneof![
        (0..options.len(), value).prop_map(move |(index, value)| {
            let (group, name) = &options[index];
            format!("[{group}]\n{name} = {value}\n")
        }),
        "[a-z$]{1,9}[=:]\\$(my_ip|host|\\{state_path\\}|\\{pci\\.alias\\})\n",
        "( |\t)[a-z#;$\\[]{0,9}\n",
        Just("\n".to_owned()),
    ];
    vec(line, 0..40).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_read_or_refused(content in vec(any::<u8>(), 0..400)) {
        if let Ok(file) = parse("x", &content) {
            let _ = imported(&[file], Path::new("/s")).report.to_string();
        }
    }

    #[test]
    fn whatever_is_written_is_toml(text in lines()) {
        if let Ok(file) = parse("x\n[y]", text.as_bytes()) {
            let imported = imported(&[file], Path::new("/s"));
            let written = berth_toml(&imported);
            let read: Result<toml::Table, _> = toml::from_str(&written);
            prop_assert!(read.is_ok(), "{written}");
            let live = written.split("# This release").next().unwrap_or_default();
            prop_assert_eq!(live.matches("\n# x").count(), imported.options.len());
        }
    }
}
