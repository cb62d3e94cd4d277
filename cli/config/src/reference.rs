//! Generates the option reference and the commented sample file from the option table.
//!
//! A test compares the committed files with the generated texts; `BLESS=1 cargo test -p berth-cli --test cli generated`
//! writes the files.

use std::fmt::Write as _;

use berth_options::{Json, OptionRow};

use super::pattern;
use super::table::{OPTIONS, SECTIONS};

/// The text of `docs/guide/reference/configuration.md`.
#[must_use]
pub fn configuration_page() -> String {
    let mut page = String::from(
        "# Configuration reference\n\n\
         Written from the option table; do not edit.\n\n\
         `berth` reads `/etc/berth/berth.toml`, then `/etc/berth/berth.d/*.toml` in the order of their names, then the\n\
         environment; the last value wins. `--config FILE` reads that file alone, `--config-dir DIRECTORY` adds the\n\
         `*.toml` of a directory. Names and defaults are OpenStack's if OpenStack has the option.\n\n\
         An unknown key is an error. `berth config check` names every error at once, and `berth config show --origin` says\n\
         where each value comes from. *Live* options take effect at a reload (`systemctl reload berth-agent`), the others\n\
         at a restart; `berth config diff` shows which.\n\n\
         A variable is `BERTH__KEY` or `BERTH__SECTION__KEY`; lists are separated by commas. `BERTH_DATABASE_URL` sets\n\
         `connection` in `[placement_service]`.\n\n\
         Each secret option `KEY` can be set by a file: `KEY_file = PATH`, or a credential `SECTION.KEY` of the unit\n\
         (`LoadCredential=placement.password:/etc/berth/secrets/placement`). Every command that runs as root, or as a system\n\
         account, refuses a configuration file, a program or a file that decides rights if other users can change it.\n",
    );
    for (section, help) in SECTIONS.iter() {
        let title = if section.is_empty() {
            "Top level".to_owned()
        } else {
            format!("`[{section}]`")
        };
        let _ = write!(page, "\n## {title}\n\n{help}\n\n");
        page.push_str("| option | value | default | changed | what it does |\n| --- | --- | --- | --- | --- |\n");
        for row in OPTIONS.iter().filter(|row| row.section == *section) {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} |",
                row.key,
                row.kind.documented(),
                documented_default(row),
                row.effect.label(),
                row.help
            );
        }
    }
    page
}

fn documented_default(row: &OptionRow) -> String {
    match (row.default_value(), row.derived) {
        (Some(value), _) => format!("`{}`", toml(&value)),
        (None, "") => "none".to_owned(),
        (None, from) => from.to_owned(),
    }
}

/// A default as TOML.
fn toml(value: &Json) -> String {
    match value {
        Json::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(toml).collect();
            format!("[{}]", elements.join(", "))
        }
        other => other.to_string(),
    }
}

/// `key = value` with the default or an example: a line of the sample file.
#[must_use]
pub fn example_line(row: &OptionRow) -> String {
    match (row.default_value(), row.example) {
        (Some(value), _) => format!("{} = {}", row.key, toml(&value)),
        (None, "") => format!("{} = \"VALUE\"", row.key),
        (None, example) => format!("{} = {example}", row.key),
    }
}

/// `packaging/berth.toml.sample`: every option, commented out, with its default or an example.
#[must_use]
pub fn sample_file() -> String {
    let mut file = String::from(
        "# A sample of /etc/berth/berth.toml. Every option is here, commented out, with its default; where there is none,\n\
         # with an example. Files in /etc/berth/berth.d/*.toml are read after this one, the environment (BERTH__SECTION__KEY) last.\n\
         # Check with: berth config check\n",
    );
    for (section, help) in SECTIONS.iter() {
        file.push('\n');
        comment(&mut file, help);
        if !section.is_empty() {
            let _ = match pattern::named(section) {
                Some(pattern) => writeln!(file, "#[{}]", pattern.example),
                None => writeln!(file, "[{section}]"),
            };
        }
        for row in OPTIONS.iter().filter(|row| row.section == *section) {
            file.push('\n');
            comment(&mut file, row.help);
            if row.default_value().is_none() {
                comment(
                    &mut file,
                    &format!("No fixed default: {}.", documented_default(row)),
                );
            }
            let _ = writeln!(file, "#{}", example_line(row));
        }
    }
    file
}

/// Wraps a text at 100 columns as `# ` lines.
fn comment(file: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 100 {
            let _ = writeln!(file, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(file, "{line}");
}
