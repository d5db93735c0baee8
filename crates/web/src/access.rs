//! The checks that decide if a request may proceed: its host, its origin and its token.

use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method};
use std::fmt;
use std::net::IpAddr;

/// The secret that a command has to carry.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Draws a token of 128 random bits.
    ///
    /// # Errors
    /// Returns an error if the system has no random numbers.
    pub fn random() -> std::io::Result<Token> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns the token as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if `offered` is the token. The time of the comparison does not depend on the place of the
    /// first difference.
    fn matches(&self, offered: &str) -> bool {
        let (mine, other) = (self.0.as_bytes(), offered.as_bytes());
        let differences = mine.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
        mine.len() == other.len() && differences == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

/// The reason why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    Host,
    Origin,
    /// The request has this header more than once.
    Repeated(HeaderName),
    NoToken,
    WrongToken,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Denied::Host => {
                "the header Host must be an IP address or localhost: open the page at the address that the command printed"
            }
            Denied::Origin => "a page of another site may not use this server",
            Denied::Repeated(name) => {
                return write!(f, "the request has more than one header {name}: send it once");
            }
            Denied::NoToken => "a change needs the token: open the page at the full address that the command printed",
            Denied::WrongToken => "the token is wrong: open the page at the address that the server printed",
        })
    }
}

/// Returns true if a request with this method changes nothing.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Checks a request. Every request needs one permitted host, and may have one origin, which must not be
/// foreign. A request that is not a read also needs the token.
pub(crate) fn check(method: &Method, headers: &HeaderMap, token: &Token) -> Result<(), Denied> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let is_repeated = |name: &HeaderName| headers.get_all(name).iter().count() > 1;
    if let Some(name) = [HOST, ORIGIN].into_iter().find(is_repeated) {
        return Err(Denied::Repeated(name));
    }
    let host = text(HOST).filter(|host| is_permitted(host)).ok_or(Denied::Host)?;
    if text(ORIGIN).is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
        return Err(Denied::Origin);
    }
    if is_read(method) {
        return Ok(());
    }
    let offered = text(AUTHORIZATION).ok_or(Denied::NoToken)?;
    let offered = offered.strip_prefix("Bearer ").ok_or(Denied::NoToken)?;
    if token.matches(offered) { Ok(()) } else { Err(Denied::WrongToken) }
}

/// Returns true if `host`, with or without a port, is an IP address or `localhost`.
fn is_permitted(host: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, rest)) => (address, rest),
            None => return false,
        },
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let has_port = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    has_port && (name == "localhost" || name.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn checked(method: &Method, headers: &[(HeaderName, &str)]) -> Result<(), Denied> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_str(value).expect("the value is valid"));
        }
        check(method, &map, &Token("ab".repeat(16)))
    }

    #[test]
    fn a_name_of_another_site_is_refused_even_for_reads() {
        for host in ["127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "localhost:1", "192.168.1.2:80"] {
            assert_eq!(checked(&Method::GET, &[(HOST, host)]), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost:x", "", "[::1", "[::1]x"]
        {
            assert_eq!(checked(&Method::GET, &[(HOST, host)]), Err(Denied::Host), "{host}");
        }
        assert_eq!(checked(&Method::GET, &[]), Err(Denied::Host));
    }

    #[test]
    fn a_repeated_header_is_refused_by_its_name() {
        let host = (HOST, "127.0.0.1:8080");
        let own = (ORIGIN, "http://127.0.0.1:8080");
        let foreign = (ORIGIN, "http://evil.example");
        for (headers, name) in [
            (vec![host.clone(), (HOST, "evil.example")], HOST),
            (vec![host.clone(), host.clone()], HOST),
            (vec![host.clone(), own.clone(), foreign], ORIGIN),
            (vec![host, own.clone(), own], ORIGIN),
        ] {
            let denied = checked(&Method::GET, &headers).expect_err("it has a header twice");
            assert!(denied.to_string().contains(&format!("more than one header {name}")), "{denied}");
            assert_eq!(denied, Denied::Repeated(name));
        }
    }

    #[test]
    fn a_change_needs_the_token_and_no_foreign_origin() {
        let token = format!("Bearer {}", "ab".repeat(16));
        let host = (HOST, "127.0.0.1:8080");
        let own = (ORIGIN, "http://127.0.0.1:8080");
        assert_eq!(checked(&Method::POST, &[host.clone(), own.clone(), (AUTHORIZATION, &token)]), Ok(()));
        assert_eq!(checked(&Method::POST, &[host.clone(), (AUTHORIZATION, &token)]), Ok(()));
        assert_eq!(checked(&Method::POST, &[host.clone(), own]), Err(Denied::NoToken));
        for wrong in ["Bearer ", "Bearer abab", &format!("{token}0")] {
            let denied = checked(&Method::POST, &[host.clone(), (AUTHORIZATION, wrong)]);
            assert_eq!(denied, Err(Denied::WrongToken), "{wrong}");
        }
        for foreign in ["http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:8081"] {
            for method in [Method::POST, Method::GET] {
                let headers = [host.clone(), (ORIGIN, foreign), (AUTHORIZATION, &token)];
                assert_eq!(checked(&method, &headers), Err(Denied::Origin), "{method} from {foreign}");
            }
        }
    }
}
