//! Rules: what they let pass, how they are written, and what of a file is refused.

use berth_http::policy::{PolicyCheck, PolicyCredential, PolicyRule, Template, parse, parse_lists};
use berth_http::{Caller, HostAccount, Policy, PolicyFile, TokenScope, is_provider_of_host};
use proptest::prelude::*;

/// `alice` of the project `p1`, with these roles.
fn alice(roles: &[&str]) -> Caller {
    Caller {
        user_id: "alice".to_owned(),
        scope: TokenScope::Project("p1".to_owned()),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..Caller::default()
    }
}

fn policy() -> Policy {
    let rules = [
        ("admin_api", PolicyRule::role("admin")),
        (
            "thing:get",
            PolicyRule::named("admin_api").or(PolicyRule::own_project()),
        ),
        ("thing:delete", PolicyRule::named("admin_api")),
    ];
    Policy::new(rules)
}

fn read(text: &str) -> Result<Policy, String> {
    PolicyFile::read(text)
        .and_then(|file| policy().with_file(file))
        .map_err(|error| error.to_string())
}

#[track_caller]
fn passes(text: &str, caller: &Caller, project: Option<&str>) -> bool {
    let policy = policy().with_rule("thing:get", parse(text).unwrap());
    policy.authorize(caller, "thing:get", project).is_ok()
}

#[test]
fn a_rule_admits_the_same_callers_as_in_oslo_policy() {
    let caller = alice(&["Member", "reader"]);
    for (text, expected) in [
        ("", true),
        ("@", true),
        ("!", false),
        ("role:member", true),
        ("role:MEMBER", true),
        ("role:admin", false),
        ("not role:admin", true),
        ("NOT role:admin AND role:reader", true),
        ("not not role:reader", true),
        ("role:admin or role:member and role:reader", true),
        ("role:member and role:reader or role:admin", true),
        ("(role:admin or role:member) and role:none", false),
        (
            "role:admin or (role:member and not (role:reader and @))",
            false,
        ),
        ("( role:member )", true),
        ("((role:member))", true),
        ("rule:admin_api", false),
        ("not rule:admin_api", true),
        ("project_id:%(project_id)s", true),
        ("project_id:p1", true),
        ("project_id:p2", false),
        ("user_id:%(user_id)s", true),
        ("user_id:%(project_id)s", false),
        ("is_admin:True", false),
        ("is_admin:False", true),
        ("roles:Member", true),
        ("roles:member", false),
        ("'p1':%(project_id)s", true),
        ("\"p2\":%(project_id)s", false),
        ("True:%(project_id)s", false),
        ("role:%(project_id)s", false),
        ("user_id:100%%", false),
    ] {
        assert_eq!(passes(text, &caller, None), expected, "{text:?}");
    }
    assert!(passes("is_admin:True", &alice(&["admin"]), None));
    assert!(!passes("project_id:%(project_id)s", &caller, Some("p2")));
    let nowhere = Caller {
        scope: TokenScope::Unscoped,
        ..alice(&["member"])
    };
    assert!(!passes("project_id:%(project_id)s", &nowhere, None));
}

#[test]
fn a_token_for_a_domain_for_the_cloud_itself_or_without_a_scope_passes_no_rule() {
    let domain = TokenScope::Domain("d1".to_owned());
    for scope in [domain, TokenScope::System, TokenScope::Unscoped] {
        let caller = Caller {
            scope,
            ..alice(&["admin"])
        };
        for text in [
            "role:admin",
            "is_admin:True",
            "roles:admin",
            "user_id:%(user_id)s",
            "@",
        ] {
            for project in [None, Some("p1")] {
                assert!(!passes(text, &caller, project), "{caller:?} {text}");
            }
        }
        let refused = policy().authorize(&caller, "thing:get", None).unwrap_err();
        let is_explained = format!("{refused:?}").contains("not scoped to a project");
        assert_eq!(is_explained, caller.scope == TokenScope::Unscoped);
    }
}

#[test]
fn lists_of_lists_are_any_of_all() {
    let text = |lists: &[&[&str]]| {
        let lists: Vec<Vec<&str>> = lists.iter().map(|list| list.to_vec()).collect();
        parse_lists(&lists).map(|rule| rule.to_string())
    };
    assert_eq!(text(&[]), Ok("@".to_owned()));
    assert_eq!(text(&[&[]]), Ok("!".to_owned()));
    assert_eq!(text(&[&["role:a"]]), Ok("role:a".to_owned()));
    assert_eq!(
        text(&[&["role:a", "role:b"], &[], &["rule:c"]]),
        Ok("(role:a and role:b) or rule:c".to_owned())
    );
    assert!(text(&[&["role:a or role:b"]]).is_err());
}

