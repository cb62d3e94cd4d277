//! The requested location of a guest: availability zone, host and node, requested or forced. Pure.

use berth_model::NodeName;
use berth_wire::conductor::CreateGuest;

use super::checks::is_line;
use super::error::BootRequestError;

/// Maximum number of `ignore_hosts`.
const MOST_IGNORED: usize = 1024;

/// The requested location of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BootTarget {
    pub(crate) zone: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) node: Option<NodeName>,
    /// Whether filters apply to the host and node.
    pub(crate) filters: HostFiltering,
}

/// Whether filters apply to a requested host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum HostFiltering {
    /// Requested: the filters apply.
    #[default]
    Applied,
    /// Forced: the filters are skipped.
    Skipped,
}

impl BootTarget {
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
                filters: HostFiltering::Skipped,
            });
        }
        Ok(Self {
            zone,
            host: body.host.clone(),
            node: read(body.node.as_deref())?,
            filters: HostFiltering::Applied,
        })
    }
}

/// Checks the texts of a new request.
pub(super) fn check(body: &CreateGuest) -> Result<(), BootRequestError> {
    let wrong = |field, expected| Err(BootRequestError::Text { field, expected });
    let zone = body.availability_zone.as_deref().unwrap_or_default();
    let mut parts = zone.splitn(3, ':');
    let zone = parts.next();
    let mut forced = parts.clone().filter(|it| !it.is_empty()).peekable();
    if forced.peek().is_some() && (body.host.is_some() || body.node.is_some()) {
        return wrong(
            "availability_zone",
            "it forces a host or node, so the fields host and node must not be set",
        );
    }
    let is_wrong = |text: &str| !is_line(text, 255) || text.contains(':');
    let is_nowhere = body.availability_zone.is_some() && forced.peek().is_none();
    // A host can be forced without a zone.
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
