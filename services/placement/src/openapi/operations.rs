//! The operation of each method and path: its parameters, body and responses.

use berth_http::Microversion;
use berth_wire::placement::{
    AllocationCandidates, AllocationsOfConsumer, AllocationsOfProvider, InventoryBody,
    ProviderAggregates, ProviderBody, ProviderInventories, ProviderList, ProviderTraits,
    ProviderUsages, ResourceClassBody, ResourceClassList, TraitList, VersionDocument,
};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{Shapes, query};
use crate::microversions::{self as since, RANGE};
use crate::schemas;

/// One method of one path.
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) does: &'static str,
    /// The first microversion with this operation.
    pub(super) since: Microversion,
    /// How older microversions differ.
    pub(super) older: Option<&'static str>,
    pub(super) query: Vec<Value>,
    /// The schema of the request body.
    pub(super) asks: Option<Value>,
    pub(super) answers: Vec<SuccessResponse>,
}

/// One successful response of an operation.
pub(super) struct SuccessResponse {
    pub(super) status: u16,
    pub(super) says: &'static str,
    pub(super) body: Option<Value>,
}

impl Operation {
    fn new(name: &'static str, does: &'static str) -> Self {
        Self {
            name,
            does,
            since: RANGE.min,
            older: None,
            query: Vec::new(),
            asks: None,
            answers: Vec::new(),
        }
    }

    fn since(self, since: Microversion) -> Self {
        Self { since, ..self }
    }

    fn older(self, note: &'static str) -> Self {
        let older = Some(note);
        Self { older, ..self }
    }

    fn query(self, query: Vec<Value>) -> Self {
        Self { query, ..self }
    }

    fn asks(self, schema: &berth_http::BodySchema) -> Self {
        let asks = Some(schema.to_json_schema());
        Self { asks, ..self }
    }

    fn answers(mut self, status: u16, says: &'static str, body: Option<Value>) -> Self {
        self.answers.push(SuccessResponse { status, says, body });
        self
    }

    fn found<T: JsonSchema>(self, shapes: &mut Shapes) -> Self {
        self.answers(200, "The current state.", Some(shapes.of::<T>()))
    }

    fn now<T: JsonSchema>(self, shapes: &mut Shapes) -> Self {
        self.answers(200, "The state after the change.", Some(shapes.of::<T>()))
    }

    fn done(self) -> Self {
        self.answers(204, "The action is done.", None)
    }
}

