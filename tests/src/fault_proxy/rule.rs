//! Rules of the fault proxy: which requests get a fault, and which fault.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

/// An error answer that the proxy gives by itself, in the shape of OpenStack's services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorAnswer {
    pub status: StatusCode,
    /// The `code` of the error object.
    pub code: &'static str,
    /// The `detail` of the error object.
    pub detail: &'static str,
}

impl ErrorAnswer {
    pub const BAD_REQUEST: Self = Self {
        status: StatusCode::BAD_REQUEST,
        code: "placement.undefined_code",
        detail: "injected by the test",
    };
    /// 401, as keystonemiddleware answers an expired token.
    pub const UNAUTHORIZED: Self = Self {
        status: StatusCode::UNAUTHORIZED,
        code: "",
        detail: "The request you have made requires authentication.",
    };
    pub const FORBIDDEN: Self = Self {
        status: StatusCode::FORBIDDEN,
        code: "placement.undefined_code",
        detail: "injected by the test",
    };
    /// 409 for a generation that is not the current one.
    pub const CONFLICT: Self = Self {
        status: StatusCode::CONFLICT,
        code: "placement.concurrent_update",
        detail: "resource provider generation conflict",
    };
    /// 409 with the code Placement gives where it has none, for instance over capacity.
    pub const REFUSED: Self = Self {
        status: StatusCode::CONFLICT,
        code: "placement.undefined_code",
        detail: "injected by the test",
    };
    pub const INTERNAL: Self = Self {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        code: "placement.undefined_code",
        detail: "injected by the test",
    };
    pub const UNAVAILABLE: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        code: "placement.undefined_code",
        detail: "injected by the test",
    };
}

/// What happens to a request.
#[derive(Clone)]
pub enum ProxyFault {
    /// The proxy answers; the service sees nothing (F1, F5, F6).
    Answer(ErrorAnswer),
    /// The connection is cut; the service sees nothing (F1).
    DropBefore,
    /// The service does it, then the connection is cut (F2: answer lost).
    DropAfter,
    /// The service gets it twice; the client gets the second answer (F3).
    Twice,
    /// Waits, then forwards (F4, F9).
    DelayBefore(Duration),
    /// Forwards, then waits with the answer (F4).
    DelayAfter(Duration),
    /// The service does it; half of the answer's body arrives, then the connection is cut (F11).
    Truncate,
    /// The service does it; the answer's status stays, its body becomes bytes that are not JSON (F11).
    Garbage,
    /// The service does it; the answer's body never ends (F11).
    Endless,
    /// The closure runs, then the connection is cut; the service sees nothing (F7: kill before the request is out).
    Instead(Arc<dyn Fn() + Send + Sync>),
    /// The closure runs, then the request is forwarded (F7: kill before the effect).
    Before(Arc<dyn Fn() + Send + Sync>),
    /// The request is forwarded, then the closure runs, then the answer goes out (F7: kill after the effect).
    After(Arc<dyn Fn() + Send + Sync>),
}

impl ProxyFault {
    /// Runs `act` in place of the request, which the service never sees.
    pub fn instead(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Instead(Arc::new(act))
    }

    /// Runs `act` before the service sees the request.
    pub fn before(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Before(Arc::new(act))
    }

    /// Runs `act` when the service has answered, before the client knows.
    pub fn after(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self::After(Arc::new(act))
    }

    /// Its name in the trace.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answer(_) => "answer",
            Self::DropBefore => "drop-before",
            Self::DropAfter => "drop-after",
            Self::Twice => "twice",
            Self::DelayBefore(_) => "delay-before",
            Self::DelayAfter(_) => "delay-after",
            Self::Truncate => "truncate",
            Self::Garbage => "garbage",
            Self::Endless => "endless",
            Self::Instead(_) => "instead",
            Self::Before(_) => "before",
            Self::After(_) => "after",
        }
    }
}

