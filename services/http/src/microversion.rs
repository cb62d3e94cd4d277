//! Microversions: `OpenStack-API-Version: SERVICE MAJOR.MINOR`.
//!
//! The header is parsed once per request. Handlers compare the value with the constants of their service's feature
//! table and never read the header again.

use std::fmt;

use http::{HeaderMap, StatusCode};

use crate::fault::Fault;

/// The header, both ways.
pub const HEADER: &str = "openstack-api-version";

/// Nova's older version header: the number alone.
pub const NOVA_HEADER: &str = "x-openstack-nova-api-version";

/// One version of an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Microversion {
    /// The part before the dot.
    pub major: u16,
    /// The part after the dot.
    pub minor: u16,
}

impl Microversion {
    /// `major.minor`.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Whether this version includes `feature`.
    #[must_use]
    pub fn has(self, feature: Self) -> bool {
        self >= feature
    }
}

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The versions a service speaks.
#[derive(Debug, Clone, Copy)]
pub struct MicroversionRange {
    /// The service's type in the header and the catalog, e.g. `placement`.
    pub service: &'static str,
    /// The oldest supported version, which a request without the header gets.
    pub min: Microversion,
    /// The newest supported version, which `latest` stands for.
    pub max: Microversion,
    /// The first with `code` in the error document.
    pub error_codes_since: Microversion,
}

/// The version header's value for this service.
enum RequestedVersion {
    Nothing,
    Version(String),
    /// A value without the service's name (allowed in [`ApiDialect::Cyborg`] only).
    Malformed,
}

impl MicroversionRange {
    /// The version that a request asks for.
    ///
    /// If there are several headers or values, the last value with this service counts.
    pub fn negotiate(&self, headers: &HeaderMap) -> Result<Microversion, Fault> {
        match self.asked(headers).as_deref() {
            None => Ok(self.min),
            Some("latest") => Ok(self.max),
            Some(text) => self.within(text),
        }
    }

    /// Negotiates by Cyborg's rules: the number may omit the service's name, and a malformed version is a 406.
    pub fn negotiate_bare(&self, headers: &HeaderMap) -> Result<Microversion, Fault> {
        let malformed = || {
            let message = "Invalid value for OpenStack-API-Version header";
            Fault::not_acceptable_version(message, *self)
        };
        match self.asked_bare(headers) {
            RequestedVersion::Nothing => Ok(self.min),
            RequestedVersion::Malformed => Err(malformed()),
            RequestedVersion::Version(text) if text == "latest" => Ok(self.max),
            RequestedVersion::Version(text) => match self.within(&text) {
                Err(fault) if fault.status() == StatusCode::BAD_REQUEST => Err(malformed()),
                Err(_) => Err(Fault::not_acceptable_version(
                    format!(
                        "Version {text} was requested but the minor version is not supported by this service. The \
                         supported version range is: [{}, {}].",
                        self.min, self.max
                    ),
                    *self,
                )),
                known => known,
            },
        }
    }

    /// Negotiates by Nova's rules: if the header does not name this service, Nova's older header counts.
    pub fn negotiate_nova(&self, headers: &HeaderMap) -> Result<Microversion, Fault> {
        let older = || {
            let value = headers.get(NOVA_HEADER)?;
            Some(value.to_str().unwrap_or("?").trim().to_owned())
        };
        let text = match self.asked(headers).or_else(older) {
            None => return Ok(self.min),
            Some(text) if text == "latest" => return Ok(self.max),
            Some(text) => text,
        };
        if !is_novas(&text) {
            return Err(Fault::bad_request(format!(
                "API Version String {text} is of invalid format. Must be of format MajorNum.MinorNum."
            )));
        }
        self.within(&text).map_err(|_| {
            let message = format!(
                "Version {text} is not supported by the API. Minimum is {} and maximum is {}.",
                self.min, self.max
            );
            Fault::not_acceptable_version(message, *self)
        })
    }

    fn asked_bare(&self, headers: &HeaderMap) -> RequestedVersion {
        if let Some(version) = self.asked(headers) {
            return RequestedVersion::Version(version);
        }
        let mut values = headers
            .get_all(HEADER)
            .iter()
            .flat_map(|value| value.to_str().unwrap_or("?").split(','));
        match values.next_back().map(str::trim) {
            None => RequestedVersion::Nothing,
            Some(bare) if bare == "latest" || bare.starts_with(|c: char| c.is_ascii_digit()) => {
                RequestedVersion::Version(bare.to_owned())
            }
            // A version of another service is nothing to this one.
            Some(other) if other.contains(char::is_whitespace) => RequestedVersion::Nothing,
            Some(_) => RequestedVersion::Malformed,
        }
    }

    fn asked(&self, headers: &HeaderMap) -> Option<String> {
        headers
            .get_all(HEADER)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|value| value.trim().split_once(char::is_whitespace))
            .filter(|(service, _)| service.eq_ignore_ascii_case(self.service))
            .map(|(_, version)| version.trim().to_owned())
            .next_back()
    }

    fn within(&self, text: &str) -> Result<Microversion, Fault> {
        let (major, minor) = parse(text)?;
        let known = |major: i64, minor: i64| {
            let version = Microversion::new(major.try_into().ok()?, minor.try_into().ok()?);
            (self.min..=self.max).contains(&version).then_some(version)
        };
        known(major, minor).ok_or_else(|| {
            Fault::not_acceptable_version(
                format!("Invalid microversion: Unacceptable version header: {text}"),
                *self,
            )
        })
    }
}

/// Whether Nova reads a text as a version: two numbers as they are written, without signs, blanks, or zeros before them.
fn is_novas(text: &str) -> bool {
    let is_number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits && (part == "0" || !part.starts_with('0'))
    };
    text.split_once('.')
        .is_some_and(|(major, minor)| major != "0" && is_number(major) && is_number(minor))
}

fn parse(text: &str) -> Result<(i64, i64), Fault> {
    let malformed = |reason: String| {
        Fault::bad_request(format!(
            "Invalid microversion: invalid version string: {text}; {reason}"
        ))
    };
    let number = |part: &str| {
        part.trim()
            .parse::<i64>()
            .map_err(|_| malformed(format!("{part:?} is not a whole number")))
    };
    match text.split_once('.') {
        Some((major, minor)) => Ok((number(major)?, number(minor)?)),
        None => {
            number(text)?;
            Err(malformed("the minor part is missing".to_owned()))
        }
    }
}
