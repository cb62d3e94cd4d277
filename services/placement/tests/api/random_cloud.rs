//! Random clouds and random questions about them. `tests/databases` uses them as well.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const CLASSES: [&str; 3] = ["VCPU", "VGPU", "DISK_GB"];
const TRAITS: [&str; 3] = [
    "HW_CPU_X86_AVX2",
    "STORAGE_DISK_SSD",
    "MISC_SHARES_VIA_AGGREGATE",
];
const PROVIDERS: usize = 9;

/// One write that some client makes. Numbers name providers, consumers, aggregates out of a few.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Make {
        provider: usize,
        parent: Option<usize>,
    },
    Move {
        provider: usize,
        parent: Option<usize>,
    },
    Delete {
        provider: usize,
    },
    Inventories {
        provider: usize,
        inventories: BTreeMap<&'static str, Inventory>,
    },
    Traits {
        provider: usize,
        traits: Vec<&'static str>,
    },
    Aggregates {
        provider: usize,
        aggregates: Vec<usize>,
    },
    Claim {
        consumer: usize,
        takes: BTreeMap<usize, (&'static str, i64)>,
    },
    Release {
        consumer: usize,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Inventory {
    total: i64,
    reserved: i64,
    min_unit: i64,
    max_unit: i64,
    step_size: i64,
    ratio: f64,
}

fn some_inventory() -> impl Strategy<Value = Inventory> {
    let ratio = prop_oneof![4 => Just(1.0), 1 => Just(1.5), 1 => Just(0.35), 1 => Just(1.1)];
    let mostly_one = || prop_oneof![5 => Just(1), 1 => Just(2), 1 => Just(3)];
    let numbers = (
        2..12_i64,
        prop_oneof![3 => Just(0), 1 => 1..3_i64],
        mostly_one(),
        2..12_i64,
        mostly_one(),
        ratio,
    );
    numbers.prop_map(
        |(total, reserved, min_unit, max_unit, step_size, ratio)| Inventory {
            total,
            reserved: reserved.min(total),
            min_unit,
            max_unit,
            step_size,
            ratio,
        },
    )
}

fn some_of<T: Clone + std::fmt::Debug + 'static>(
    all: &'static [T],
) -> impl Strategy<Value = Vec<T>> {
    proptest::sample::subsequence(all, 0..=all.len())
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(all)
}

/// A cloud as it is made: most providers have something of everything.
pub(crate) fn some_cloud() -> impl Strategy<Value = Vec<Write>> {
    proptest::collection::vec(some_provider(), 2..PROVIDERS).prop_map(|providers| {
        let numbered = providers.into_iter().enumerate();
        numbered
            .flat_map(|(provider, (parent, inventories, traits, aggregates))| {
                let parent = parent
                    .filter(|_| provider > 0)
                    .map(|it| it % provider.max(1));
                [
                    Write::Make { provider, parent },
                    Write::Inventories {
                        provider,
                        inventories,
                    },
                    Write::Traits { provider, traits },
                    Write::Aggregates {
                        provider,
                        aggregates,
                    },
                ]
            })
            .collect()
    })
}

type Provider = (
    Option<usize>,
    BTreeMap<&'static str, Inventory>,
    Vec<&'static str>,
    Vec<usize>,
);

fn some_provider() -> impl Strategy<Value = Provider> {
    (
        proptest::option::weighted(0.4, 0..PROVIDERS),
        proptest::collection::btree_map(one_of(&CLASSES), some_inventory(), 1..4),
        some_of(&TRAITS),
        some_of(&[0, 1, 2]),
    )
}

pub(crate) fn some_write() -> impl Strategy<Value = Write> {
    let provider = || 0..PROVIDERS;
    let parent = || proptest::option::of(0..PROVIDERS);
    let take = (one_of(&CLASSES), 1..5_i64);
    let takes = proptest::collection::btree_map(provider(), take, 1..3);
    prop_oneof![
        1 => (provider(), parent()).prop_map(|(provider, parent)| Write::Make { provider, parent }),
        1 => (provider(), parent()).prop_map(|(provider, parent)| Write::Move { provider, parent }),
        1 => provider().prop_map(|provider| Write::Delete { provider }),
        2 => (provider(), some_provider())
            .prop_map(|(provider, (_, inventories, _, _))| Write::Inventories { provider, inventories }),
        1 => (provider(), some_of(&TRAITS)).prop_map(|(provider, traits)| Write::Traits { provider, traits }),
        1 => (provider(), some_of(&[0, 1, 2]))
            .prop_map(|(provider, aggregates)| Write::Aggregates { provider, aggregates }),
        6 => (0..6_usize, takes).prop_map(|(consumer, takes)| Write::Claim { consumer, takes }),
        1 => (0..6_usize).prop_map(|consumer| Write::Release { consumer }),
    ]
}

fn uuid(kind: char, n: usize) -> String {
    format!("{kind}0000000-0000-0000-0000-{n:012}")
}

impl Write {
    /// Makes the write, whatever the answer.
    pub(crate) async fn make(&self, service: &Router) -> StatusCode {
        let at = |provider: usize| format!("/resource_providers/{}", uuid('a', provider));
        let parent_uuid = |parent: Option<usize>| parent.map(|parent| uuid('a', parent));
        let generation = async |provider: usize| {
            let (_, shown) = ask(service, "1.39", "GET", &at(provider), None).await;
            shown["generation"].clone()
        };
        let (method, path, body) = match self {
            Self::Make { provider, parent } => {
                let uuid = uuid('a', *provider);
                let body = json!({"uuid": uuid, "name": uuid, "parent_provider_uuid": parent_uuid(*parent)});
                ("POST", "/resource_providers".to_owned(), Some(body))
            }
            Self::Move { provider, parent } => {
                let body = json!({"name": uuid('a', *provider), "parent_provider_uuid": parent_uuid(*parent)});
                ("PUT", at(*provider), Some(body))
            }
            Self::Delete { provider } => ("DELETE", at(*provider), None),
            Self::Inventories {
                provider,
                inventories,
            } => {
                let inventories = inventories.iter().map(|(class, it)| {
                    let inventory = json!({
                        "total": it.total, "reserved": it.reserved, "min_unit": it.min_unit, "max_unit": it.max_unit,
                        "step_size": it.step_size, "allocation_ratio": it.ratio,
                    });
                    ((*class).to_owned(), inventory)
                });
                let inventories: serde_json::Map<String, Value> = inventories.collect();
                let generation = generation(*provider).await;
                let body =
                    json!({"resource_provider_generation": generation, "inventories": inventories});
                ("PUT", format!("{}/inventories", at(*provider)), Some(body))
            }
            Self::Traits { provider, traits } => {
                let generation = generation(*provider).await;
                let body = json!({"resource_provider_generation": generation, "traits": traits});
                ("PUT", format!("{}/traits", at(*provider)), Some(body))
            }
            Self::Aggregates {
                provider,
                aggregates,
            } => {
                let uuids: Vec<String> = aggregates.iter().map(|n| uuid('b', *n)).collect();
                let generation = generation(*provider).await;
                let body = json!({"resource_provider_generation": generation, "aggregates": uuids});
                ("PUT", format!("{}/aggregates", at(*provider)), Some(body))
            }
            Self::Claim { consumer, takes } => {
                let path = format!("/allocations/{}", uuid('c', *consumer));
                let (_, shown) = ask(service, "1.39", "GET", &path, None).await;
                let takes = takes.iter().map(|(provider, (class, amount))| {
                    (uuid('a', *provider), json!({"resources": {*class: amount}}))
                });
                let allocations: serde_json::Map<String, Value> = takes.collect();
                let body = json!({
                    "allocations": allocations, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE",
                    "consumer_generation": shown["consumer_generation"],
                });
                ("PUT", path, Some(body))
            }
            Self::Release { consumer } => (
                "DELETE",
                format!("/allocations/{}", uuid('c', *consumer)),
                None,
            ),
        };
        ask(service, "1.39", method, &path, body).await.0
    }
}

/// One request for candidates.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    version: &'static str,
    query: String,
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Clone)]
struct Group {
    resources: BTreeMap<&'static str, i64>,
    required: Vec<String>,
    member_of: Vec<String>,
    in_tree: Option<usize>,
}