#[test]
fn a_text_that_is_no_rule_is_refused_with_what_would_be_one() {
    let deep = format!("{}@{}", "(".repeat(30), ")".repeat(30));
    for (text, words) in [
        ("  ", "\"@\" admits all callers"),
        ("role:a and", "it ends where a check is expected"),
        ("and role:a", "\"and\" stands where a check is expected"),
        (
            "role:a role:b",
            "\"role:b\" stands where and, or or the end",
        ),
        ("(role:a", "a parenthesis is not closed"),
        ("role:a)", "\")\" stands where"),
        ("()", "\")\" stands where a check is expected"),
        ("not", "it ends where"),
        ("admin", "\"admin\" is no check: KIND:TEXT"),
        ("\"role:admin\"", "nothing that is known of a caller"),
        ("user_domain_id:default", "\"user_domain_id\" is nothing"),
        ("http://example.org", "no other service is asked"),
        (
            "project_id:%(projekt_id)s",
            "%(projekt_id)s: project_id, user_id or host",
        ),
        ("project_id:%project_id", "a % is written %%"),
        (&deep, "more than 20 deep"),
    ] {
        let refused = parse(text).unwrap_err().to_string();
        assert!(refused.contains(words), "{text:?}: {refused}");
    }
}

#[test]
fn a_file_replaces_what_it_names_and_may_name_rules_of_its_own() {
    let policy = read(
        "# operators\n\"operators\": \"role:ops or rule:admin_api\"\n\
         thing:delete: rule:operators\nthing:get: [[\"role:reader\", \"user_id:alice\"], \"role:ops\"]\n",
    )
    .unwrap();
    let may = |roles: &[&str], rule| policy.authorize(&alice(roles), rule, None).is_ok();
    assert!(may(&["ops"], "thing:delete") && may(&["admin"], "thing:delete"));
    assert!(may(&["reader"], "thing:get") && !may(&["member"], "thing:get"));
    for nothing in ["", "# nothing\n", "{}"] {
        let policy = read(nothing).unwrap();
        let may = policy.authorize(&alice(&["admin"]), "thing:delete", None);
        assert!(may.is_ok(), "{nothing:?}");
    }
}

#[test]
fn a_file_that_cannot_be_meant_is_refused_with_the_line_and_the_key() {
    let chain: Vec<String> = (0..40).map(|n| format!("r{n}: rule:r{}", n + 1)).collect();
    let chain = format!("{}\nr40: \"@\"\nthing:get: rule:r0\n", chain.join("\n"));
    for (text, words) in [
        ("[]", "names of rules, each with a text, are expected"),
        ("thing:get: 5", "names of rules"),
        ("thing:get:", "names of rules"),
        ("thing:get: {a: b}", "names of rules"),
        ("thing:get: [[[a]]]", "names of rules"),
        ("thing:get: \"@\"\nthing:get: \"!\"\n", "names of rules"),
        (
            "\n\nthing:get: role:a or\n",
            "line 3: thing:get: it ends where",
        ),
        (
            "\nthing:gte: \"@\"\n",
            "line 2: thing:gte: there is no such rule, and no other refers to it; did you mean thing:get?",
        ),
        (
            "colour: \"@\"\n",
            "line 1: colour: there is no such rule, and no other refers to it",
        ),
        (
            "thing:get: rule:admin_apy\n",
            "line 1: thing:get: there is no rule:admin_apy; did you mean admin_api?",
        ),
        (
            "thing:get: rule:thing:get\n",
            "it refers to itself: thing:get -> thing:get",
        ),
        (
            "a: not rule:thing:get\nthing:get: rule:a\n",
            "line 1: a: it refers to itself: a -> thing:get -> a",
        ),
        (&chain, "more than 32 rules refer to one another"),
    ] {
        let refused = read(text).err().unwrap_or_default();
        assert!(refused.contains(words), "{text:?}: {refused}");
    }
    let long = format!("a: {}", " ".repeat(1 << 20));
    assert!(read(&long).unwrap_err().contains("bytes"));
}

