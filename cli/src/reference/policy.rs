//! The pages of who may do what: the language of rules, and each service's defaults.

use std::fmt::Write as _;

use berth_http::Policy;
use berth_placement::DeprecatedDefaults;

/// The texts of rules, the same for each service.
const POLICY_LANGUAGE: &str = "\
         | text | passes |\n| --- | --- |\n\
         | `role:NAME` | who has the role, in any case of letters |\n\
         | `rule:NAME` | who passes that rule |\n\
         | `user_id:TEXT`, `project_id:TEXT`, `roles:TEXT` | whose user, project, or one of whose roles is exactly this |\n\
         | `is_admin:True`, `is_admin:False` | who has the role `admin`; who has not |\n\
         | `'TEXT':%(project_id)s` | everybody, where the text is the project that the request is about |\n\
         | `@` or nothing, `!` | everybody, nobody |\n\
         | `not A`, `A and B`, `A or B`, `( )` | as they say; `not` binds closest, then `and` |\n\
         | `[[\"A\", \"B\"], [\"C\"]]` | `A and B or C`, the old form |\n\n";
/// What is refused of them.
const POLICY_REFUSED: &str = "\
         What oslo.policy takes for \"nobody\" when somebody asks is refused when the file is read: a text that is no rule, a\n\
         reference to a rule that is not there or round in a circle, a credential that is not known of callers, a question to\n\
         another server (`http:`), a whole rule in quotes within its text. So is a name that is none of these rules and that no\n\
         other rule refers to.\n\n";

/// `docs/guide/reference/accelerator-policy.md`.
#[must_use]
pub fn accelerator_policy_page() -> String {
    let mut page = String::from(
        "# Who may do what at the accelerator service\n\nWritten from the code; do not edit.\n\n\
         `policy_file` in [`[accelerator_service]`](configuration.md) names a YAML file that says otherwise, as Cyborg's\n\
         policy.yaml does: the name of a rule, and its text. What it does not name stays. It is read at start;\n\
         `berth config check` says what is wrong in it, `berth accelerator policy` prints every rule that is in force.\n\n\
         ```yaml\n\
         # Those who look after device profiles, beside administrators.\n\
         profile_keepers: role:ops or rule:admin_api\n\
         cyborg:device_profile:create: rule:profile_keepers\n\
         cyborg:device_profile:delete: rule:profile_keepers and not user_id:3f2a\n\
         ```\n\n",
    );
    page.push_str(POLICY_LANGUAGE);
    page.push_str(
        "`%(project_id)s` and `%(user_id)s` are the caller's own, as with Cyborg; whose requests he sees is decided beside the\n\
         rules. No rule admits a token for the cloud itself (`system_scope`).\n\n",
    );
    page.push_str(POLICY_REFUSED);
    defaults(&mut page, &berth_accelerator::default_policy());
    page.push_str(
        "\nThe rules without `cyborg:` and `berth:` are there for others to refer to. `admin_or_owner`, `admin_or_user`, `allow`,\n\
         `default`, `deny`, `is_admin` and `public_api` are Cyborg's old ones, which no default refers to. A bind wants a service's\n\
         own token besides, whatever the rules say.\n",
    );
    page
}

/// `docs/guide/reference/compute-policy.md`.
#[must_use]
pub fn compute_policy_page() -> String {
    let mut page = String::from(
        "# Who may do what at the compute API\n\nWritten from the code; do not edit.\n\n\
         `policy_file` in [`[compute_service]`](configuration.md) names a YAML file that says otherwise, as Nova's\n\
         policy.yaml does: the name of a rule, and its text. What it does not name stays. It is read at start;\n\
         `berth config check` says what is wrong in it, `berth compute policy` prints every rule that is in force.\n\n\
         ```yaml\n\
         # Those who look after flavors, beside administrators.\n\
         flavor_keepers: role:ops or rule:context_is_admin\n\
         os_compute_api:os-flavor-manage:create: rule:flavor_keepers\n\
         os_compute_api:os-flavor-manage:delete: rule:flavor_keepers\n\
         ```\n\n",
    );
    page.push_str(POLICY_LANGUAGE);
    page.push_str(
        "`%(project_id)s` is the project that the server or the group belongs to, and the caller's own where there is none;\n\
         `%(user_id)s` is the caller's own. No rule admits a token for the cloud itself (`system_scope`).\n\n",
    );
    page.push_str(POLICY_REFUSED);
    defaults(&mut page, &berth_compute::default_policy());
    page
}

/// `docs/guide/reference/placement-policy.md`.
#[must_use]
pub fn placement_policy_page() -> String {
    let mut page = String::from(
        "# Who may do what at the built-in Placement\n\nWritten from the code; do not edit.\n\n\
         `policy_file` in [`[placement_service]`](configuration.md) names a YAML file that says otherwise, as OpenStack\n\
         Placement's policy.yaml does: the name of a rule, and its text. What it does not name stays. It is read at start;\n\
         `berth config check` says what is wrong in it, `berth placement policy` prints every rule that is in force.\n\n\
         ```yaml\n\
         # Those who watch the fleet may read it, beside administrators and services.\n\
         watchers: role:auditor or rule:admin_or_service_api\n\
         placement:resource_providers:list: rule:watchers\n\
         placement:resource_providers:usages: rule:watchers\n\
         ```\n\n",
    );
    page.push_str(POLICY_LANGUAGE);
    page.push_str(
        "`%(project_id)s` is the project that GET /usages asks about, and the caller's own in all other requests;\n\
         `%(user_id)s` is the caller's own. No rule admits a token for the cloud itself (`system_scope`).\n\n",
    );
    page.push_str(POLICY_REFUSED);
    let policy = berth_placement::default_policy(DeprecatedDefaults::Ignored);
    defaults(&mut page, &policy);
    page.push_str(
        "\nThe rules without `placement:` are there for others to refer to. With `enforce_new_defaults = false` the role `admin`\n\
         passes each of them that a policy file does not name, and so every default: a reshape, too.\n",
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
