//! How Kubernetes' built-in kinds stand in protobuf, and what their fields are called in JSON: the table `kinds.txt`,
//! made by `generate.py`, which says how to read it.

use hashbrown::HashMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("kinds.txt");

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Text,
    /// A whole number with a sign.
    Integer,
    /// True or false.
    Bool,
    /// Bytes: base64 in JSON.
    Bytes,
    /// A floating-point number.
    Double,
    /// A message: its place in the table.
    Message(usize),
    /// `meta/v1.Time`: RFC 3339 without fractions.
    Time,
    /// `meta/v1.MicroTime`: RFC 3339 with six digits.
    MicroTime,
    /// `meta/v1.Duration`: as Go writes durations.
    Duration,
    /// `resource.Quantity`: text.
    Quantity,
    /// `intstr.IntOrString`.
    IntOrString,
    /// Bytes that hold JSON.
    Raw,
    /// A message that holds nothing but a list of texts.
    Strings,
}

/// How often a field can be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Once.
    One,
    List,
    /// A map from text.
    Map,
}

/// What JSON has where a field is not in the message, or is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Nothing.
    Omit,
    /// Nothing; but zero where it is there and zero.
    OmitAbsent,
    /// Zero.
    Always,
    Null,
    /// Nothing, where the whole message is zero.
    OmitZero,
}

/// A field of a message.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub number: u64,
    /// What it is called in JSON; empty for a message whose fields stand in the object itself.
    pub json: &'static str,
    /// What it holds.
    pub kind: Type,
    /// Time between judgements.
    pub shape: Shape,
    /// What to do where it is empty.
    pub rule: Rule,
}

/// How a message becomes JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Object,
    /// `JSONSchemaPropsOrBool`, `…OrArray`, `…OrStringArray`: whichever of the two it holds.
    Either,
}

/// A message.
#[derive(Debug)]
pub struct Message {
    /// Its name in Kubernetes.
    pub name: &'static str,
    /// Its fields, by number.
    pub fields: Vec<Field>,
    /// How it becomes JSON.
    pub form: Form,
}

/// The table.
#[derive(Debug, Default)]
pub struct Schema {
    messages: Vec<Message>,
    kinds: HashMap<(&'static str, &'static str), usize>,
}

impl Schema {
    /// The table that is built in.
    pub fn get() -> &'static Self {
        static SCHEMA: OnceLock<Schema> = OnceLock::new();
        SCHEMA.get_or_init(|| Self::parse(TABLE))
    }

    /// The message of a kind: `("apps/v1", "Deployment")`.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        self.kinds.get(&(api_version, kind)).and_then(|at| self.message(*at))
    }

    /// A message by its place.
    pub fn message(&self, at: usize) -> Option<&Message> {
        self.messages.get(at)
    }

    /// All kinds: `("apps/v1", "Deployment")`, in no order.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        self.kinds.keys().copied()
    }

    /// Reads a table. What can't be read is left out: a test sees to it that nothing is.
    fn parse(table: &'static str) -> Self {
        let lines = || table.lines().filter(|line| !line.starts_with(['#', '=']) && !line.is_empty());
        let places: HashMap<&str, usize> =
            lines().enumerate().map(|(at, line)| (line.split(' ').next().unwrap_or_default(), at)).collect();
        let message = |line: &'static str| {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let fields: Vec<Field> = words.filter_map(|word| field(word, &places)).collect();
            let form = if name.starts_with("JSONSchemaPropsOr") { Form::Either } else { Form::Object };
            Message { name, fields, form }
        };
        let mut kinds = HashMap::new();
        for line in table.lines().filter_map(|line| line.strip_prefix("= ")) {
            let mut words = line.split(' ');
            let api_version = words.next().unwrap_or_default();
            for word in words {
                let (kind, name) = word.split_once(':').unwrap_or((word, word));
                if let Some(at) = places.get(name) {
                    kinds.insert((api_version, kind), *at);
                }
            }
        }
        Self { messages: lines().map(message).collect(), kinds }
    }
}

/// A word of a message's line: `NAME:NUMBER TYPE RULE` without the spaces.
fn field(word: &'static str, places: &HashMap<&str, usize>) -> Option<Field> {
    let (json, rest) = word.split_once(':')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    let (shape, rest) = match rest.as_bytes().first()? {
        b'[' => (Shape::List, &rest[1..]),
        b'{' => (Shape::Map, &rest[1..]),
        _ => (Shape::One, rest),
    };
    let (rule, name) = match rest.as_bytes().last()? {
        b'*' => (Rule::OmitAbsent, &rest[..rest.len() - 1]),
        b'!' => (Rule::Always, &rest[..rest.len() - 1]),
        b'?' => (Rule::Null, &rest[..rest.len() - 1]),
        b'0' if rest.starts_with('%') => (Rule::OmitZero, &rest[..rest.len() - 1]),
        _ => (Rule::Omit, rest),
    };
    let kind = match name {
        "s" => Type::Text,
        "i" => Type::Integer,
        "b" => Type::Bool,
        "y" => Type::Bytes,
        "d" => Type::Double,
        "%time" => Type::Time,
        "%microtime" => Type::MicroTime,
        "%duration" => Type::Duration,
        "%quantity" => Type::Quantity,
        "%intstr" => Type::IntOrString,
        "%raw" => Type::Raw,
        "%strings" => Type::Strings,
        name => Type::Message(*places.get(name)?),
    };
    Some(Field { number, json, kind, shape, rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table_is_read() {
        let schema = Schema::get();
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with(['#', '='])).collect();
        assert_eq!(schema.messages.len(), lines.len());
        for (message, line) in schema.messages.iter().zip(lines) {
            assert_eq!(message.fields.len(), line.split(' ').count() - 1, "{line}");
            assert!(message.fields.windows(2).all(|pair| pair[0].number < pair[1].number), "{line}");
        }
        let kinds: usize =
            TABLE.lines().filter(|line| line.starts_with('=')).map(|line| line.split(' ').count() - 2).sum();
        assert_eq!(schema.kinds.len(), kinds);
        assert!(kinds > 150, "{kinds}");
    }

    #[test]
    fn fields_are_what_their_words_say() {
        let lease = Schema::get().kind("coordination.k8s.io/v1", "Lease").expect("a Lease");
        let spec = lease.fields[1];
        assert_eq!((spec.json, spec.number, spec.shape, spec.rule), ("spec", 2, Shape::One, Rule::Always));
        let Type::Message(at) = spec.kind else { panic!("{spec:?}") };
        let spec = Schema::get().message(at).expect("its spec");
        let field = |json: &str| spec.fields.iter().find(|field| field.json == json).copied().expect("a field");
        assert_eq!((field("holderIdentity").kind, field("holderIdentity").rule), (Type::Text, Rule::OmitAbsent));
        assert_eq!(field("renewTime").kind, Type::MicroTime);
    }
}
