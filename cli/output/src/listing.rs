//! How every list is printed: `-f table|json|yaml|csv|value`, `-c COLUMN`, `--no-header`.
//!
//! One type for all commands, so that scripts learn it once. JSON is `{"api": "berth/1", "items": [...]}` and is a
//! promise; tables are for people. YAML is written here: a list is flat, every JSON scalar or flow value is a YAML
//! value, so thirty lines do and no dependency is needed.

use std::io::{self, Write};

use berth_model::printable;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value};

use crate::error_code::ErrorCode;
use crate::failure::Failure;

/// The version of every JSON and YAML document berth prints.
pub const API: &str = "berth/1";

/// The output options of a command that prints a list.
#[derive(Debug, Clone, clap::Args)]
pub struct ListFormat {
    /// The output format of the list.
    #[arg(short = 'f', long = "format", value_enum, default_value_t = FormatKind::Table, help_heading = "Output")]
    pub format: FormatKind,
    /// Print only this column; repeat it for several columns, in the order wanted.
    #[arg(
        short = 'c',
        long = "column",
        value_name = "COLUMN",
        help_heading = "Output"
    )]
    pub columns: Vec<String>,
    /// Leave out the heading of tables and CSV.
    #[arg(long, help_heading = "Output")]
    pub no_header: bool,
    /// Print all columns of a table, even if they do not fit the terminal.
    #[arg(long, help_heading = "Output")]
    pub wide: bool,
}

impl Default for ListFormat {
    fn default() -> Self {
        Self {
            format: FormatKind::Table,
            columns: Vec::new(),
            no_header: false,
            wide: false,
        }
    }
}

impl ListFormat {
    /// Whether no option for scripts was given, so that a sentence may be printed instead of a list.
    #[must_use]
    pub fn is_for_people(&self) -> bool {
        self.format == FormatKind::Table && self.columns.is_empty()
    }
}

/// The formats a list can be printed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatKind {
    /// A table for people to read.
    Table,
    /// `{"api": "berth/1", "items": [...]}`.
    Json,
    /// The JSON document as YAML.
    Yaml,
    /// RFC 4180, with a heading.
    Csv,
    /// The bare values, separated by a space.
    Value,
}

/// A list ready to be printed: named columns, and rows of as many cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    columns: Vec<&'static str>,
    rows: Vec<Vec<Value>>,
    /// Printed for people instead of a table without rows.
    empty: Option<&'static str>,
}

impl Listing {
    /// An empty list. Column names are lower case with `_`, as in JSON; headings are made from them.
    #[must_use]
    pub fn new(columns: &[&'static str]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
            empty: None,
        }
    }

    /// Says this to people if the list is empty.
    #[must_use]
    pub fn or_say(mut self, text: &'static str) -> Self {
        self.empty = Some(text);
        self
    }

    /// Adds a row. Cells beyond the columns are dropped, missing ones are null.
    pub fn push<const N: usize>(&mut self, row: [Value; N]) {
        let mut row = row.to_vec();
        row.resize(self.columns.len(), Value::Null);
        self.rows.push(row);
    }

    /// Prints the list in the chosen format.
    ///
    /// Errors: usage if a requested column does not exist; an output error if it cannot be written.
    pub fn print(&self, format: &ListFormat, out: &mut dyn Write) -> Result<(), Failure> {
        let chosen = self.choose(&format.columns)?;
        match format.format {
            FormatKind::Table if chosen.rows.is_empty() && self.empty.is_some() => {
                writeln!(out, "{}", self.empty.unwrap_or_default())?;
            }
            FormatKind::Table => {
                let width = match format.wide || !format.columns.is_empty() {
                    true => None,
                    false => terminal_width(),
                };
                write_fitting(chosen, width, format.no_header, out)?;
            }
            FormatKind::Json => write_json(&chosen, out)?,
            FormatKind::Yaml => write_yaml(&chosen, out)?,
            FormatKind::Csv => write_csv(&chosen, format.no_header, out)?,
            FormatKind::Value => write_value(&chosen, out)?,
        }
        Ok(())
    }

    fn choose(&self, wanted: &[String]) -> Result<Listing, Failure> {
        if wanted.is_empty() {
            return Ok(self.clone());
        }
        let places = wanted
            .iter()
            .map(|name| self.place(name))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Listing {
            empty: self.empty,
            columns: places.iter().map(|&place| self.columns[place]).collect(),
            rows: self
                .rows
                .iter()
                .map(|row| places.iter().map(|&place| row[place].clone()).collect())
                .collect(),
        })
    }

    /// Finds a column by its JSON name or its heading, whatever the case.
    fn place(&self, wanted: &str) -> Result<usize, Failure> {
        let plain = wanted.to_lowercase().replace([' ', '-'], "_");
        self.columns
            .iter()
            .position(|column| *column == plain)
            .ok_or_else(|| {
                Failure::new(
                    ErrorCode::Usage,
                    format!(
                        "no column {wanted:?}; this list has {}",
                        self.columns.join(", ")
                    ),
                )
            })
    }
}