#[test]
fn all_errors_of_a_file_are_named_at_once_in_the_order_of_their_lines() {
    let text = "thing:gte: \"@\"\nthing:get: role:a or\nb: rule:b\nthing:delete: rule:admin_apy\n";
    let refused = read(text).err().unwrap_or_default();
    let lines: Vec<&str> = refused.lines().map(|line| &line[..7]).collect();
    assert_eq!(
        lines,
        ["line 1:", "line 2:", "line 3:", "line 4:"],
        "{refused}"
    );
}

fn rules() -> impl Strategy<Value = PolicyRule> {
    let template = proptest::sample::select(vec![
        "%(project_id)s",
        "%(user_id)s",
        "a%%b",
        "p1",
        "",
        "x:y",
    ]);
    let kind = proptest::sample::select(vec![
        "role",
        "user_id",
        "project_id",
        "is_admin",
        "roles",
        "'p 1'",
        "'p1'",
        "True",
        "rule",
    ]);
    let check = (kind, template).prop_filter_map("no blank stands in a check", |(kind, text)| {
        let text = if kind == "rule" {
            text.replace('%', "")
        } else {
            text.to_owned()
        };
        parse(&format!("{kind}:{text}")).ok()
    });
    let leaf = prop_oneof![
        1 => Just(PolicyRule::Everybody),
        1 => Just(PolicyRule::Nobody),
        1 => Just(PolicyRule::Check(PolicyCheck::Credential(PolicyCredential::UserId, Template::text("alice")))),
        6 => check,
    ];
    leaf.prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|rule| PolicyRule::Not(Box::new(rule))),
            proptest::collection::vec(inner.clone(), 2..4).prop_map(PolicyRule::All),
            proptest::collection::vec(inner, 2..4).prop_map(PolicyRule::Any),
        ]
    })
}

proptest! {
    #[test]
    fn a_rule_is_what_is_read_of_its_text(rule in rules()) {
        let text = rule.to_string();
        prop_assert_eq!(parse(&text), Ok(rule), "{}", text);
    }

    #[test]
    fn no_text_is_too_strange_to_be_read_or_refused(text in "[rolenadt:@!%()s'\" ]{0,40}") {
        if let Ok(rule) = parse(&text) {
            prop_assert_eq!(parse(&rule.to_string()), Ok(rule));
        }
    }

    #[test]
    fn no_file_is_too_strange_to_be_read_or_refused(text in "[a-c: \"@!\n\\[\\]{},#&*-]{0,60}") {
        // Whatever is said, it is said without a panic.
        let _ = PolicyFile::read(&text);
    }
}

#[test]
fn an_account_that_looks_like_that_of_a_host_is_no_service_of_the_cloud() {
    for (name, account) in [
        ("host/", HostAccount::of_user_name("host/")),
        ("HOST/gpu-01", HostAccount::of_user_name("HOST/gpu-01")),
        ("Host/gpu-01", HostAccount::of_other_domain("Host/gpu-01")),
        ("host/gpu-01", HostAccount::of_other_domain("host/gpu-01")),
    ] {
        assert!(!account.speaks_for("gpu-01"), "{name}");
        assert!(!account.speaks_for(""), "{name}");
        let caller = Caller {
            host: account,
            ..alice(&["service"])
        };
        assert_eq!(caller.only_host(), Some(""), "{name}");
    }
    assert!(!is_provider_of_host("_gpu", ""));
    for name in ["nova", "hosts/gpu-01", "höst/gpu-01", "host"] {
        assert_eq!(HostAccount::of_user_name(name), HostAccount::NoHost);
        assert_eq!(HostAccount::of_other_domain(name), HostAccount::NoHost);
    }
}

#[test]
fn the_account_of_a_host_passes_for_its_own_host_alone() {
    let of = |name: &str| Caller {
        user_name: Some(name.to_owned()),
        host: HostAccount::of_user_name(name),
        ..alice(&["service"])
    };
    for (name, host, may) in [
        ("host/gpu-01", "gpu-01", true),
        ("host/gpu-01", "gpu-02", false),
        ("gpu-01", "gpu-01", false),
        ("nova", "gpu-01", false),
        ("host/", "", false),
    ] {
        assert_eq!(of(name).host.speaks_for(host), may, "{name} {host}");
    }
    assert_eq!(of("host/gpu-01").only_host(), Some("gpu-01"));
    assert_eq!(of("nova").only_host(), None);
    assert!(HostAccount::AnyHost.speaks_for("gpu-01"));
    let rule = parse("role:service and host:%(host)s").unwrap();
    assert_eq!(
        rule,
        PolicyRule::role("service").and(PolicyRule::own_host())
    );
    assert_eq!(rule.to_string(), "role:service and host:%(host)s");
}
