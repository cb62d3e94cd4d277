//! Tests that parsing and printing are inverse, and that a relaxation changes only the demand it leaves out.

use proptest::prelude::*;

use super::*;

const ALL_OF_IT: &str = "resources=MEMORY_MB%3A512%2CVCPU%3A2&required=HW_A%2C%21HW_B&required=in%3AHW_C%2CHW_D\
    &member_of=%21in%3Aa%2Cb&in_tree=t&resources_1=VGPU%3A1&required_1=CUSTOM_A&required_cell=HW_NUMA_ROOT\
    &group_policy=isolate&same_subtree=_1%2C_cell&root_required=X%2C%21COMPUTE_STATUS_DISABLED&limit=7";

fn words(query: &CandidatesQuery) -> Vec<String> {
    let relaxed = query.relaxations();
    relaxed.iter().map(|it| it.without.to_string()).collect()
}

#[test]
fn a_query_is_read_as_a_log_shows_it() {
    let query = CandidatesQuery::read(ALL_OF_IT).unwrap();
    let mut parts: Vec<_> = ALL_OF_IT.split('&').collect();
    let again = query.query();
    let mut written: Vec<_> = again.split('&').collect();
    parts.sort_unstable();
    written.sort_unstable();
    assert_eq!(written, parts);
    assert_eq!(query.microversion(), 39);
    for around in [
        format!("/allocation_candidates?{ALL_OF_IT}"),
        format!("GET http://placement/allocation_candidates?{ALL_OF_IT} HTTP/1.1"),
        format!("\"GET /allocation_candidates?{ALL_OF_IT}\" status: 200"),
        "resources=VCPU:2,MEMORY_MB:512&required=HW_A,!HW_B&required=in:HW_C,HW_D&member_of=!in:a,b&in_tree=t\
         &resources_1=VGPU:1&required_1=CUSTOM_A&required_cell=HW_NUMA_ROOT&group_policy=isolate\
         &same_subtree=_1,_cell&root_required=X,!COMPUTE_STATUS_DISABLED&limit=7"
            .to_owned(),
    ] {
        assert_eq!(CandidatesQuery::read(&around).unwrap(), query, "{around}");
    }
}

#[test]
fn every_demand_of_a_query_has_its_word() {
    let query = CandidatesQuery::read(ALL_OF_IT).unwrap();
    assert_eq!(
        words(&query),
        [
            "trait CUSTOM_A in group _1",
            "trait HW_NUMA_ROOT in group _cell",
            "trait HW_A",
            "one of the traits HW_C, HW_D",
            "no trait HW_B",
            "none of the aggregates a, b",
            "1 VGPU in group _1",
            "512 MEMORY_MB",
            "2 VCPU",
            "trait X of the host",
            "a host that is not disabled",
            "one provider with the others below it for groups _1, _cell",
            "a provider of its own for each group",
            "exactly the host t",
        ]
    );
    let without = |word: &str| {
        let relaxed = query.relaxations();
        let found = relaxed
            .into_iter()
            .find(|it| it.without.to_string() == word);
        found.unwrap().query.query()
    };
    // With the last resource of a group, the group is left out, with everything that refers to it.
    let vgpu = without("1 VGPU in group _1");
    for gone in ["_1", "same_subtree", "_cell"] {
        assert!(!vgpu.contains(gone), "{gone}: {vgpu}");
    }
    // A group without resources is there for the subtree alone.
    let loose = without("one provider with the others below it for groups _1, _cell");
    assert!(
        !loose.contains("_cell") && loose.contains("resources_1"),
        "{loose}"
    );
    assert!(without("a provider of its own for each group").contains("group_policy=none"));
}

#[test]
fn the_last_resource_cannot_be_left_out_but_asked_less_of() {
    let query = CandidatesQuery::read("resources=VCPU:1&required=HW_A").unwrap();
    assert_eq!(words(&query), ["trait HW_A"]);
    let several = CandidatesQuery::read("resourcesa=VCPU:9").unwrap();
    let [relaxed] = &several.relaxations()[..] else {
        panic!("{several:?}")
    };
    assert_eq!(relaxed.without.to_string(), "9 VCPU in group a");
    assert_eq!(relaxed.query.query(), "resourcesa=VCPU%3A1");
    assert_eq!(query.microversion(), 36);
}

#[test]
fn what_is_no_query_is_refused_with_the_part_that_is_none() {
    for (text, part) in [
        ("", "the query is empty"),
        ("limit=3", "the query is empty"),
        ("resources", "\"resources\" is not a parameter"),
        ("resources=VCPU", "resources=\"VCPU\""),
        ("resources=VCPU:0", "amounts from 1"),
        ("resources=VCPU:-1", "amounts from 1"),
        ("resources=VCPU:99999999999999999999", "amounts from 1"),
        ("resources=VCPU:1,,", "separated by commas"),
        (
            "resources=VCPU:1&resources=VCPU:2",
            "resources is given twice",
        ),
        ("resources=%zz", "percent-encoded"),
        ("resources=%ff", "percent-encoded"),
        ("resources=%f", "percent-encoded"),
        ("resource=VCPU:1", "no parameter \"resource\""),
        ("resources=VCPU:1&requiredä=A", "no parameter"),
        ("resources=VCPU:1&required=", "traits"),
        ("resources=VCPU:1&limit=0", "at least 1"),
        ("resources=VCPU:1&group_policy=some", "none or isolate"),
        ("resources=VCPU:1&in_tree=", "UUID"),
    ] {
        let error = CandidatesQuery::read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,80}", name in "(resources|required|member_of|in_tree|limit|same_subtree)[_a-z0-9]{0,3}") {
        for text in [text.clone(), format!("{name}={text}"), format!("resources=A:1&{name}={text}")] {
            if let Ok(query) = CandidatesQuery::read(&text) {
                let again = CandidatesQuery::read(&query.query()).unwrap();
                prop_assert_eq!(&again, &query);
                for relaxed in query.relaxations() {
                    prop_assert!(relaxed.query.is_valid());
                    prop_assert_ne!(relaxed.query, query.clone());
                }
            }
        }
    }
}
