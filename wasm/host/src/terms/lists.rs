//! Lists of integers, made of the packed integers of an output.
//!
//! Making a list blocks its scheduler, so only a short list is made at once. A long list is returned as bytes, of which
//! [`unpack`] makes chunks, each in a NIF call that charges the process.

use std::mem::transmute;
use std::ops::Range;
use std::sync::OnceLock;

use rustler::sys::{enif_make_list_from_array, ErlNifTerm};
use rustler::{Encoder, Env, NewBinary, Term};

use crate::failure::Failure;
use crate::terms::small_integers::{SmallIntegers, Word};
use crate::terms::{atoms, Bytes};

/// The most integers of a list that is made at once, in about the time of a slice of a search.
const LIST_CHUNK: usize = 8192;
/// The most integers of several lists that are made or copied at once. A part of the result of a batch has fewer.
const MAX_INTEGERS_AT_ONCE: usize = 4 * LIST_CHUNK;
/// The most lists of an output: thousands of empty lists take as long as one long list.
const MAX_LISTS: usize = 10_000;

/// Packed unsigned 64-bit integers.
type Packed = [[u8; 8]];

/// Returns the list of packed unsigned 64-bit integers, or `{:packed, bytes}` if it is long.
pub fn u64s<'a>(env: Env<'a>, bytes: &Bytes<'a, '_>) -> Result<Term<'a>, Failure> {
    let words = words(bytes.as_slice())?;
    Ok(if is_long(words) { packed(env, bytes.binary(env)) } else { list(env, words) })
}

/// Returns a list of lists of integers. In the bytes, each list follows its length. If some lists are long, returns
/// `{:packed, lists}`, in which each long list is still bytes.
pub fn u64_lists<'a>(env: Env<'a>, bytes: &Bytes<'a, '_>) -> Result<Term<'a>, Failure> {
    let mut any_packed = false;
    let lists = each(env, bytes, |words, is_more, range| {
        if is_long(words) || is_more {
            any_packed = true;
            bytes.part(env, range)
        } else {
            list(env, words)
        }
    })?;
    Ok(if any_packed { packed(env, lists) } else { lists })
}

/// Returns a list of such lists as binaries. Each is a separate copy, unless the lists are too long together, so that
/// it keeps no other list alive.
pub fn u64_binaries<'a>(env: Env<'a>, bytes: &Bytes<'a, '_>) -> Result<Term<'a>, Failure> {
    each(env, bytes, |words, is_more, range| if is_more { bytes.part(env, range) } else { binary(env, words) })
}

/// Prepends the last chunk of the first `end` packed integers to `list`. Returns the new list, and the number of
/// remaining integers.
pub fn unpack<'a>(env: Env<'a>, bytes: &[u8], end: usize, list: Term<'a>) -> Option<(Term<'a>, usize)> {
    let (words, _) = bytes.as_chunks();
    let start = end.saturating_sub(LIST_CHUNK);
    let terms = terms(env, words.get(start..end)?);
    Some((terms.rev().fold(list, |list, term| list.list_prepend(term)), start))
}

fn is_long(words: &Packed) -> bool {
    words.len() > LIST_CHUNK
}

fn packed<'a>(env: Env<'a>, output: Term<'a>) -> Term<'a> {
    (atoms::packed(), output).encode(env)
}

fn binary<'a>(env: Env<'a>, words: &Packed) -> Term<'a> {
    let mut binary = NewBinary::new(env, size_of_val(words));
    binary.as_mut_slice().copy_from_slice(words.as_flattened());
    binary.into()
}

fn list<'a>(env: Env<'a>, words: &Packed) -> Term<'a> {
    let terms: Vec<ErlNifTerm> = terms(env, words).map(|term| term.as_c_arg()).collect();
    // An output's length in bytes has 32 bits.
    let count = terms.len() as u32;
    // SAFETY: `terms` has `count` terms, of `env`.
    unsafe { Term::new(env, enif_make_list_from_array(env.as_c_arg(), terms.as_ptr(), count)) }
}

/// Returns the terms of packed integers. Most are computed, because calling the VM for each took two fifths of the time
/// of a list.
fn terms<'a, 'b>(env: Env<'a>, words: &'b Packed) -> impl DoubleEndedIterator<Item = Term<'a>> + use<'a, 'b> {
    static KNOWN: OnceLock<SmallIntegers> = OnceLock::new();
    let known = KNOWN.get_or_init(|| SmallIntegers::of(|integer| ask(env, integer)));
    words.iter().map(move |bytes| {
        let integer = u64::from_le_bytes(*bytes);
        let word = known.term(integer).unwrap_or_else(|| ask(env, integer));
        // SAFETY: `ErlNifTerm` is transparent for such a word. It is either of `env`, or of a small integer, whose term has
        // no other data: that belongs to every environment.
        unsafe { Term::new(env, transmute::<Word, ErlNifTerm>(word)) }
    })
}

/// Returns the term that the VM makes of an integer.
fn ask(env: Env, integer: u64) -> Word {
    // SAFETY: `ErlNifTerm` is transparent for such a word.
    unsafe { transmute::<ErlNifTerm, Word>(integer.encode(env).as_c_arg()) }
}

/// Makes a term of each list. `term` receives the list, whether it exceeds the budget of `MAX_INTEGERS_AT_ONCE`, and
/// its range in the bytes.
fn each<'a>(
    env: Env<'a>,
    bytes: &Bytes<'a, '_>,
    mut term: impl FnMut(&Packed, bool, Range<usize>) -> Term<'a>,
) -> Result<Term<'a>, Failure> {
    let all = words(bytes.as_slice())?;
    let mut rest = all;
    let mut left = MAX_INTEGERS_AT_ONCE;
    let mut terms = Vec::new();
    while let Some((length, behind)) = rest.split_first() {
        if terms.len() == MAX_LISTS {
            return Err(Failure::bad_module(format!(
                "the output has more than {MAX_LISTS} lists; return fewer at a time"
            )));
        }
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (words, next) = behind.split_at_checked(length).ok_or_else(|| {
            let left = behind.len();
            Failure::bad_module(format!("the output has a list of {length} integers where {left} are left"))
        })?;
        let start = size_of_val(all) - size_of_val(behind);
        let is_more = words.len() > left;
        if !is_more {
            left -= words.len();
        }
        terms.push(term(words, is_more, start..start + size_of_val(words)));
        rest = next;
    }
    Ok(terms.encode(env))
}

fn words(bytes: &[u8]) -> Result<&Packed, Failure> {
    let (words, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        let message = format!("the output has {} bytes, which is no whole number of 64-bit integers", bytes.len());
        return Err(Failure::bad_module(message));
    }
    Ok(words)
}
