//! Writes the reference pages that are generated from the code: exit codes, metrics, policies. The page of options is
//! [`berth_config::reference`].
//!
//! A test compares the committed files with these; `BLESS=1 cargo test -p berth-cli --test cli generated` writes them.

mod host_support;
mod policy;

use std::fmt::Write as _;

use berth_output::{ErrorCode, ExitCode};

pub use host_support::flavors_and_images_page;
pub use policy::{accelerator_policy_page, compute_policy_page, placement_policy_page};

/// `docs/guide/reference/metrics.md`: the metrics of the agent, and of the services that `berth up` runs.
#[must_use]
pub fn metrics_page() -> String {
    berth_agent::metrics::metrics_page(berth_conductor::METRICS)
}

/// The page `docs/guide/reference/exit-codes.md`.
#[must_use]
pub fn exit_codes_page() -> String {
    let mut page = String::from(
        "# Exit codes and error numbers\n\nThis page is generated from the code.\n\n\
         An error message on standard error says what failed and its number (`error:`), the causes (`cause:`), and what to\n\
         do (`hint:`). `berth explain E0301` prints cause and fix of a number. The number decides the exit code.\n\
         [Messages](messages.md) lists typical mistakes. `berth-agent.service` does not restart after 64, 76 and 78 (`RestartPreventExitStatus=`), because a restart\n\
         cannot help.\n\n\
         | Code | Name | When | What to do |\n| --- | --- | --- | --- |\n",
    );
    for code in ExitCode::ALL {
        let meaning = code.meaning();
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} |",
            code.number(),
            meaning.name,
            meaning.when,
            meaning.next
        );
    }
    page.push_str("\n## Error numbers\n\n| number | exit code | meaning |\n| --- | --- | --- |\n");
    for code in ErrorCode::ALL {
        let meaning = code
            .meaning()
            .lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ");
        let _ = writeln!(page, "| `{code}` | {} | {meaning} |", code.exit().number());
    }
    page
}
