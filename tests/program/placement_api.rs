//! A real Placement, and the actions of an operator, a scheduler or another service in it.

use berth_tests::exchange::HttpAnswer;
use berth_tests::peer::{Lease, PlacementSettings, RealPlacement};
use http::Method;
use serde_json::{Value, json};

/// Sharing providers carry it.
const SHARES: &str = "MISC_SHARES_VIA_AGGREGATE";

/// One Placement, empty at first.
pub(crate) struct Api {
    pub(crate) placement: Lease,
}

impl Api {
    pub(crate) fn lease() -> Self {
        let placement =
            RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
        Self { placement }
    }

    /// The lines of `[placement]` that lead to it.
    pub(crate) fn way(&self) -> String {
        way(&self.placement.url())
    }

    pub(crate) fn send(&self, method: Method, path: &str, body: &Value) -> HttpAnswer {
        let ask = self.placement.ask(method, path, "1.39");
        let ask = if body.is_null() { ask } else { ask.json(body) };
        ask.send().expect("an answer")
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: u16, method: Method, path: &str, body: &Value) -> Value {
        let answer = self.send(method, path, body);
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text());
        answer.json()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.expect(200, Method::GET, path, &Value::Null)
    }

    /// The providers of a tree: name and UUID.
    pub(crate) fn tree(&self, root: &str) -> Vec<(String, String)> {
        let body = self.get(&format!("/resource_providers?in_tree={root}"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut tree: Vec<_> = body["resource_providers"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|provider| (text(&provider["name"]), text(&provider["uuid"])))
            .collect();
        tree.sort();
        tree
    }

    /// The names of a tree.
    pub(crate) fn names(&self, root: &str) -> Vec<String> {
        self.tree(root).into_iter().map(|(name, _)| name).collect()
    }

    /// Gives an instance these resources: provider, class, amount.
    #[track_caller]
    pub(crate) fn claim(&self, consumer: &str, resources: &[(&str, &str, u64)]) {
        self.claim_as("INSTANCE", consumer, resources);
    }

    /// The same for a migration: Nova's source host has a guest's resources under the migration's UUID.
    #[track_caller]
    pub(crate) fn claim_for_migration(&self, consumer: &str, resources: &[(&str, &str, u64)]) {
        self.claim_as("MIGRATION", consumer, resources);
    }

    /// The same for a consumer of any type.
    #[track_caller]
    pub(crate) fn claim_as(&self, kind: &str, consumer: &str, resources: &[(&str, &str, u64)]) {
        let mut allocations = json!({});
        for (provider, class, amount) in resources {
            allocations[provider]["resources"][class] = json!(amount);
        }
        let body = json!({"allocations": allocations, "project_id": "p", "user_id": "u",
            "consumer_generation": null, "consumer_type": kind});
        self.expect(204, Method::PUT, &format!("/allocations/{consumer}"), &body);
    }

    /// What a consumer holds, in the order of providers' names and classes: provider's name, class, amount.
    pub(crate) fn held(&self, consumer: &str) -> Vec<(String, String, u64)> {
        let body = self.get(&format!("/allocations/{consumer}"));
        let mut held = Vec::new();
        for (provider, of) in body["allocations"].as_object().into_iter().flatten() {
            let name = self.get(&format!("/resource_providers/{provider}"));
            let name = name["name"].as_str().unwrap_or_default();
            for (class, amount) in of["resources"].as_object().into_iter().flatten() {
                let amount = amount.as_u64().unwrap_or_default();
                held.push((name.to_owned(), class.clone(), amount));
            }
        }
        held.sort();
        held
    }

    /// The consumer's type, as Placement has it.
    pub(crate) fn consumer_type(&self, consumer: &str) -> String {
        let body = self.get(&format!("/allocations/{consumer}"));
        body["consumer_type"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// A provider's inventory: class, total, reserved.
    pub(crate) fn inventory(&self, provider: &str) -> Vec<(String, u64, u64)> {
        let body = self.get(&format!("/resource_providers/{provider}/inventories"));
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let inventories = body["inventories"].as_object().cloned().unwrap_or_default();
        let mut rows: Vec<_> = inventories
            .iter()
            .map(|(class, of)| (class.clone(), number(&of["total"]), number(&of["reserved"])))
            .collect();
        rows.sort();
        rows
    }

    /// Adds a trait to a provider, as an operator does; its generation moves.
    pub(crate) fn add_trait(&self, provider: &str, name: &str) {
        self.send(Method::PUT, &format!("/traits/{name}"), &Value::Null);
        let path = format!("/resource_providers/{provider}/traits");
        let mut body = self.get(&path);
        body["traits"]
            .as_array_mut()
            .expect("a list")
            .push(json!(name));
        self.expect(200, Method::PUT, &path, &body);
    }

    /// A provider with a disk that the tree of `root` shares.
    pub(crate) fn shared_storage(&self, uuid: &str, root: &str, total: u64) {
        let body = json!({"name": format!("storage-{uuid}"), "uuid": uuid});
        self.expect(200, Method::POST, "/resource_providers", &body);
        self.add_trait(uuid, SHARES);
        self.storage_inventory(uuid, &json!({"total": total}));
        for provider in [uuid, root] {
            let path = format!("/resource_providers/{provider}");
            let generation = self.get(&path)["generation"].clone();
            let body = json!({"aggregates": ["4c7bf8a5-2d5a-4f63-a3f4-1f2a9d5e7b10"],
                "resource_provider_generation": generation});
            self.expect(200, Method::PUT, &format!("{path}/aggregates"), &body);
        }
    }

    /// Sets the disk inventory of a provider.
    pub(crate) fn storage_inventory(&self, uuid: &str, inventory: &Value) {
        let path = format!("/resource_providers/{uuid}");
        let generation = self.get(&path)["generation"].clone();
        let body = json!({"resource_provider_generation": generation, "inventories": {"DISK_GB": inventory}});
        self.expect(200, Method::PUT, &format!("{path}/inventories"), &body);
    }
}

/// The lines of `[placement]` that lead to a Placement which takes the token `admin`.
pub(crate) fn way(url: &str) -> String {
    format!("auth_type = \"admin_token\"\nendpoint = \"{url}\"\ntoken = \"admin\"")
}