/// `allocation_ratio` as a heading: `Allocation ratio`.
fn heading(column: &str) -> String {
    let mut letters = column.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string())
        .unwrap_or_default();
    first + &letters.as_str().replace('_', " ")
}

/// A cell as a table, `value` and CSV show it: strings without quotes on one printable line, null as an empty text,
/// the rest as JSON.
fn bare(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => printable(text).into_owned(),
        other => other.to_string(),
    }
}

/// The width of the terminal; `None` if standard output is none.
fn terminal_width() -> Option<usize> {
    Table::new().width().map(usize::from)
}

/// A column with cells up to this width is left out, not cut, because people copy names and UUIDs from it.
const NEVER_CUT: usize = 36;
/// The least width of a cut column.
const LEAST: usize = 16;

/// Writes a table that is at most `width` wide: a long text is cut, and columns at the right that do not fit are left out
/// and named below.
fn write_fitting(
    mut listing: Listing,
    width: Option<usize>,
    no_header: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(width) = width else {
        return write_table(&listing, no_header, out);
    };
    let natural = |column: usize| {
        let cells = listing.rows.iter().map(|row| bare(&row[column]));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(heading(listing.columns[column]).chars().count())
    };
    // Each column has a border and a blank at both sides; the table has one border more.
    let (mut left, mut widths) = (width.saturating_sub(1), Vec::new());
    for column in 0..listing.columns.len() {
        let room = left.saturating_sub(3);
        let wanted = natural(column);
        let given = match wanted <= room {
            true => wanted,
            false if wanted > NEVER_CUT && room >= LEAST => room,
            // The first column is shown in any case.
            false if column == 0 => wanted,
            false => break,
        };
        widths.push(given);
        left = left.saturating_sub(given + 3);
    }
    let hidden = listing.columns.split_off(widths.len());
    for row in &mut listing.rows {
        row.truncate(widths.len());
        for (cell, width) in row.iter_mut().zip(&widths) {
            let text = bare(cell);
            if text.chars().count() > *width {
                let start: String = text.chars().take(width.saturating_sub(1)).collect();
                *cell = Value::from(start + "…");
            }
        }
    }
    write_table(&listing, no_header, out)?;
    match hidden.is_empty() {
        true => Ok(()),
        false => writeln!(out, "not shown: {} (--wide)", hidden.join(", ")),
    }
}

fn write_table(listing: &Listing, no_header: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled);
    if !no_header {
        table.set_header(listing.columns.iter().map(|column| heading(column)));
    }
    for row in &listing.rows {
        table.add_row(row.iter().map(bare));
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn items(listing: &Listing) -> Vec<Value> {
    listing
        .rows
        .iter()
        .map(|row| {
            let cells = listing.columns.iter().zip(row);
            Value::Object(
                cells
                    .map(|(column, cell)| ((*column).to_owned(), cell.clone()))
                    .collect::<Map<_, _>>(),
            )
        })
        .collect()
}

fn write_json(listing: &Listing, out: &mut dyn Write) -> io::Result<()> {
    let document = serde_json::json!({ "api": API, "items": items(listing) });
    writeln!(out, "{document:#}")
}

fn write_yaml(listing: &Listing, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "api: {API}")?;
    if listing.rows.is_empty() {
        return writeln!(out, "items: []");
    }
    writeln!(out, "items:")?;
    for row in &listing.rows {
        for (index, (column, cell)) in listing.columns.iter().zip(row).enumerate() {
            let lead = if index == 0 { "-" } else { " " };
            writeln!(out, "{lead} {column}: {cell}")?;
        }
    }
    Ok(())
}

