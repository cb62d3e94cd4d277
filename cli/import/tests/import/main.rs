//! The import against Berth's own options: the table of rules, ten configurations with their reports, and hostile input.

mod common;
mod files;
mod table;
mod total;