/// The operation of a method and path; `None` if it is not described here.
pub(super) fn of(shapes: &mut Shapes, method: &str, path: &str) -> Option<Operation> {
    if let Some(rest) = path.strip_prefix("/resource_providers/{uuid}/") {
        return of_provider(shapes, method, rest);
    }
    let newest = RANGE.max;
    let new = Operation::new;
    Some(match (method, path) {
        ("GET", "/") => new("versions", "Lists the supported microversions. No token is needed.")
            .found::<VersionDocument>(shapes),
        ("GET", "/resource_providers") => new("listProviders", "Lists resource providers.")
            .query(query::keys_of(&schemas::list_providers(newest)))
            .older("`member_of` from 1.3, `resources` from 1.4, `in_tree` from 1.14, `required` from 1.18.")
            .found::<ProviderList>(shapes),
        ("POST", "/resource_providers") => new("createProvider", "Creates a resource provider.")
            .asks(&schemas::create_provider(newest))
            .older("`parent_provider_uuid` from 1.14. Before 1.20 the answer is 201 without a body.")
            .now::<ProviderBody>(shapes),
        ("GET", "/resource_providers/{uuid}") => new("showProvider", "Shows a resource provider.")
            .older("Parent and root from 1.14.")
            .found::<ProviderBody>(shapes),
        ("PUT", "/resource_providers/{uuid}") => {
            new("updateProvider", "Renames a resource provider, or gives it another parent.")
                .asks(&schemas::update_provider(newest))
                .older("A parent can be set once from 1.14, and changed or removed from 1.37.")
                .now::<ProviderBody>(shapes)
        }
        ("DELETE", "/resource_providers/{uuid}") => {
            new("deleteProvider", "Deletes a resource provider without allocations and children.").done()
        }
        ("GET", "/allocation_candidates") => {
            new("listCandidates", "Lists the claims that are possible now.")
                .since(since::CANDIDATES)
                .query(query::candidates())
                .older("Before 1.12 the allocations of a request are a list; `mappings` from 1.34.")
                .found::<AllocationCandidates>(shapes)
        }
        ("POST", "/allocations") => new("replaceAllocations", "Replaces the allocations of several consumers in one transaction.")
            .since(since::POST_ALLOCATIONS)
            .asks(&schemas::post_allocations(newest))
            .older("`consumer_generation` from 1.28, `mappings` from 1.34, `consumer_type` from 1.38.")
            .done(),
        ("GET", "/allocations/{consumer_uuid}") => new("showAllocations", "Lists a consumer's allocations. The list of an unknown consumer is empty.")
            .older("Project and user from 1.12, the generation from 1.28, the type from 1.38.")
            .found::<AllocationsOfConsumer>(shapes),
        ("PUT", "/allocations/{consumer_uuid}") => new("setAllocations", "Replaces the allocations of a consumer; an empty body releases all of them.")
            .asks(&schemas::put_allocations(newest))
            .older("Before 1.12 the allocations are a list, before 1.28 there must be one; project and user from 1.8, \
                    `consumer_generation` from 1.28, `mappings` from 1.34, `consumer_type` from 1.38.")
            .done(),
        ("DELETE", "/allocations/{consumer_uuid}") => {
            new("deleteAllocations", "Releases all allocations of a consumer.").done()
        }
        ("GET", "/usages") => new("showUsages", "Shows the usage of a project or of one of its users.")
            .since(since::TOTAL_USAGES)
            .query(query::keys_of(&schemas::total_usages(newest)))
            .older("Before 1.38 amounts by class only, not by consumer type.")
            .answers(200, "Amounts by class and the number of consumers, for each consumer type.", Some(usages())),
        ("POST", "/reshaper") => {
            new("reshape", "Replaces inventories and allocations in one transaction, all or nothing.")
                .since(since::RESHAPER)
                .asks(&schemas::reshape(newest))
                .older("`mappings` from 1.34, `consumer_type` from 1.38.")
                .done()
        }
        _ => return of_name(shapes, method, path),
    })
}

fn of_name(shapes: &mut Shapes, method: &str, path: &str) -> Option<Operation> {
    let new = |name, does| Operation::new(name, does).since(since::RESOURCE_CLASSES);
    let of_trait = |name, does| Operation::new(name, does).since(since::TRAITS);
    Some(match (method, path) {
        ("GET", "/resource_classes") => {
            new("listResourceClasses", "Lists resource classes.").found::<ResourceClassList>(shapes)
        }
        ("POST", "/resource_classes") => new("createResourceClass", "Creates a resource class.")
            .asks(&schemas::RESOURCE_CLASS)
            .answers(201, "The object is created.", None),
        ("GET", "/resource_classes/{name}") => {
            new("showResourceClass", "Shows a resource class.").found::<ResourceClassBody>(shapes)
        }
        ("PUT", "/resource_classes/{name}") => new(
            "ensureResourceClass",
            "Creates a resource class unless it exists.",
        )
        .older("Before 1.7 it takes a body with another name for the class, and answers 200.")
        .answers(201, "The object is created.", None)
        .answers(204, "The object already existed.", None),
        ("DELETE", "/resource_classes/{name}") => new(
            "deleteResourceClass",
            "Deletes a custom resource class that no inventory uses.",
        )
        .done(),
        ("GET", "/traits") => of_trait("listTraits", "Lists traits.")
            .query(query::keys_of(&schemas::LIST_TRAITS))
            .found::<TraitList>(shapes),
        ("GET", "/traits/{name}") => of_trait("showTrait", "Checks whether a trait exists.")
            .answers(204, "The object exists.", None),
        ("PUT", "/traits/{name}") => of_trait("ensureTrait", "Creates a trait unless it exists.")
            .answers(201, "The object is created.", None)
            .answers(204, "The object already existed.", None),
        ("DELETE", "/traits/{name}") => of_trait(
            "deleteTrait",
            "Deletes a custom trait that no provider has.",
        )
        .done(),
        _ => return None,
    })
}