fn some_group() -> impl Strategy<Value = Group> {
    let resources = proptest::collection::btree_map(
        one_of(&CLASSES),
        prop_oneof![3 => 1..3_i64, 1 => 1..5_i64],
        1..3,
    );
    let required = prop_oneof![
        9 => Just(Vec::new()),
        1 => one_of(&TRAITS).prop_map(|it| vec![it.to_owned()]),
        1 => one_of(&TRAITS).prop_map(|it| vec![format!("!{it}")]),
        1 => Just(vec![format!("in:{},{}", TRAITS[0], TRAITS[1])]),
    ];
    let member_of = prop_oneof![
        12 => Just(Vec::new()),
        1 => (0..4_usize).prop_map(|it| vec![uuid('b', it)]),
        1 => (0..3_usize).prop_map(|it| vec![format!("!{}", uuid('b', it))]),
        1 => Just(vec![format!("in:{},{}", uuid('b', 0), uuid('b', 1)), uuid('b', 2)]),
        1 => Just(vec![format!("!in:{},{}", uuid('b', 0), uuid('b', 1))]),
    ];
    let in_tree = proptest::option::weighted(0.1, 0..PROVIDERS);
    (resources, required, member_of, in_tree).prop_map(
        |(resources, required, member_of, in_tree)| Group {
            resources,
            required,
            member_of,
            in_tree,
        },
    )
}

