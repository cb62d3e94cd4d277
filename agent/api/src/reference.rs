//! Generates `docs/guide/reference/admin-api.md` from the routes and the health findings.

use std::fmt::Write as _;

use berth_agent_instances::reconcile::FindingKind;

use crate::admin::LIMITS;
use crate::body::API;
use crate::health::WARNABLES;
use crate::router::{BODY_LIMIT, ROUTES};

/// The text of `docs/guide/reference/admin-api.md`.
#[must_use]
pub fn admin_page() -> String {
    let mut page = format!(
        "# Admin API of the agent\n\n\
         This page is generated from the code.\n\n\
         The API is HTTP with JSON bodies. `docs/api/agent.json` (in the package: `/usr/share/doc/berth/api/agent.json`) is\n\
         the OpenAPI document with all bodies.\n\n\
         ```sh\ncurl --unix-socket /run/berth/agent.sock http://agent/v1/state\n```\n\n\
         | Listener | Routes | Callers |\n| --- | --- | --- |\n\
         | Unix socket `[agent] admin_socket` (`/run/berth/agent.sock`, mode 0660) | All | root, the agent's user, and members of \
         `[agent] admin_group` (`berth`); the kernel reports the caller |\n\
         | `[agent] listen`, with TLS | All | Clients with a certificate of `client_ca` and a name in `allowed_clients` \
         ([how to](../howto/agent-api-over-tls.md)) |\n\
         | `[agent] metrics_listen`, loopback | `/healthz`, `/metrics` | Every local user |\n\n\
         - Bodies have the key `\"api\": \"{API}\"`. Times are UTC in RFC 3339.\n\
         - An error has the body `{{\"error\": {{\"code\": ..., \"message\": ...}}}}`.\n\
         - The body of a request has at most {BODY_LIMIT} bytes (routes of guests: {guest}).\n\
         - Each listener accepts {connections} connections. A further connection closes the slowest one.\n\
         - A connection is closed if a TLS handshake or the head of a request takes longer than {head} s, or a body is more\n\
         \x20 than {body} s behind the least rate ([limits](../explanation/limits.md)).\n\n\
         ## Routes\n\n\
         | Method | Path | Effect |\n| --- | --- | --- |\n",
        guest = crate::compute_api::BODY_LIMIT,
        connections = LIMITS.connections,
        head = LIMITS.head.as_secs(),
        body = LIMITS.body.as_secs(),
    );
    let further = [
        crate::instances::ROUTES,
        crate::reconcile::ROUTES,
        crate::devices::ROUTES,
    ];
    let mut details = String::new();
    for (method, path, help) in ROUTES.iter().chain(further.into_iter().flatten()) {
        // A description of several paragraphs gets its own section. Writing to a String cannot fail.
        let (summary, detail) = help.split_once("\n\n").unwrap_or((help, ""));
        let _ = writeln!(page, "| {method} | `{path}` | {summary} |");
        if !detail.is_empty() {
            let _ = write!(details, "\n### {method} {path}\n\n{summary}\n\n{detail}\n");
        }
    }
    page.push_str(&details);
    page.push_str(
        "\n## Health findings\n\n\
         A finding is shown when it has lasted for the time in the table, and only while none of its causes is shown: if\n\
         Placement is unreachable, there is one finding, not one for each node. `/healthz` returns 503 during the start\n\
         and while a finding of severity `error` is shown.\n\n\
         | Code | Severity | Meaning | Shown after | Hidden by |\n| --- | --- | --- | --- | --- |\n",
    );
    for warnable in WARNABLES {
        let causes: Vec<String> = warnable
            .depends_on
            .iter()
            .map(|cause| format!("`{}`", cause.code))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} s | {} |",
            warnable.code,
            warnable.severity.as_str(),
            warnable.title,
            warnable.time_to_visible.as_secs(),
            causes.join(", ")
        );
    }
    page.push_str(
        "\n## Findings of `berth reconcile`\n\n\
         `berth reconcile`, the routes `/v1/reconcile`, the log and the metric `berth_reconcile_findings` use these codes.\n\
         The message of a finding says how it is repaired, or what an operator can do.\n\n\
         | Code | Compares | Meaning |\n| --- | --- | --- |\n",
    );
    for kind in FindingKind::ALL {
        let (code, between, description) = (kind.code(), kind.between(), kind.description());
        let _ = writeln!(page, "| `{code}` | {between} | {description} |");
    }
    page
}
