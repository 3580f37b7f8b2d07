//! Mail. Its Message-ID is that of the message, however often it is sent: whoever gets it twice sees it once.

use super::{Fault, reveal};
use crate::model::alert::{OutboxEntry, Secret, Tls};
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls as Security, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// A mail server.
#[derive(Debug)]
pub(super) struct Mailer {
    channel: String,
    server: String,
    port: u16,
    security: Security,
    login: Option<Credentials>,
    from: Mailbox,
}

impl Mailer {
    pub(super) fn new(
        channel: &str,
        server: &str,
        port: u16,
        tls: Tls,
        login: Option<&(String, Secret)>,
        from: &str,
        ca: Option<&Path>,
    ) -> Result<Self, String> {
        let security = match tls {
            Tls::None => Security::None,
            Tls::Starttls => Security::Required(parameters(server, ca)?),
            Tls::Implicit => Security::Wrapper(parameters(server, ca)?),
        };
        let login = login
            .map(|(user, password)| Ok::<_, String>(Credentials::new(user.clone(), reveal(password)?)))
            .transpose()?;
        let from = from.parse().map_err(|error| format!("from: '{from}' is not an address: {error}"))?;
        Ok(Self { channel: channel.to_owned(), server: server.to_owned(), port, security, login, from })
    }

    pub(super) fn send(&mut self, parcel: &OutboxEntry, within: Duration) -> Result<(), Fault> {
        let mail = self.mail(parcel).map_err(Fault::Refused)?;
        let mut transport = SmtpTransport::builder_dangerous(&self.server)
            .port(self.port)
            .tls(self.security.clone())
            .timeout(Some(within));
        if let Some(login) = &self.login {
            transport = transport.credentials(login.clone());
        }
        match transport.build().send(&mail) {
            Ok(_) => Ok(()),
            Err(error) if error.is_permanent() => Err(Fault::Refused(error_text(&error))),
            Err(error) => Err(Fault::Later(error_text(&error), None)),
        }
    }

    fn mail(&self, parcel: &OutboxEntry) -> Result<Message, String> {
        let message = &parcel.message;
        let to = parcel.to.get(&self.channel).map_or(&[][..], Vec::as_slice);
        if to.is_empty() {
            return Err("no recipient: set 'to' on the owner or the channel".to_owned());
        }
        let date = UNIX_EPOCH + Duration::from_micros(u64::try_from(message.at).unwrap_or(0));
        let mut mail = Message::builder().from(self.from.clone()).subject(parcel.subject.trim_end()).date(date);
        mail = mail.message_id(Some(format!("<{}@plimsoll>", message.id))).header(ContentType::TEXT_PLAIN);
        for (name, value) in [("Auto-Submitted", "auto-generated"), ("X-Plimsoll-Id", message.id.as_str())] {
            let name = HeaderName::new_from_ascii(name.to_owned()).map_err(|error| error.to_string())?;
            mail = mail.raw_header(HeaderValue::new(name, value.to_owned()));
        }
        for address in to {
            mail = mail.to(address.parse().map_err(|error| format!("'{address}' is not an address: {error}"))?);
        }
        mail.body(parcel.text.clone()).map_err(|error| error.to_string())
    }
}

/// The error with what is behind it.
fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        let more = error.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        behind = error.source();
    }
    text
}

fn parameters(server: &str, ca: Option<&Path>) -> Result<TlsParameters, String> {
    let mut parameters = TlsParameters::builder(server.to_owned());
    if let Some(path) = ca {
        let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let certificate =
            Certificate::from_pem(&pem).map_err(|error| format!("{}: {}", path.display(), error_text(&error)))?;
        parameters = parameters.certificate_store(CertificateStore::None).add_root_certificate(certificate);
    }
    parameters.build().map_err(|error| error_text(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alert::{Message as AlertMessage, Reason};

    #[test]
    fn a_header_stays_one_header() {
        let mailer =
            Mailer::new("mail", "localhost", 25, Tls::None, None, "plimsoll <plimsoll@example.org>", None).unwrap();
        let message = AlertMessage {
            id: "0123".into(),
            cluster: String::new(),
            owner: "x".into(),
            at: 0,
            reason: Reason::News,
            level: None,
            alerts: vec![],
            over: vec![],
            deeds: vec![],
            episodes: vec![],
        };
        let subject = "a\r\nBcc: evil@example.org\r\n\r\nbody größe".to_owned();
        let (to, text, slack) =
            ([("mail".to_owned(), vec!["a@example.org".to_owned()])].into(), "text\n.\n".to_owned(), String::new());
        let mut parcel = OutboxEntry { message, to, subject, text, slack, channels: vec![] };
        let mail = String::from_utf8(mailer.mail(&parcel).unwrap().formatted()).unwrap();
        let (head, _) = mail.split_once("\r\n\r\n").unwrap();
        assert!(!head.lines().any(|line| line.to_lowercase().starts_with("bcc")), "{head}");
        assert!(
            head.contains("Message-ID: <0123@plimsoll>\r\n") && head.contains("Auto-Submitted: auto-generated"),
            "{head}"
        );
        for bad in ["a@example.org\r\nBcc: b@example.org", "a@example.org, b@example.org", "", "a"] {
            parcel.to = [("mail".to_owned(), vec![bad.to_owned()])].into();
            assert!(mailer.mail(&parcel).is_err(), "{bad:?}");
        }
    }
}
