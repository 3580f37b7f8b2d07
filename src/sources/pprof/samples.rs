//! Samples of the protobuf form. Go writes them before the tables that they point into, so they are read as they come,
//! by the profile's own numbers, with what a message needs to determine the place of each; and checked when all is
//! known.

use super::Fault;
use super::numbers::{Ids, Numbers};
use super::wire::{Message, Walk};
use crate::model::stacks::Stacks;

/// Samples whose locations and types are not known yet.
#[derive(Default)]
pub(super) struct Samples {
    /// Locations of all samples: the profile's own numbers less one, which mostly are our own.
    calls: Vec<u32>,
    /// Where each sample's locations end in `calls`.
    call_ends: Vec<u32>,
    values: Vec<i64>,
    value_ends: Vec<u32>,
    /// Where in the file each begins.
    places: Vec<u32>,
    /// Where in the file each field with locations begins, and where its first location is in `calls`.
    fields: Vec<(u32, u32)>,
    /// The largest of `calls`.
    largest: u32,
    /// The last sample could not be read to its end.
    fault: Option<Fault>,
}

impl Samples {
    /// Reads a sample; what is wrong with it is reported when the tables have been seen.
    pub(super) fn add(&mut self, sample: Message<'_>, numbers: &mut Numbers) {
        if self.fault.is_some() {
            return;
        }
        self.places.push(sample.offset as u32);
        let first = self.calls.len();
        self.fault = self.read(sample, numbers).err();
        let calls = self.calls.get(first..).unwrap_or_default();
        self.largest = calls.iter().fold(self.largest, |largest, call| largest.max(*call));
        self.call_ends.push(self.calls.len() as u32);
        self.value_ends.push(self.values.len() as u32);
    }

    fn read(&mut self, sample: Message<'_>, numbers: &mut Numbers) -> Result<(), Fault> {
        let mut walk = Walk::new(sample);
        loop {
            let at = walk.offset();
            match walk.next()? {
                Some((1, field)) => {
                    self.fields.push((at as u32, self.calls.len() as u32));
                    // In hand, a vector is faster: nearly all of a large profile comes by here.
                    let mut calls = std::mem::take(&mut self.calls);
                    let read = field.numbers(at, "locations", |id| calls.push(numbers.shorter(id.wrapping_sub(1))));
                    self.calls = calls;
                    read?;
                }
                Some((2, field)) => field.numbers(at, "values", |value| self.values.push(value.cast_signed()))?,
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    /// Gives `stacks`, which has its types, the samples by our own numbers.
    pub(super) fn finish(mut self, stacks: &mut Stacks, ids: &Ids, numbers: &Numbers) -> Result<(), Fault> {
        if !self.is_in_order(stacks.types.len(), ids) {
            self.check(stacks, ids, numbers)?;
        }
        let last = self.places.last().map_or(0, |place| *place as usize);
        let fits = stacks.set_samples(self.calls, self.call_ends, self.values);
        fits.then_some(()).ok_or_else(|| Fault::at_byte(last, "exceeds the number of samples"))
    }

    /// Whether nothing is wrong and no location has another number with us: reported in a hurry, for that is how nearly
    /// all profiles are.
    fn is_in_order(&self, types: usize, ids: &Ids) -> bool {
        let all_known =
            ids.in_order().is_some_and(|locations| self.calls.is_empty() || (self.largest as usize) < locations);
        let all_full = self.value_ends.iter().enumerate().all(|(sample, end)| *end as usize == (sample + 1) * types);
        let mut totals = vec![0i64; types];
        let mut may_be_added = |(value, total): (&i64, &mut i64)| match total.checked_add(*value) {
            Some(sum) if *value >= 0 => {
                *total = sum;
                true
            }
            _ => false,
        };
        let add = |values: &[i64]| values.iter().zip(&mut totals).all(&mut may_be_added);
        self.fault.is_none() && all_known && all_full && self.values.chunks(types.max(1)).all(add)
    }

    /// Gives locations our numbers, and shows the first thing that is wrong.
    fn check(&mut self, stacks: &Stacks, ids: &Ids, numbers: &Numbers) -> Result<(), Fault> {
        let types = &stacks.types;
        let mut totals = vec![0i64; types.len()];
        let (mut from, mut values_from) = (0, 0);
        let ends =
            self.call_ends.iter().zip(&self.value_ends).map(|(calls, values)| (*calls as usize, *values as usize));
        for (sample, ((to, values_to), start)) in ends.zip(&self.places).enumerate() {
            let (count, start) = (sample + 1, *start as usize);
            for (call, index) in self.calls.get_mut(from..to).unwrap_or_default().iter_mut().zip(from as u32..) {
                let id = numbers.whole(*call).wrapping_add(1);
                *call = ids.get(id).ok_or_else(|| {
                    let field = self.fields.partition_point(|(_, first)| *first <= index).saturating_sub(1);
                    let at = self.fields.get(field).map_or(start, |(at, _)| *at as usize);
                    Fault::at_byte(
                        at,
                        format!(
                            "(sample {count}) references location {id}, which the profile does \
                         not have"
                        ),
                    )
                })?;
            }
            if let Some(fault) = self.fault.take_if(|_| count == self.places.len()) {
                return Err(fault);
            }
            let values = self.values.get(values_from..values_to).unwrap_or_default();
            if values.len() != types.len() {
                let (values, types) = (values.len(), types.len());
                return Err(Fault::at_byte(
                    start,
                    format!("(sample {count}) has {values} values, but the profile {types} sample types"),
                ));
            }
            for ((value, total), kind) in values.iter().zip(&mut totals).zip(types) {
                if *value < 0 {
                    let what = format!("(sample {count}) has a negative {}: {value}", kind.name);
                    return Err(Fault::negative(Fault::at_byte(start, ""), &what));
                }
                let sum = total.checked_add(*value);
                *total = sum.ok_or_else(|| {
                    Fault::at_byte(start, format!("(sample {count}) raises the sum of {} above 2^63", kind.name))
                })?;
            }
            (from, values_from) = (to, values_to);
        }
        Ok(())
    }
}
