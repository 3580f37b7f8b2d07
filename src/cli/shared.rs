//! What the questions of one run share, so that nothing is read twice: whoever shares something puts it here, by its
//! type.

use std::any::{Any, TypeId};
use std::collections::HashMap;

/// At most one value of each type.
#[derive(Default)]
pub struct Shared(HashMap<TypeId, Box<dyn Any>>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} shared values", self.0.len())
    }
}

impl Shared {
    /// The value of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// The value of this type, to be changed.
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.0.get_mut(&TypeId::of::<T>())?.downcast_mut()
    }

    /// Shares a value, or none any more; gives the one that was shared before.
    pub fn replace<T: 'static>(&mut self, value: Option<T>) -> Option<T> {
        let before = match value {
            Some(value) => self.0.insert(TypeId::of::<T>(), Box::new(value)),
            None => self.0.remove(&TypeId::of::<T>()),
        };
        before.and_then(|before| before.downcast().ok()).map(|before| *before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_value() {
        let mut shared = Shared::default();
        assert_eq!(shared.get::<u8>(), None);
        assert_eq!(shared.replace(Some(1_u8)), None);
        assert_eq!(shared.replace(Some("text")), None);
        assert_eq!(shared.replace(Some(2_u8)), Some(1));
        *shared.get_mut::<u8>().unwrap() += 1;
        assert_eq!((shared.get::<u8>(), shared.get::<&str>()), (Some(&3), Some(&"text")));
        assert_eq!(shared.replace::<u8>(None), Some(3));
        assert_eq!(shared.get::<u8>(), None);
    }
}
