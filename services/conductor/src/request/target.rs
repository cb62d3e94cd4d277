//! Where a guest may be: zone, destination, forced host. Pure.

use berth_model::NodeName;
use berth_wire::conductor::CreateGuest;

use super::BootRequestError;
use super::checks::is_line;

/// The most hosts that a guest may be kept from.
const MOST_IGNORED: usize = 1024;

/// Where a guest may be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Target {
    pub(crate) zone: Option<String>,
    /// The host, and whether filters are asked about it.
    pub(crate) host: Option<String>,
    pub(crate) node: Option<NodeName>,
    /// Whether filters are asked about them.
    pub(crate) filters: Filters,
}

/// Whether filters are asked about the host that a guest is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Filters {
    /// They are: it is requested.
    #[default]
    Asked,
    /// They are not: it is forced.
    Skipped,
}

impl Target {
    pub(super) fn of(body: &CreateGuest) -> Result<Self, BootRequestError> {
        let wrong = |error: &dyn std::fmt::Display| BootRequestError::Node(error.to_string());
        let read =
            |name: Option<&str>| name.map(NodeName::new).transpose().map_err(|it| wrong(&it));
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let zone = body.availability_zone.as_deref().unwrap_or_default();
        let mut parts = zone.splitn(3, ':');
        let mut next = || parts.next().and_then(some);
        let (zone, host, node) = (next(), next(), next());
        if host.is_some() || node.is_some() {
            return Ok(Self {
                zone,
                host,
                node: read(node.as_deref())?,
                filters: Filters::Skipped,
            });
        }
        Ok(Self {
            zone,
            host: body.host.clone(),
            node: read(body.node.as_deref())?,
            filters: Filters::Asked,
        })
    }
}

/// The texts of a new request.
pub(super) fn check(body: &CreateGuest) -> Result<(), BootRequestError> {
    let wrong = |field, expected| Err(BootRequestError::Text { field, expected });
    let zone = body.availability_zone.as_deref().unwrap_or_default();
    let mut parts = zone.splitn(3, ':');
    let zone = parts.next();
    let mut forced = parts.clone().filter(|it| !it.is_empty()).peekable();
    if forced.peek().is_some() && (body.host.is_some() || body.node.is_some()) {
        return wrong(
            "availability_zone",
            "it forces a host or a node, so that host and node must not ask for one",
        );
    }
    let is_wrong = |text: &str| !is_line(text, 255) || text.contains(':');
    let is_nowhere = body.availability_zone.is_some() && forced.peek().is_none();
    // A host may be forced in whatever zone it is.
    let is_wrong_zone = zone.is_some_and(|zone| match zone {
        "" => is_nowhere,
        zone => is_wrong(zone),
    });
    if is_wrong_zone || forced.any(is_wrong) {
        return wrong(
            "availability_zone",
            "ZONE, ZONE:HOST, ZONE:HOST:NODE or ZONE::NODE is expected, each of 1 to 255 bytes of printable characters",
        );
    }
    let ignored = body.ignore_hosts.iter().any(|host| !is_line(host, 255));
    if ignored || body.ignore_hosts.len() > MOST_IGNORED {
        return wrong(
            "ignore_hosts",
            "at most 1024 are allowed, each of 1 to 255 bytes of printable characters, with no blanks at the ends",
        );
    }
    match body.host.as_ref().is_some_and(|host| !is_line(host, 255)) {
        true => wrong(
            "host",
            "1 to 255 bytes of printable characters are allowed, with no blanks at the ends",
        ),
        false => Ok(()),
    }
}
