//! Writes the policy pages: the rule language, and each service's defaults.

use std::fmt::Write as _;

use berth_compose::policy::compute_defaults;
use berth_http::Policy;
use berth_placement::DeprecatedDefaults;

/// The introduction to rules, the same for each service.
const POLICY_LANGUAGE: &str = "\
         | text | passes |\n| --- | --- |\n\
         | `role:NAME` | Callers with this role; upper and lower case are equal |\n\
         | `rule:NAME` | Callers that pass the named rule |\n\
         | `user_id:TEXT`, `project_id:TEXT`, `roles:TEXT` | Callers with exactly this user, project or role |\n\
         | `host:%(host)s` | The account of the host in the path: its user is named `host/` and the name of the host |\n\
         | `is_admin:True`, `is_admin:False` | Callers with the role `admin`; callers without it |\n\
         | `'TEXT':%(project_id)s` | All callers, if the text equals the project of the request's target |\n\
         | `@` or nothing, `!` | All callers; no caller |\n\
         | `not A`, `A and B`, `A or B`, `( )` | Logical operators; `not` binds closest, then `and` |\n\
         | `[[\"A\", \"B\"], [\"C\"]]` | `A and B or C`, the old form |\n\n";
/// Which rules a service refuses.
const POLICY_REFUSED: &str = "\
         Berth rejects invalid rules when it reads the file; oslo.policy accepts them and denies every request instead. Invalid are:\n\
         a text that is no rule, a reference to an unknown rule or in a circle, an unknown credential, a query to another server\n\
         (`http:`), a quoted rule inside a rule, and a rule name that is neither listed below nor used by another rule.\n\n";

/// The page `docs/guide/reference/accelerator-policy.md`.
#[must_use]
pub fn accelerator_policy_page() -> String {
    let mut page = String::from(
        "# Who may do what at the accelerator service\n\nThis page is generated from the code.\n\n\
         `policy_file` in [`[accelerator_service]`](configuration.md) names a YAML file that overrides rules, in the format of Cyborg's\n\
         policy.yaml: the name of a rule, and its text. Rules that the file does not name keep their defaults. It is read at start;\n\
         `berth config check` reports its errors, and `berth accelerator policy` prints all rules in force.\n\n\
         ```yaml\n\
         # A role that may manage device profiles, in addition to administrators.\n\
         profile_keepers: role:ops or rule:admin_api\n\
         cyborg:device_profile:create: rule:profile_keepers\n\
         cyborg:device_profile:delete: rule:profile_keepers and not user_id:3f2a\n\
         ```\n\n",
    );
    page.push_str(POLICY_LANGUAGE);
    page.push_str(
        "`%(project_id)s` and `%(user_id)s` are the caller's own, as in Cyborg. Which requests a caller sees does not depend on the\n\
         rules; the account of a host (`host/NAME`) changes only those that are bound on it. No rule admits a token for the cloud itself (`system_scope`) or one without a scope.\n\n",
    );
    page.push_str(POLICY_REFUSED);
    defaults(&mut page, &berth_accelerator::default_policy());
    page.push_str(
        "\nOther rules refer to the rules without the prefix `cyborg:` or `berth:`. `admin_or_owner`, `admin_or_user`, `allow`,\n\
         `default`, `deny`, `is_admin` and `public_api` are Cyborg's old rules; no default refers to them. A bind also needs the\n\
         token of a service; no rule changes that.\n",
    );
    page
}

/// The page `docs/guide/reference/compute-policy.md`.
#[must_use]
pub fn compute_policy_page() -> String {
    let mut page = String::from(
        "# Who may do what at the compute API\n\nThis page is generated from the code.\n\n\
         `policy_file` in [`[compute_service]`](configuration.md) names a YAML file that overrides rules, in the format of Nova's\n\
         policy.yaml: the name of a rule, and its text. Rules that the file does not name keep their defaults. It is read at start;\n\
         `berth config check` reports its errors, and `berth compute policy` prints all rules in force.\n\n\
         ```yaml\n\
         # A role that may manage flavors, in addition to administrators.\n\
         flavor_keepers: role:ops or rule:context_is_admin\n\
         os_compute_api:os-flavor-manage:create: rule:flavor_keepers\n\
         os_compute_api:os-flavor-manage:delete: rule:flavor_keepers\n\
         ```\n\n",
    );
    page.push_str(POLICY_LANGUAGE);
    page.push_str(
        "`%(project_id)s` is the project of the server or group; without such a target it is the caller's own project.\n\
         `%(user_id)s` is the caller's own. No rule admits a token for the cloud itself (`system_scope`) or one without a scope. The rules `berth:...` are\n\
         those of the routes for agents.\n\n",
    );
    page.push_str(POLICY_REFUSED);
    defaults(&mut page, &compute_defaults());
    page
}

/// The page `docs/guide/reference/placement-policy.md`.
#[must_use]
pub fn placement_policy_page() -> String {
    let mut page = String::from(
        "# Who may do what at the built-in Placement\n\nThis page is generated from the code.\n\n\
         `policy_file` in [`[placement_service]`](configuration.md) names a YAML file that overrides rules, in the format of OpenStack\n\
         Placement's policy.yaml: the name of a rule, and its text. Rules that the file does not name keep their defaults. It is read at\n\
         start; `berth config check` reports its errors, and `berth placement policy` prints all rules in force.\n\n\
         ```yaml\n\
         # A role that may read the provider tree, in addition to administrators and services.\n\
         watchers: role:auditor or rule:admin_or_service_api\n\
         placement:resource_providers:list: rule:watchers\n\
         placement:resource_providers:usages: rule:watchers\n\
         ```\n\n",
    );
    page.push_str(POLICY_LANGUAGE);
    page.push_str(
        "`%(project_id)s` is the project of GET /usages, and the caller's own in all other requests;\n\
         `%(user_id)s` is the caller's own. No rule admits a token for the cloud itself (`system_scope`) or one without a scope. Whatever the rules are, the\n\
         account of a host (`host/NAME`) changes only the providers of its own tree, and allocations on them.\n\n",
    );
    page.push_str(POLICY_REFUSED);
    let policy = berth_placement::default_policy(DeprecatedDefaults::Ignored);
    defaults(&mut page, &policy);
    page.push_str(
        "\nOther rules refer to the rules without the prefix `placement:`. With `enforce_new_defaults = false` the role `admin` passes\n\
         each of them that a policy file does not name, and therefore every default, a reshape included.\n",
    );
    page
}

fn defaults(page: &mut String, policy: &Policy) {
    page.push_str("## The defaults\n\n| rule | text |\n| --- | --- |\n");
    for (name, rule, _) in policy.rules() {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{name}` | `{rule}` |");
    }
}
