//! `[placement]`: the way to Placement.

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "[placement]\nauth_type = \"pasword\"" => ["berth.toml:2:13: placement.auth_type: \"pasword\" is not one of the words accepted; did you mean \"password\"? write one of password, v3password, v3applicationcredential, token, v3token, admin_token, none, noauth [BERTH-E0105]"];
    "[placement]\nauth_type = \"password\"" => ["berth.toml:2:13: placement.auth_url: is not set; auth_type password needs it [BERTH-E0107]", "berth.toml:2:13: placement.password: is not set; auth_type password needs it [BERTH-E0107]", "berth.toml:2:13: placement.project_name: is not set; set a project (project_name or project_id) or system_scope [BERTH-E0107]", "berth.toml:2:13: placement.username: is not set; auth_type password needs username or user_id [BERTH-E0107]"];
    "[placement]\nauth_type = \"v3applicationcredential\"\nauth_url = \"https://k\"\napplication_credential_name = \"a\"\napplication_credential_secret = \"s\"" => ["berth.toml:2:13: placement.username: is not set; application_credential_name needs username or user_id [BERTH-E0107]"];
    "[placement]\nauth_type = \"none\"" => ["berth.toml:2:13: placement.endpoint_override: is not set; auth_type none needs it [BERTH-E0107]"];
    "[placement]\npassword = \"hunter2\"" => ["berth.toml:2:12: placement.password: set, but auth_type is not; write auth_type = \"password\" in [placement] [BERTH-E0107]"];
    "[placement]\npassword = 1234" => ["berth.toml:2:12: placement.password: a text is wanted, not a whole number; write the secret in quotes, on one line [BERTH-E0104]"];
    "[placement]\npassword = [\"hunter2\"]" => ["berth.toml:2:12: placement.password: a text is wanted, not a list; write the secret in quotes, on one line [BERTH-E0104]"];
    "[placement]\nauth_url = \"keystone:5000\"" => ["berth.toml:2:12: placement.auth_url: this is not a URL; write a URL that begins with http:// or https:// [BERTH-E0105]"];
    "[placement]\nendpoint_override = \"http://user:hunter2@h/\"" => ["berth.toml:2:21: placement.endpoint_override: user and password do not belong in this URL; write a URL that begins with http:// or https:// [BERTH-E0105]"];
    "[placement]\nendpoint_override = \"http://h/?token=hunter2\"" => ["berth.toml:2:21: placement.endpoint_override: paths are appended to this URL, so it can have no query (?); write a URL that begins with http:// or https:// [BERTH-E0105]"];
    "[placement]\nauth_url = \"http://h/v3#hunter2\"" => ["berth.toml:2:12: placement.auth_url: paths are appended to this URL, so it can have no fragment (#); write a URL that begins with http:// or https:// [BERTH-E0105]"];
    "[placement]\nvalid_interfaces = [\"internl\"]" => ["berth.toml:2:21: placement.valid_interfaces: \"internl\" is not one of the words accepted; did you mean \"internal\"? write a list of: internal, public, admin [BERTH-E0105]"];
    "[placement]\nauth_type = \"none\"\nendpoint_override = \"http://h\"\nkeyfile = \"/c.pem\"" => ["berth.toml:2:13: placement.certfile: is not set; keyfile needs the file of its certificate [BERTH-E0107]"];
    "[placement]\nos_region_name = \"R\"" => ["berth.toml:2:1: placement.os_region_name: berth does not have this option; write region_name [BERTH-E0102]"];
};