pub(crate) fn some_question() -> impl Strategy<Value = Question> {
    (
        proptest::option::weighted(0.7, some_group()),
        proptest::collection::vec(some_group(), 0..4),
        (
            any::<bool>(),
            proptest::bool::weighted(0.3),
            proptest::bool::weighted(0.1),
        ),
        prop_oneof![8 => Just(""), 1 => Just("HW_CPU_X86_AVX2"), 1 => Just("!STORAGE_DISK_SSD")],
        proptest::option::weighted(0.5, 1..6_usize),
        prop_oneof![5 => Just("1.39"), 1 => Just("1.28")],
    )
        .prop_map(
            |(spread, granular, (isolate, subtree, bare), root, limit, version)| {
                let newest = version == "1.39";
                let mut parts: Vec<String> = Vec::new();
                let spread = spread.or_else(|| granular.is_empty().then(plain));
                let named = granular.iter().enumerate();
                let mut groups: Vec<(String, &Group)> = named
                    .map(|(index, group)| (format!("{}", index + 1), group))
                    .collect();
                groups.extend(spread.as_ref().map(|group| (String::new(), group)));
                for (suffix, group) in &groups {
                    // A group that only restricts the position of others.
                    let is_bare = bare && subtree && newest && suffix == "1" && granular.len() > 1;
                    if !is_bare {
                        let resources = group.resources.iter();
                        let resources: Vec<String> = resources
                            .map(|(class, amount)| format!("{class}:{amount}"))
                            .collect();
                        parts.push(format!("resources{suffix}={}", resources.join(",")));
                    }
                    let known = |it: &&String| newest || !it.starts_with("in:");
                    for required in group.required.iter().filter(known) {
                        parts.push(format!("required{suffix}={required}"));
                    }
                    let known = |it: &&String| newest || !it.starts_with('!');
                    for member_of in group.member_of.iter().filter(known) {
                        parts.push(format!("member_of{suffix}={member_of}"));
                    }
                    if let Some(provider) = group.in_tree.filter(|_| newest) {
                        parts.push(format!("in_tree{suffix}={}", uuid('a', provider)));
                    }
                }
                if granular.len() > 1 {
                    let policy = if isolate { "isolate" } else { "none" };
                    parts.push(format!("group_policy={policy}"));
                    if subtree && newest {
                        let suffixes: Vec<String> =
                            (1..=granular.len()).map(|it| it.to_string()).collect();
                        parts.push(format!("same_subtree={}", suffixes.join(",")));
                    }
                }
                if newest && !root.is_empty() {
                    parts.push(format!("root_required={root}"));
                }
                parts.extend(limit.map(|limit| format!("limit={limit}")));
                Question {
                    version,
                    query: parts.join("&"),
                    limit,
                }
            },
        )
}

fn plain() -> Group {
    Group {
        resources: BTreeMap::from([(CLASSES[0], 1)]),
        required: Vec::new(),
        member_of: Vec::new(),
        in_tree: None,
    }
}

impl Question {
    /// The answer as far as it is not of the moment.
    pub(crate) async fn ask(&self, service: &Router) -> (StatusCode, Value) {
        let path = format!("/allocation_candidates?{}", self.query);
        let (status, mut body) = ask(service, self.version, "GET", &path, None).await;
        if let Some(error) = body.pointer_mut("/errors/0/request_id") {
            error.take();
        }
        (status, body)
    }
}

/// Its candidates in an order that is none's own.
pub(crate) fn sorted(mut answer: (StatusCode, Value)) -> (StatusCode, Value) {
    if let Some(requests) = answer.1["allocation_requests"].as_array_mut() {
        requests.sort_by_key(ToString::to_string);
    }
    answer
}

async fn ask(
    service: &Router,
    version: &str,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-auth-token", "admin")
        .header("openstack-api-version", format!("placement {version}"))
        .header("content-type", "application/json");
    let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
    let answer = service.clone().oneshot(request.body(body).unwrap()).await;
    let answer = answer.unwrap();
    let status = answer.status();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}