/// Below `/resource_providers/{uuid}/`.
fn of_provider(shapes: &mut Shapes, method: &str, rest: &str) -> Option<Operation> {
    let new = Operation::new;
    Some(match (method, rest) {
        ("GET", "inventories") => new("listInventories", "Lists the inventories of a provider.")
            .found::<ProviderInventories>(shapes),
        ("POST", "inventories") => new("createInventory", "Adds one inventory.")
            .asks(&schemas::NEW_INVENTORY)
            .answers(201, "The object is created.", Some(one_inventory(shapes))),
        ("PUT", "inventories") => new("setInventories", "Replaces all inventories of a provider.")
            .asks(&schemas::INVENTORIES)
            .older("`reserved` may equal `total` from 1.26.")
            .now::<ProviderInventories>(shapes),
        ("DELETE", "inventories") => new(
            "deleteInventories",
            "Deletes all inventories of a provider.",
        )
        .since(since::DELETE_INVENTORIES)
        .done(),
        ("GET", "inventories/{resource_class}") => new("showInventory", "One inventory.").answers(
            200,
            "The current state.",
            Some(one_inventory(shapes)),
        ),
        ("PUT", "inventories/{resource_class}") => new("updateInventory", "Changes one inventory.")
            .asks(&schemas::INVENTORY)
            .answers(
                200,
                "The state after the change.",
                Some(one_inventory(shapes)),
            ),
        ("DELETE", "inventories/{resource_class}") => new(
            "deleteInventory",
            "Deletes one inventory without allocations.",
        )
        .done(),
        ("GET", "usages") => new("showProviderUsages", "Shows the usage of a provider.")
            .found::<ProviderUsages>(shapes),
        ("GET", "aggregates") => new("showAggregates", "Lists the aggregates of a provider.")
            .since(since::AGGREGATES)
            .older("The generation from 1.19.")
            .found::<ProviderAggregates>(shapes),
        ("PUT", "aggregates") => new("setAggregates", "Replaces the aggregates of a provider.")
            .since(since::AGGREGATES)
            .asks(&schemas::AGGREGATES)
            .older("Before 1.19 the body is the list alone, without a generation.")
            .now::<ProviderAggregates>(shapes),
        ("GET", "allocations") => new(
            "listProviderAllocations",
            "Lists the allocations on a provider by consumer.",
        )
        .older("Consumers' generations from 1.28.")
        .found::<AllocationsOfProvider>(shapes),
        ("GET", "traits") => new("showTraits", "Lists the traits of a provider.")
            .since(since::TRAITS)
            .found::<ProviderTraits>(shapes),
        ("PUT", "traits") => new("setTraits", "Replaces the traits of a provider.")
            .since(since::TRAITS)
            .asks(&schemas::PROVIDER_TRAITS)
            .now::<ProviderTraits>(shapes),
        ("DELETE", "traits") => new("deleteTraits", "Removes all traits from a provider.")
            .since(since::TRAITS)
            .done(),
        _ => return None,
    })
}

/// A single inventory includes the generation.
fn one_inventory(shapes: &mut Shapes) -> Value {
    let generation = json!({
        "type": "object",
        "properties": {"resource_provider_generation": {"type": "integer"}},
        "required": ["resource_provider_generation"],
    });
    json!({"allOf": [shapes.of::<InventoryBody>(), generation]})
}

fn usages() -> Value {
    let amounts = json!({"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}, "required": ["consumer_count"]});
    json!({
        "type": "object",
        "properties": {"usages": {"type": "object", "additionalProperties": amounts}},
        "required": ["usages"],
    })
}
