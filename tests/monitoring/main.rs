//! The queries about devices in the guide, and the alert rules, as promtool reads them.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// `BERTH_PROMTOOL`, or the installed promtool. It is not among the peers, because its package starts a Prometheus.
fn promtool() -> Option<Command> {
    if let Some(program) = env::var_os("BERTH_PROMTOOL") {
        return Some(Command::new(program));
    }
    let found = Command::new("promtool").arg("--version").output();
    found.is_ok().then(|| Command::new("promtool"))
}

#[test]
fn each_query_about_devices_in_the_guide_has_a_case_which_promtool_passes_where_it_is_installed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cases = root.join("tests/monitoring/queries.yml");
    let text = fs::read_to_string(&cases).unwrap();
    let page = fs::read_to_string(root.join("docs/guide/howto/monitoring.md")).unwrap();
    let (_, section) = page.split_once("\n## Queries about devices\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_suffix("` |"));
    let queries = rows.filter_map(|row| Some(row.rsplit_once("| `")?.1));
    let mut found = 0;
    for query in queries {
        assert!(text.contains(&format!("expr: '{query}'\n")), "{query}");
        found += 1;
    }
    assert_eq!(text.matches("- expr: ").count(), found);
    let Some(mut promtool) = promtool() else {
        return;
    };
    let tested = promtool.args(["test", "rules"]).arg(&cases).output();
    let tested = tested.expect("promtool runs");
    let printed = String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{printed}");
}
