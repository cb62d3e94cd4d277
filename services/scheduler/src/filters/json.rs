//! `JsonFilter`: the query in the hint `query` must be true for the host.

use std::sync::Arc;

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::query::Query;
use crate::reason::Reason;
use crate::request::RequestSpec;
use crate::text::shortened;

pub(super) struct JsonFilter;

impl Filter for JsonFilter {
    fn name(&self) -> &'static str {
        "JsonFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let text = match request.hints.given("query") {
            None => return FilterPlan::PassAll,
            Some([text]) => text,
            Some(texts) => {
                return FilterPlan::RejectAll(unreadable(
                    &texts.join(" ").into(),
                    "there should be one query",
                ));
            }
        };
        let query = match Query::new(text) {
            Ok(query) => query,
            Err(error) => {
                return FilterPlan::RejectAll(unreadable(
                    &text.as_str().into(),
                    &error.to_string(),
                ));
            }
        };
        FilterPlan::each(
            move |host: &mut ConsideredHost| match query.holds_for(host) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Reason::QueryNotSatisfied {
                    query: Arc::clone(query.text()),
                    values: query.values_on(host),
                }),
                Err(error) => Err(unreadable(query.text(), &error.to_string())),
            },
        )
    }
}

fn unreadable(query: &Arc<str>, why: &str) -> Reason {
    Reason::QueryUnreadable {
        query: Arc::clone(query),
        unreadable: shortened(why).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::JsonFilter;
    use crate::filters::Filter;
    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;
    use crate::query::VALUES;
    use crate::reason::Reason;
    use berth_scheduler_objects::testing;

    #[test]
    fn a_query_holds_for_a_host_or_not() {
        let hosts = json!([
            {"host": "h0", "free_ram_mb": 1024, "stats": {"a": {"b": 1}}},
            {"host": "h1", "free_ram_mb": 4096, "cpu_info": "{\"a\": 1}"},
        ]);
        let (no, bad) = ("query_not_satisfied", "query_unreadable");
        for (query, expected) in [
            (json!([">=", "$free_ram_mb", 2048]), [no, ""]),
            (json!(["<", 1, 2, 3]), ["", ""]),
            (json!(["<", 1, 2, 1]), [no, no]),
            (json!(["=", 1]), [no, no]),
            (json!(["=", true, 1, 1.0]), ["", ""]),
            (json!(["in", "$host", "h1", "h2"]), [no, ""]),
            (json!(["not", ["=", "$host", "h1"]]), ["", no]),
            (json!(["and", ["not", true], true]), ["", ""]),
            (json!(["not"]), [no, no]),
            (json!(["and"]), ["", ""]),
            (json!(["or", [], ["=", 1, 2]]), ["", ""]),
            (json!(["=", "$stats.a.b", 1]), ["", no]),
            (json!(["=", "$nosuch", ""]), [no, no]),
            (json!(["=", "$cpu_info.a", 1]), [no, bad]),
            (json!(["or", ["<", "$host", 5], true]), [bad, bad]),
            (json!(["<=", "$limits.vcpu", 8]), [no, no]),
            (json!(["=", "$service.disabled", 0]), ["", ""]),
            (json!(["xor", 1]), [bad, bad]),
            (json!([["=", 1, 1]]), [bad, bad]),
            (json!(["and", ["xor"]]), [bad, bad]),
            (json!({"and": 1}), [bad, bad]),
            (json!(7), [bad, bad]),
            (json!(0), ["", ""]),
            (json!([]), ["", ""]),
        ] {
            let request = json!({"hints": {"query": query.to_string()}});
            let got = verdicts("JsonFilter", &SchedulerOptions::default(), &request, &hosts);
            assert_eq!(got, expected, "{query}");
        }
        for (hint, expected) in [
            (json!("{"), bad),
            (json!(["[]", "[]"]), bad),
            (json!(""), ""),
        ] {
            let request = json!({"hints": {"query": hint}});
            let got = verdicts("JsonFilter", &SchedulerOptions::default(), &request, &hosts);
            assert_eq!(got, [expected; 2], "{hint}");
        }
    }

    #[test]
    fn rejected_hosts_share_the_text_of_a_query_and_report_few_variables() {
        let mut query = vec![json!("in"), json!("x".repeat(30_000))];
        query.extend((0..1000).map(|at| json!(format!("$nosuch{at}"))));
        let query = json!(query).to_string();
        let request = testing::request(&json!({"hints": {"query": query}}));
        let options = SchedulerOptions::default();
        let plan = JsonFilter.plan(&request, &options);
        let hosts = testing::hosts(&json!([{}, {}]));
        let mut why = hosts.into_iter().map(|mut host| {
            let why = plan.check(&mut host).expect_err("it is no host");
            assert!(why.to_string().len() < 2000, "{why}");
            let Reason::QueryNotSatisfied { query, values } = why else {
                panic!("{why}");
            };
            assert_eq!(values.len(), VALUES);
            query
        });
        let (a, b) = (why.next().expect("a host"), why.next().expect("a host"));
        assert!(Arc::ptr_eq(&a, &b));
    }
}
