//! Placement's microversions by feature. Handlers compare the request's version with these constants only.

use berth_http::{Microversion, MicroversionRange};

const fn v(minor: u16) -> Microversion {
    Microversion::new(1, minor)
}

pub(crate) const AGGREGATES: Microversion = v(1);
pub(crate) const RESOURCE_CLASSES: Microversion = v(2);
/// `member_of` on the list of providers.
pub(crate) const MEMBER_OF: Microversion = v(3);
/// `resources` on the list of providers.
pub(crate) const RESOURCES_FILTER: Microversion = v(4);
/// DELETE of all inventories.
pub(crate) const DELETE_INVENTORIES: Microversion = v(5);
pub(crate) const TRAITS: Microversion = v(6);
/// PUT of a class without a body creates it.
pub(crate) const CLASS_PUT_CREATES: Microversion = v(7);
/// Allocations name project and user.
pub(crate) const PROJECT_AND_USER: Microversion = v(8);
/// Usages of a project.
pub(crate) const TOTAL_USAGES: Microversion = v(9);
/// GET of allocation candidates.
pub(crate) const CANDIDATES: Microversion = v(10);
/// A link to allocations in a provider.
pub(crate) const ALLOCATIONS_LINK: Microversion = v(11);
/// Allocations as an object keyed by provider.
pub(crate) const ALLOCATIONS_BY_PROVIDER: Microversion = v(12);
pub(crate) const POST_ALLOCATIONS: Microversion = v(13);
pub(crate) const NESTED_PROVIDERS: Microversion = v(14);
/// The headers `last-modified` and `cache-control`.
pub(crate) const CACHE_HEADERS: Microversion = v(15);
/// The parameter `limit` of candidates.
pub(crate) const CANDIDATES_LIMIT: Microversion = v(16);
/// `required` on candidates, and traits in their summaries.
pub(crate) const CANDIDATES_REQUIRED: Microversion = v(17);
/// `required` on the list of providers.
pub(crate) const REQUIRED_FILTER: Microversion = v(18);
/// The generation in aggregates.
pub(crate) const AGGREGATES_GENERATION: Microversion = v(19);
/// POST of a provider returns it.
pub(crate) const PROVIDER_POST_BODY: Microversion = v(20);
/// The parameter `member_of` of candidates.
pub(crate) const CANDIDATES_MEMBER_OF: Microversion = v(21);
pub(crate) const FORBIDDEN_TRAITS: Microversion = v(22);
/// Errors have a `code`.
pub(crate) const ERROR_CODES: Microversion = v(23);
/// The parameter `member_of` may repeat.
pub(crate) const REPEATED_MEMBER_OF: Microversion = v(24);
/// Request groups with a number, each served by one provider.
pub(crate) const GRANULAR_GROUPS: Microversion = v(25);
/// `reserved` may equal `total`.
pub(crate) const RESERVED_MAY_EQUAL_TOTAL: Microversion = v(26);
/// Summaries have all classes, not only those asked for.
pub(crate) const WHOLE_SUMMARIES: Microversion = v(27);
pub(crate) const CONSUMER_GENERATIONS: Microversion = v(28);
/// A candidate may take from several providers of one tree.
pub(crate) const NESTED_CANDIDATES: Microversion = v(29);
pub(crate) const RESHAPER: Microversion = v(30);
/// The parameter `in_tree` of candidates.
pub(crate) const CANDIDATES_IN_TREE: Microversion = v(31);
pub(crate) const FORBIDDEN_AGGREGATES: Microversion = v(32);
/// Request groups with a text for a suffix.
pub(crate) const TEXT_SUFFIXES: Microversion = v(33);
/// `mappings` in allocations and candidates.
pub(crate) const MAPPINGS: Microversion = v(34);
/// The parameter `root_required` of candidates.
pub(crate) const ROOT_REQUIRED: Microversion = v(35);
/// `same_subtree` on candidates, and request groups without resources.
pub(crate) const SAME_SUBTREE: Microversion = v(36);
/// A provider may change or lose its parent.
pub(crate) const REPARENTING: Microversion = v(37);
pub(crate) const CONSUMER_TYPES: Microversion = v(38);
/// `in:` among required traits.
pub(crate) const ANY_TRAITS: Microversion = v(39);

pub(crate) const RANGE: MicroversionRange = MicroversionRange {
    service: "placement",
    min: v(0),
    max: v(39),
    error_codes_since: ERROR_CODES,
};
