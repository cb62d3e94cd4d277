//! `docs/guide/reference/admin-api.md`, written from the routes.

use std::fmt::Write as _;

use berth_agent_instances::reconcile::FindingKind;

use crate::admin::LIMITS;
use crate::body::API;
use crate::health::WARNABLES;
use crate::router::{BODY_LIMIT, ROUTES};

/// `docs/guide/reference/admin-api.md`.
#[must_use]
pub fn admin_page() -> String {
    let mut page = format!(
        "# The agent's admin API\n\n\
         Written from the code; do not edit.\n\n\
         HTTP on the unix socket `/run/berth/agent.sock` (`[agent] admin_socket`, mode 0660), for root, the agent's own user\n\
         and members of the group `berth` (`[agent] admin_group`); the kernel says who asks. `/healthz` and `/metrics` are\n\
         also on the loopback address `[agent] metrics_listen`, for anybody on the host, where that is set. All of it is on\n\
         `[agent] listen` over TLS, where that is set, for whoever shows a certificate that `client_ca` signed:\n\
         [the agent's API over TLS](../howto/agent-api-over-tls.md). For example:\n\n\
         ```\ncurl --unix-socket /run/berth/agent.sock http://agent/v1/state\n```\n\n\
         The same as an OpenAPI document, with every body: `docs/api/agent.json`, which the Debian package has as\n\
         `/usr/share/doc/berth/api/agent.json`.\n\n\
         JSON bodies carry `\"api\": \"{API}\"`; times are UTC in RFC 3339. A refusal carries\n\
         `{{\"error\": {{\"code\": ..., \"message\": ...}}}}`. A request's body may have {BODY_LIMIT} bytes.\n\n\
         Each of them takes {connections} connections at once; one more ends the one that has waited longest for a\n\
         request, or waits where there is none. A connection is closed when no whole head of a request comes within {head} s (an idle one, too; a TLS handshake has\n\
         as long), and a body has {body} s.\n\n\
         | method | path | what it does |\n| --- | --- | --- |\n",
        connections = LIMITS.connections,
        head = LIMITS.head.as_secs(),
        body = LIMITS.body.as_secs(),
    );
    let further = [
        crate::instances::ROUTES,
        crate::reconcile::ROUTES,
        crate::devices::ROUTES,
    ];
    for (method, path, help) in ROUTES.iter().chain(further.into_iter().flatten()) {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| {method} | `{path}` | {help} |");
    }
    page.push_str(
        "\n## Health findings\n\n\
         A finding is shown only after it has lasted for its time, and not while one of its causes is there too: Placement\n\
         being away shows one line, not one for each node. `/healthz` answers 503 while an `error` is shown or the start is\n\
         not over.\n\n\
         | code | severity | what it says | shown after | hidden by |\n| --- | --- | --- | --- | --- |\n",
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
        "\n## What a comparison finds\n\n\
         `berth reconcile`, the routes `/v1/reconcile`, the log and the metric `berth_reconcile_findings` have these words. The sentence that\n\
         comes with one says what is done about it, or what an operator can do.\n\n\
         | code | between | what it says |\n| --- | --- | --- |\n",
    );
    for kind in FindingKind::ALL {
        let (code, between, says) = (kind.code(), kind.between(), kind.says());
        let _ = writeln!(page, "| `{code}` | {between} | {says} |");
    }
    page
}
