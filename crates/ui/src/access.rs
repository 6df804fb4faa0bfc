//! Access to the web view: only for the person who started it, through a link that works once.
//!
//! The link contains a token of 256 random bits. The first request with the token gets a session cookie, and the token
//! becomes invalid. Every later request needs the cookie; every request that changes something also needs the session's
//! CSRF token. The cookie is valid only for this process: nothing is stored, and a restart ends all sessions.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngCore as _;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Name of the session cookie. A port has its own, because cookies do not tell ports apart.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("capstan-session-{port}")
}

/// How long a link can be used. It is printed, and what is printed may be kept in a log.
const LINK_LIFE: Duration = Duration::from_secs(15 * 60);

/// Sessions that one process keeps: more than one person has browsers.
const MOST_SESSIONS: usize = 16;

/// A link that logs in once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginLink(String);

impl std::fmt::Display for LoginLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A browser that has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    id: String,
    /// What a form must send back.
    pub(crate) csrf: String,
}

/// The link that was not used yet, and sessions.
#[derive(Debug, Default)]
pub(crate) struct Access {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The token of the last link, and when the link was made.
    link: Option<(String, Instant)>,
    sessions: Vec<Session>,
}

impl Access {
    /// A new link to the server at this address.
    pub(crate) fn link(&self, address: SocketAddr) -> LoginLink {
        let token = random();
        let link = LoginLink(format!("http://{address}/login?token={token}"));
        let mut state = self.lock();
        // Only the last link works: an older one may be in a terminal that others see.
        state.link = Some((token, Instant::now()));
        link
    }

    /// Trades the token of a link for a session. The token is void then.
    pub(crate) fn log_in(&self, token: &str, now: Instant) -> Option<Cookie> {
        let mut state = self.lock();
        state.link.take_if(|(known, made)| is_same(known, token) && now.duration_since(*made) < LINK_LIFE)?;
        if state.sessions.len() == MOST_SESSIONS {
            state.sessions.remove(0);
        }
        let session = Session { id: random(), csrf: random() };
        let cookie = Cookie(session.id.clone());
        state.sessions.push(session);
        Some(cookie)
    }

    /// The session that a `Cookie` header names.
    pub(crate) fn session(&self, header: &str, port: u16) -> Option<Session> {
        let name = cookie_name(port);
        let pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
        let ids: Vec<&str> = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).collect();
        let state = self.lock();
        state.sessions.iter().find(|session| ids.iter().any(|id| is_same(&session.id, id))).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here is left half done by a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of a session cookie.
pub(crate) struct Cookie(String);

impl Cookie {
    /// The header that sets it.
    pub(crate) fn header(&self, port: u16) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name(port), self.0)
    }
}

impl Session {
    /// Whether a form came from a page of this session.
    pub(crate) fn has_csrf(&self, token: &str) -> bool {
        is_same(&self.csrf, token)
    }
}

/// Whether a `Host` header names this server. Another name means that a foreign page has led the browser here (DNS rebinding).
pub(crate) fn is_own_host(header: &str, address: SocketAddr) -> bool {
    let port = address.port();
    let own = [
        address.to_string(),
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        format!("[::1]:{port}"),
    ];
    own.iter().any(|own| own.eq_ignore_ascii_case(header))
}

/// Whether an `Origin` header names this server.
pub(crate) fn is_own_origin(header: &str, address: SocketAddr) -> bool {
    header.strip_prefix("http://").is_some_and(|host| is_own_host(host, address))
}

fn random() -> String {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Compares in a time that does not depend on where the texts differ.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 8080))
    }

    fn token(link: &LoginLink) -> String {
        link.0.rsplit_once('=').expect("a token").1.to_owned()
    }

    #[test]
    fn a_link_works_once_and_only_the_last_one() {
        let (access, now) = (Access::default(), Instant::now());
        let (first, second) = (access.link(address()), access.link(address()));
        assert!(access.log_in(&token(&first), now).is_none(), "it was replaced");
        assert!(access.log_in("", now).is_none());
        let cookie = access.log_in(&token(&second), now).expect("a session");
        assert!(access.log_in(&token(&second), now).is_none(), "it was used");
        let header = cookie.header(8080);
        assert!(header.contains("HttpOnly") && header.contains("SameSite=Strict"), "{header}");
        let sent = format!("other=1; {}", header.split(';').next().expect("a pair"));
        let session = access.session(&sent, 8080).expect("a session");
        assert!(session.has_csrf(&session.csrf) && !session.has_csrf(""));
        assert!(access.session(&sent, 8081).is_none(), "another server's cookie");
        assert!(access.session("capstan-session-8080=", 8080).is_none());
    }

    #[test]
    fn a_link_ends() {
        let access = Access::default();
        let token = token(&access.link(address()));
        assert!(access.log_in(&token, Instant::now() + LINK_LIFE).is_none());
        assert!(access.log_in(&token, Instant::now()).is_some(), "it was not used up by that");
    }

    #[test]
    fn sessions_are_bounded() {
        let access = Access::default();
        for _ in 0..2 * MOST_SESSIONS {
            let link = access.link(address());
            access.log_in(&token(&link), Instant::now()).expect("a session");
        }
        assert_eq!(access.lock().sessions.len(), MOST_SESSIONS);
    }

    #[test]
    fn foreign_names_are_rejected() {
        for (host, expected) in [
            ("127.0.0.1:8080", true),
            ("LOCALHOST:8080", true),
            ("[::1]:8080", true),
            ("127.0.0.1:8081", false),
            ("attacker.example:8080", false),
            ("localhost", false),
            ("", false),
        ] {
            assert_eq!(is_own_host(host, address()), expected, "{host}");
            assert_eq!(is_own_origin(&format!("http://{host}"), address()), expected, "{host}");
        }
        assert!(!is_own_origin("null", address()));
    }
}
