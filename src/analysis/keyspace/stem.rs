//! What names of objects have in common: `web-7d4b9c6f5-x2x9z` is one of `web-*`.

use std::borrow::Cow;

/// The alphabet of generated suffixes. (Source: apimachinery util/rand: no vowels, nothing that is read as another
/// letter.)
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// `name` without the parts at its end that were generated.
pub fn name_prefix(name: &str) -> Cow<'_, str> {
    let mut rest = name;
    let mut separator = None;
    if let Some(at) = name.len().checked_sub(36)
        && name.get(at..).is_some_and(is_uuid)
    {
        match name[..at].bytes().last() {
            None => return Cow::Borrowed("*"),
            Some(mark @ (b'-' | b'.')) if at > 1 => (rest, separator) = (&name[..at - 1], Some(mark)),
            Some(_) => {}
        }
    }
    while let Some(at) = rest.rfind(['-', '.'])
        && at > 0
        && is_generated(&rest.as_bytes()[at + 1..])
    {
        separator = Some(rest.as_bytes()[at]);
        rest = &rest[..at];
    }
    match separator {
        None => Cow::Borrowed(name),
        Some(b'.') => Cow::Owned(format!("{rest}.*")),
        Some(_) => Cow::Owned(format!("{rest}-*")),
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|byte| byte == b'-' || is_hex(byte))
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Whether a part of a name looks like a number, a version, a hash or a generated suffix.
fn is_generated(part: &[u8]) -> bool {
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let has_digit = part.iter().any(u8::is_ascii_digit);
    let is_safe = part.iter().all(|byte| SAFE.contains(byte));
    is_number(part)
        || part.strip_prefix(b"v").is_some_and(is_number)
        || part.len() >= 8 && has_digit && part.iter().all(|byte| is_hex(*byte))
        || part.len() == 5 && is_safe && part != b"https"
        || (8..=10).contains(&part.len()) && is_safe && has_digit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ends_are_left_out() {
        for (name, prefix) in [
            ("web-7d4b9c6f5-x2x9z", "web-*"),
            ("web-7d4b9c6f5-x2x9z.17a3f2b1c0d4e5f6", "web-*"),
            ("coredns", "coredns"),
            ("db-0", "db-*"),
            ("backup-28456789-xk2vq", "backup-*"),
            ("sh.helm.release.v1.shop.v12", "sh.helm.release.v1.shop.*"),
            ("kube-proxy", "kube-proxy"),
            ("ip-10-0-1-5.ec2.internal", "ip-10-0-1-5.ec2.internal"),
            ("10.0.0.1", "10.*"),
            ("0d9e3a51-6a2b-4f5e-9d58-0123456789ab", "*"),
            ("pvc-0d9e3a51-6a2b-4f5e-9d58-0123456789ab", "pvc-*"),
            ("api-https", "api-https"),
            ("-12345", "-12345"),
            ("a-", "a-"),
            ("", ""),
        ] {
            assert_eq!(name_prefix(name), prefix, "{name}");
        }
    }
}
