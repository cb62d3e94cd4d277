//! The syntax and the values against real oslo.config, with files that are made up from a fixed seed. `make peers` installs it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_import::{ConfFile, NovaConf, NovaOption, NovaOptions, ReferenceFault, parse, value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value as Json, json};

/// An option of each type, with former names, in groups whose names differ in case.
const OPTIONS: &str = "DEFAULT\thost\ttext\t-\t-\tnode\n\
    DEFAULT\tdir\ttext\t-\t-\t/var/$host\n\
    DEFAULT\tn\twhole\t-\tDEFAULT/old_n\t-\n\
    DEFAULT\tf\tflag\t-\t-\t-\n\
    g\thost\ttext\t-\tDEFAULT/g_host g/former\t-\n\
    g\tl\tlist\t-\t-\t-\n\
    g\tm\ttext\tm\tDEFAULT/g_m old/m\t-\n\
    g\td\tdict\t-\t-\t-\n\
    G2\tr\tdecimal\t-\tg/r\t-\n\
    G2\ts\ttext\ts\t-\t-\n";

const KEYS: [&str; 14] = [
    "host", "dir", "n", "old_n", "old-n", "f", "g_host", "g-host", "g_m", "former", "l", "m", "d",
    "r",
];
const GROUPS: [&str; 8] = ["DEFAULT", "default", "g", "G", "G2", "g2", "old", "other"];
const REFERENCES: [&str; 16] = [
    "$host",
    "${host}",
    "$dir",
    "${g.host}",
    "$g.host",
    "${G2.s}",
    "$n",
    "$f",
    "$$host",
    "\\$host",
    "$",
    "$5",
    "${",
    "${host",
    "$nothing",
    "$g.l",
];

fn text() -> impl Strategy<Value = String> {
    let plain = "[a-z0-9 :=,.'\"#;\\[\\]-]{0,12}";
    let value = prop_oneof![
        6 => plain.prop_map(String::from),
        2 => (plain, prop::sample::select(&REFERENCES), plain).prop_map(|(a, b, c)| format!("{a}{b}{c}")),
        2 => prop::sample::select(&["true", "Off", "1", "-07", "1_0", "0.5", " 1e2 ", "a:b, c:d:e", "a,b ,,c,", "", "'", "\"x\"", "\"x", "'x\""])
            .prop_map(String::from),
    ];
    let assignment = (
        prop::sample::select(&KEYS),
        prop::sample::select(&[" = ", "=", ": ", ":", " \t= "]),
        value,
    );
    let line = prop_oneof![
        16 => assignment.prop_map(|(key, sign, value)| format!("{key}{sign}{value}")),
        6 => prop::sample::select(&GROUPS).prop_map(|group| format!("[{group}]")),
        3 => "[ \t]{1,3}[a-z,:#;$ ]{0,8}".prop_map(String::from),
        1 => prop::sample::select(&["", "# c", "; c", "#"]).prop_map(String::from),
    ];
    let wrong = prop::sample::select(&["word", "[g", "[]", "[g] x", "= 1", ":", "  in"]);
    let line = prop_oneof![60 => line, 1 => wrong.prop_map(String::from)];
    let end = prop::sample::select(&["\n", "\n", "\n", "\r\n"]);
    vec((line, end), 0..14).prop_map(|lines| {
        let lines = lines.into_iter();
        let lines = lines.map(|(line, end)| format!("{line}{end}"));
        format!("[DEFAULT]\n{}", lines.collect::<String>())
    })
}

/// The cases: one or two files each.
fn cases() -> Vec<Vec<String>> {
    let mut runner = TestRunner::deterministic();
    let files = vec(text(), 1..3);
    let cases = std::iter::repeat_with(|| {
        let tree = files.new_tree(&mut runner).expect("it can be made");
        tree.current()
    });
    cases.take(1500).collect()
}

fn python() -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder =
        env::var_os("BERTH_PEERS").map_or_else(|| checkout.join("target/peers"), PathBuf::from);
    folder.join("venv/bin/python")
}

fn ask_oslo(cases: &[Vec<String>]) -> Vec<Json> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("cases.json");
    let lines: Vec<&str> = OPTIONS.lines().collect();
    let asked = json!({ "options": lines, "cases": cases });
    fs::write(&file, asked.to_string()).expect("the folder is new");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oslo_values.py");
    let mut command = Command::new(python());
    let output = command.arg(script).arg(&file).output();
    let output = output.expect("oslo.config is installed by `make peers`");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("the script writes JSON")
}

/// What Berth reads, in the words of the script; `None` where the import refuses by intent what oslo.config takes.
fn ours(conf: &NovaConf<'_>, option: &NovaOption) -> Option<Json> {
    let texts = match conf.texts(option) {
        Ok(Some(texts)) => texts,
        // The import does not read a default with a reference: it takes over only options that are set.
        Ok(None) if option.default.as_ref().is_some_and(|it| it.contains('$')) => return None,
        Ok(None) => return Some(json!(["unset"])),
        // Only Nova knows other defaults than texts, and no value is a list in Python's spelling.
        Err(ReferenceFault::NoValue(_) | ReferenceFault::NoText(_)) => return None,
        Err(_) => return Some(json!(["error"])),
    };
    let values = texts.iter().map(|text| value(option.kind, text));
    Some(match values.collect::<Result<Vec<Json>, _>>() {
        Ok(values) if option.multi => json!(["set", values]),
        Ok(mut values) => json!(["set", values.pop()]),
        Err(_) => json!(["error"]),
    })
}

#[test]
fn made_up_files_mean_what_oslo_config_reads() {
    let options = NovaOptions::of_text(OPTIONS);
    let cases = cases();
    let answers = ask_oslo(&cases);
    assert_eq!(answers.len(), cases.len());
    let mut seen = [0; 4];
    for (texts, theirs) in cases.iter().zip(&answers) {
        let files = texts.iter().map(|text| parse("x", text.as_bytes()));
        let Ok(files) = files.collect::<Result<Vec<ConfFile>, _>>() else {
            assert!(theirs.is_null(), "oslo.config takes {texts:#?}");
            seen[0] += 1;
            continue;
        };
        assert!(!theirs.is_null(), "oslo.config refuses {texts:#?}");
        let conf = NovaConf::new(&files, &options);
        for (option, theirs) in options.iter().zip(theirs.as_array().expect("a list")) {
            let Some(ours) = ours(&conf, option) else {
                continue;
            };
            let title = option.title();
            assert_eq!(&ours, theirs, "{title} in {texts:#?}");
            seen[match ours[0].as_str() {
                Some("set") => 1,
                Some("error") => 2,
                _ => 3,
            }] += 1;
        }
    }
    // Refused files, values, errors and unset options: each is seen often enough to mean something.
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}