impl fmt::Debug for ProxyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(error_answer) => f.debug_tuple("Answer").field(error_answer).finish(),
            other => f.write_str(other.name()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum RuleTurn {
    Every,
    Nth(usize),
    From(usize),
}

/// A fault with the requests it is for. Without further words it is for every request.
#[derive(Clone, Debug)]
pub struct ProxyRule {
    fault: ProxyFault,
    method: String,
    template: String,
    turn: RuleTurn,
    seen: usize,
}

impl ProxyRule {
    #[must_use]
    pub fn new(fault: ProxyFault) -> Self {
        Self {
            fault,
            method: "*".to_owned(),
            template: "*".to_owned(),
            turn: RuleTurn::Every,
            seen: 0,
        }
    }

    /// Only this method (`*`: any) and path template: a segment in braces stands for any one segment, `*` alone for any
    /// path; the query does not count. For instance `/resource_providers/{uuid}/inventories`.
    #[must_use]
    pub fn on(mut self, method: &str, template: &str) -> Self {
        method.clone_into(&mut self.method);
        template.clone_into(&mut self.template);
        self
    }

    /// Only the nth of those, from 1.
    #[must_use]
    pub fn nth(mut self, number: usize) -> Self {
        self.turn = RuleTurn::Nth(number);
        self
    }

    /// The nth of those, from 1, and all after it.
    #[must_use]
    pub fn from_nth(mut self, number: usize) -> Self {
        self.turn = RuleTurn::From(number);
        self
    }

    /// Counts a request, and gives the fault where it is this one's turn.
    pub(super) fn arrive(&mut self, method: &str, path: &str) -> Option<ProxyFault> {
        if !matches(&self.method, &self.template, method, path) {
            return None;
        }
        self.seen += 1;
        let hit = match self.turn {
            RuleTurn::Every => true,
            RuleTurn::Nth(number) => self.seen == number,
            RuleTurn::From(number) => self.seen >= number,
        };
        hit.then(|| self.fault.clone())
    }
}

/// Whether a request is one of those.
pub(super) fn matches(wanted_method: &str, template: &str, method: &str, path: &str) -> bool {
    if wanted_method != "*" && wanted_method != method {
        return false;
    }
    if template == "*" {
        return true;
    }
    let path = path.split('?').next().unwrap_or_default();
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given))
                if wanted == given || (wanted.starts_with('{') && !given.is_empty()) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_matches_whole_segments() {
        let cases = [
            ("*", "*", true),
            ("GET", "*", true),
            ("POST", "*", false),
            ("GET", "/resource_providers/{uuid}/inventories", true),
            ("GET", "/resource_providers/{uuid}", false),
            ("GET", "/resource_providers/u/inventories", true),
            ("GET", "/resource_providers/v/inventories", false),
            (
                "GET",
                "/resource_providers/{uuid}/inventories/{class}",
                false,
            ),
        ];
        for (method, template, expected) in cases {
            let given = matches(
                method,
                template,
                "GET",
                "/resource_providers/u/inventories?x=/y",
            );
            assert_eq!(given, expected, "{method} {template}");
        }
    }

    #[test]
    fn a_rule_counts_only_its_own_requests() {
        let mut rule = ProxyRule::new(ProxyFault::DropBefore)
            .on("PUT", "/a")
            .nth(2);
        let hits: Vec<bool> = [
            ("GET", "/a"),
            ("PUT", "/a"),
            ("PUT", "/b"),
            ("PUT", "/a"),
            ("PUT", "/a"),
        ]
        .into_iter()
        .map(|(method, path)| rule.arrive(method, path).is_some())
        .collect();
        assert_eq!(hits, [false, false, false, true, false]);
        let mut later = ProxyRule::new(ProxyFault::DropBefore).from_nth(2);
        assert_eq!(
            [1, 2, 3].map(|_| later.arrive("GET", "/").is_some()),
            [false, true, true]
        );
    }
}
