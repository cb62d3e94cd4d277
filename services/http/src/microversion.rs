//! Microversions: `OpenStack-API-Version: SERVICE MAJOR.MINOR`.
//!
//! Parsed once per request, then carried as a value. A handler compares it with the constants of
//! its service's feature table and never reads the header again.

use std::fmt;

use http::{HeaderMap, StatusCode};

use crate::fault::Fault;

/// The header, both ways.
pub const HEADER: &str = "openstack-api-version";

/// Nova's own from before there was one for all services: the number alone.
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

    /// Whether this version has what came with `feature`.
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
    /// The oldest; also what a request without the header gets.
    pub min: Microversion,
    /// The newest; what `latest` means.
    pub max: Microversion,
    /// The first with `code` in the error document.
    pub error_codes_since: Microversion,
}

/// What the header says about this service.
enum Asked {
    Nothing,
    Version(String),
    /// A value without the service's name in it (Cyborg's manners only).
    Malformed,
}

impl MicroversionRange {
    /// The version a request asks for.
    ///
    /// Of several headers and values the last that names this service counts.
    pub fn negotiate(&self, headers: &HeaderMap) -> Result<Microversion, Fault> {
        match self.asked(headers).as_deref() {
            None => Ok(self.min),
            Some("latest") => Ok(self.max),
            Some(text) => self.within(text),
        }
    }

    /// The same by Cyborg's rules: a number may stand without the service's name, and what is no version is a 406 as well.
    pub fn negotiate_bare(&self, headers: &HeaderMap) -> Result<Microversion, Fault> {
        let malformed = || {
            let message = "Invalid value for OpenStack-API-Version header";
            Fault::not_acceptable_version(message, *self)
        };
        match self.asked_bare(headers) {
            Asked::Nothing => Ok(self.min),
            Asked::Malformed => Err(malformed()),
            Asked::Version(text) if text == "latest" => Ok(self.max),
            Asked::Version(text) => match self.within(&text) {
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

    /// The same by Nova's rules: where the header says nothing of this service, Nova's own older one counts.
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

    fn asked_bare(&self, headers: &HeaderMap) -> Asked {
        if let Some(version) = self.asked(headers) {
            return Asked::Version(version);
        }
        let mut values = headers
            .get_all(HEADER)
            .iter()
            .flat_map(|value| value.to_str().unwrap_or("?").split(','));
        match values.next_back().map(str::trim) {
            None => Asked::Nothing,
            Some(bare) if bare == "latest" || bare.starts_with(|c: char| c.is_ascii_digit()) => {
                Asked::Version(bare.to_owned())
            }
            // A version of another service is nothing to this one.
            Some(other) if other.contains(char::is_whitespace) => Asked::Nothing,
            Some(_) => Asked::Malformed,
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
