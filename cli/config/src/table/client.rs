//! The options of a client section: keystoneauth's, by their own names.

use berth_client::AuthType;

use super::row::row;
use crate::kind::OptionKind;
use crate::option::{Default, OptionRow};

/// How many they are.
pub(super) const COUNT: usize = 33;

/// The options of the client section for the service that is `service_type` in the catalog; `endpoint` is an example.
#[rustfmt::skip]
pub(super) const fn rows(
    section: &'static str,
    service_type: &'static str,
    endpoint: &'static str,
) -> [OptionRow; COUNT] {
    [
        row(section, "auth_type",
            OptionKind::Choice(&AuthType::NAMES),
            Default::Unset,
            "How to log in: `password`, `v3applicationcredential`, `v3token`, `admin_token` (a fixed token) or `none`.")
            .example("\"password\""),
        row(section, "auth_url", OptionKind::Url(&["http", "https"]), Default::Unset,
            "The Identity service.").example("\"https://keystone.example.org:5000/v3\""),
        row(section, "username", OptionKind::Text, Default::Unset, "User name.").example("\"berth\""),
        row(section, "user_id", OptionKind::Text, Default::Unset, "User id, in place of name and domain."),
        row(section, "password", OptionKind::Secret, Default::Unset, "Password."),
        row(section, "user_domain_name", OptionKind::Text, Default::Unset, "Domain of the user.").example("\"Default\""),
        row(section, "user_domain_id", OptionKind::Text, Default::Unset, "Domain of the user, by id."),
        row(section, "project_name", OptionKind::Text, Default::Unset, "Project to be scoped to.").example("\"service\""),
        row(section, "project_id", OptionKind::Text, Default::Unset, "Project to be scoped to, by id."),
        row(section, "project_domain_name", OptionKind::Text, Default::Unset, "Domain of the project.")
            .example("\"Default\""),
        row(section, "project_domain_id", OptionKind::Text, Default::Unset, "Domain of the project, by id."),
        row(section, "default_domain_name", OptionKind::Text, Default::Unset, "Stands in for a domain that is not given."),
        row(section, "default_domain_id", OptionKind::Text, Default::Unset, "Stands in for a domain that is not given, by id.")
            ,
        row(section, "system_scope", OptionKind::Choice(&["all"]), Default::Unset, "`all` for a system scoped token.").example("\"all\""),
        row(section, "application_credential_id", OptionKind::Text, Default::Unset, "Application credential, by id."),
        row(section, "application_credential_name", OptionKind::Text, Default::Unset,
            "Application credential, by name; needs the user too."),
        row(section, "application_credential_secret", OptionKind::Secret, Default::Unset,
            "Secret of the application credential."),
        row(section, "token", OptionKind::Secret, Default::Unset, "Token, for `v3token` and `admin_token`."),
        row(section, "endpoint_override", OptionKind::Url(&["http", "https"]), Default::Unset,
            "The service's endpoint, in place of the one in the catalog.").example(endpoint),
        row(section, "endpoint", OptionKind::Url(&["http", "https"]), Default::Unset,
            "The same, by the name that `admin_token` and `none` have for it.").example(endpoint),
        row(section, "region_name", OptionKind::Text, Default::Unset, "Region to look in, in the catalog.")
            .example("\"RegionOne\""),
        row(section, "service_type", OptionKind::Text, Default::Text(service_type), "Service type in the catalog."),
        row(section, "service_name", OptionKind::Text, Default::Unset, "Service name in the catalog."),
        row(section, "valid_interfaces", OptionKind::Choices(&["internal", "public", "admin"]),
            Default::List(&["internal", "public"]), "Interfaces to look for in the catalog, best first."),
        row(section, "cafile", OptionKind::Path, Default::Unset, "PEM file of the authorities that may sign the server.")
            .example("\"/etc/ssl/certs/ca-certificates.crt\""),
        row(section, "certfile", OptionKind::Path, Default::Unset, "PEM file of the client certificate.").example("\"/etc/berth/client.pem\""),
        row(section, "keyfile", OptionKind::Path, Default::Unset, "PEM file of the client certificate's key.").example("\"/etc/berth/client.key\""),
        row(section, "insecure", OptionKind::Flag, Default::Flag(false), "Whether any server certificate is believed."),
        row(section, "timeout", OptionKind::Seconds(0.1, 3600.0), Default::Derived("60"),
            "Seconds one request may take; a reshape may take ten times as long.").example("60.0"),
        row(section, "connect_retries", OptionKind::Integer(0, 100), Default::Integer(0),
            "How often a failed connection is tried again."),
        row(section, "connect_retry_delay", OptionKind::Seconds(0.0, 600.0), Default::Unset,
            "Seconds before a failed connection is tried again; unset: doubling from 0.5 up to 60.").example("0.5"),
        row(section, "status_code_retries", OptionKind::Integer(0, 100), Default::Integer(0),
            "How often a 503 is tried again."),
        row(section, "status_code_retry_delay", OptionKind::Seconds(0.0, 600.0), Default::Unset,
            "Seconds before a 503 is tried again; unset: doubling from 0.5 up to 60.").example("0.5"),
    ]
}
