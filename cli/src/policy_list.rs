//! The list that `berth accelerator|compute|placement policy` prints: every rule in force, and its origin.

use std::io::Write;

use berth_http::Policy;
use berth_http::policy::PolicyOrigin;
use berth_output::{Failure, ListFormat, Listing};
use serde_json::json;

pub(crate) fn print(
    policy: &Policy,
    format: &ListFormat,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut listing = Listing::new(&["rule", "check", "origin"]);
    for (name, rule, origin) in policy.rules() {
        let origin = match origin {
            PolicyOrigin::Default => "default",
            PolicyOrigin::File => "file",
        };
        listing.push([json!(name), json!(rule.to_string()), json!(origin)]);
    }
    listing.print(format, out)
}
