//! The import against Berth's own options and real oslo.config: the table of rules, ten configurations with their reports, and
//! hostile input.

mod common;
mod files;
mod oslo;
mod table;
mod total;