fn write_csv(listing: &Listing, no_header: bool, out: &mut dyn Write) -> io::Result<()> {
    if !no_header {
        writeln!(out, "{}", listing.columns.join(","))?;
    }
    for row in &listing.rows {
        let cells: Vec<String> = row.iter().map(|cell| quoted(&bare(cell))).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn write_value(listing: &Listing, out: &mut dyn Write) -> io::Result<()> {
    for row in &listing.rows {
        let cells: Vec<String> = row.iter().map(bare).collect();
        writeln!(out, "{}", cells.join(" "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Listing {
        let mut listing = Listing::new(&["resource_class", "total", "traits"]);
        listing.push([json!("VCPU"), json!(8), json!(["A", "B"])]);
        listing.push([json!("a \"b\", c"), json!(null), json!([])]);
        listing
    }

    fn printed(kind: FormatKind, columns: &[&str], no_header: bool) -> String {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        let mut out = Vec::new();
        sample()
            .print(
                &ListFormat {
                    format: kind,
                    columns,
                    no_header,
                    wide: false,
                },
                &mut out,
            )
            .unwrap_or_else(|failure| panic!("{}", failure.explain()));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_quotes_what_needs_quotes() {
        assert_eq!(
            printed(FormatKind::Csv, &[], false),
            "resource_class,total,traits\nVCPU,8,\"[\"\"A\"\",\"\"B\"\"]\"\n\"a \"\"b\"\", c\",,[]\n"
        );
    }

    #[test]
    fn json_names_its_version_and_keeps_types() {
        let document: Value =
            serde_json::from_str(&printed(FormatKind::Json, &["total"], false)).unwrap();
        assert_eq!(
            document,
            json!({"api": "berth/1", "items": [{"total": 8}, {"total": null}]})
        );
    }

    #[test]
    fn yaml_is_one_key_a_line() {
        assert_eq!(
            printed(FormatKind::Yaml, &["resource_class", "traits"], false),
            "api: berth/1\nitems:\n- resource_class: \"VCPU\"\n  traits: [\"A\",\"B\"]\n- resource_class: \"a \\\"b\\\", c\"\n  \
             traits: []\n"
        );
    }

    #[test]
    fn value_prints_bare_cells_in_the_order_asked_for() {
        assert_eq!(
            printed(FormatKind::Value, &["total", "resource class"], true),
            "8 VCPU\n a \"b\", c\n"
        );
    }

    #[test]
    fn a_table_fits_the_terminal_and_names_the_columns_that_do_not() {
        let mut listing = Listing::new(&["uuid", "name", "reason", "node"]);
        let uuid = "11111111-2222-4333-8444-0000000000aa";
        listing.push([
            json!(uuid),
            json!("web"),
            json!("x".repeat(300)),
            json!("n1"),
        ]);
        let printed = |width| {
            let mut out = Vec::new();
            write_fitting(listing.clone(), width, false, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
        let fits = printed(Some(80));
        assert_eq!(widest(&fits), Some(80), "{fits}");
        assert!(fits.contains(uuid) && fits.contains("xxx…"), "{fits}");
        assert!(fits.ends_with("not shown: node (--wide)\n"), "{fits}");
        let narrow = printed(Some(50));
        assert!(narrow.contains(uuid), "a UUID is never cut: {narrow}");
        assert!(
            narrow.ends_with("not shown: reason, node (--wide)\n"),
            "{narrow}"
        );
        let pipe = printed(None);
        assert!(pipe.contains(&"x".repeat(300)) && pipe.contains("n1"));
    }

    #[test]
    fn an_empty_list_says_so_to_people_and_is_empty_for_scripts() {
        let listing = Listing::new(&["uuid"]).or_say("no devices");
        let printed = |format| {
            let mut out = Vec::new();
            let format = ListFormat {
                format,
                ..ListFormat::default()
            };
            listing.print(&format, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(FormatKind::Table), "no devices\n");
        assert_eq!(printed(FormatKind::Csv), "uuid\n");
    }

    #[test]
    fn a_table_has_a_heading_by_default() {
        assert!(printed(FormatKind::Table, &[], false).contains("Resource class"));
        assert!(!printed(FormatKind::Table, &[], true).contains("Resource class"));
    }

    #[test]
    fn a_cell_is_on_its_line_whatever_is_in_it() {
        let mut listing = Listing::new(&["name"]);
        listing.push([json!("a\u{1b}[2J\nroot | b")]);
        for kind in [FormatKind::Table, FormatKind::Csv, FormatKind::Value] {
            let mut out = Vec::new();
            let format = ListFormat {
                format: kind,
                ..ListFormat::default()
            };
            listing.print(&format, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains("a\\u001b[2J\\nroot | b"), "{text}");
        }
    }

    #[test]
    fn an_unknown_column_is_a_usage_error_that_names_the_columns() {
        let format = ListFormat {
            columns: vec!["colour".into()],
            ..ListFormat::default()
        };
        let failure = sample().print(&format, &mut Vec::new()).unwrap_err();
        assert_eq!(failure.code(), ErrorCode::Usage);
        assert!(failure.explain().contains("resource_class, total, traits"));
    }
}
