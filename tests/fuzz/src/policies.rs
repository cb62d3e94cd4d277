//! Fuzz target: policy files, and queries to the policies in them.

use berth_http::policy::parse;
use berth_http::{Caller, Policy, PolicyFile, TokenScope};
use berth_placement::{DeprecatedDefaults, default_policy, rules};

pub(crate) fn file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let rule = parse(text);
    match &rule {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(rule) => {
            let written = rule.to_string();
            let again = parse(&written).map(|rule| rule.to_string());
            assert_eq!(again.as_deref(), Ok(&*written), "{text:?}");
        }
    }
    let defaults = default_policy(DeprecatedDefaults::Ignored);
    match PolicyFile::read(text).and_then(|file| defaults.with_file(file)) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(policy) => ask(&policy),
    }
}

/// Every caller gets a decision.
fn ask(policy: &Policy) {
    let caller = Caller {
        user_id: "u".to_owned(),
        scope: TokenScope::Project("p".to_owned()),
        roles: vec!["reader".to_owned(), "service".to_owned()],
        ..Caller::default()
    };
    for rule in rules() {
        for project in [None, Some("p"), Some("other")] {
            if let Err(fault) = policy.authorize(&caller, rule, project) {
                assert_eq!(fault.status().as_u16(), 403);
            }
        }
    }
}
