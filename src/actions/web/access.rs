//! Who may ask: bearer tokens and passwords, as files hold them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// What a client must show. Secrets are kept as hashes only, and compared so that time shows nothing.
#[derive(Clone, Default)]
pub struct Access {
    bearer: Option<[u8; 32]>,
    basic: Option<[u8; 32]>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("bearer", &self.bearer.is_some()).field("basic", &self.basic.is_some()).finish()
    }
}

/// The token of an `Authorization` header.
pub(super) fn bearer(header: &str) -> Option<&str> {
    let (scheme, value) = header.split_once(' ')?;
    let value = value.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !value.is_empty()).then_some(value)
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

impl Access {
    /// By a token, by `USER:PASSWORD`, by either, or by nothing: then everybody may ask.
    pub fn new(bearer: Option<&str>, basic: Option<&str>) -> Self {
        Self { bearer: bearer.map(hash), basic: basic.map(hash) }
    }

    /// Whether everybody may ask.
    pub fn is_open(&self) -> bool {
        self.bearer.is_none() && self.basic.is_none()
    }

    /// Whether this `Authorization` header is enough.
    pub fn allows(&self, header: &str) -> bool {
        if self.is_open() {
            return true;
        }
        let (scheme, value) = header.split_once(' ').unwrap_or((header, ""));
        let value = value.trim();
        let (expected, given) = match scheme.to_ascii_lowercase().as_str() {
            "bearer" => (self.bearer, Some(value.to_owned())),
            "basic" => (self.basic, STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok())),
            _ => return false,
        };
        // Hashes of different secrets differ at a place that nobody can choose.
        expected.zip(given).is_some_and(|(expected, given)| expected == hash(&given))
    }

    /// What is asked of a client that shows nothing.
    pub(super) fn challenge(&self) -> &'static str {
        if self.basic.is_some() { "Basic realm=\"plimsoll\", charset=\"UTF-8\"" } else { "Bearer realm=\"plimsoll\"" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_secret_of_the_right_kind_is_needed() {
        let access = Access::new(Some("t0ken"), Some("ann:p:w"));
        let basic = format!("Basic {}", STANDARD.encode("ann:p:w"));
        for good in ["Bearer t0ken", "bearer  t0ken", basic.as_str()] {
            assert!(access.allows(good), "{good}");
        }
        for bad in
            ["", "t0ken", "Bearer", "Bearer t0ke", "Bearer ann:p:w", "Basic t0ken", "Basic YW5uOng=", "Digest t0ken"]
        {
            assert!(!access.allows(bad), "{bad}");
        }
        assert!(Access::default().allows("") && !Access::new(Some("x"), None).is_open());
        assert!(!Access::new(Some("x"), None).allows(&basic));
    }
}
