//! The NIFs of `BeTree.Output`.

use std::sync::Arc;
use std::time::Duration;

use rustler::{Atom, Binary, Encoder, Env, Error, ListIterator, NifResult, Resource, ResourceArc, Term};

use crate::output::{Amount, Appended, Limits, Overflow, Queue, Room, Sender};
use crate::terms::atoms;

/// The queue of an output. Its processes hold it, and its senders close themselves when they have let go of it.
pub struct Held(Arc<Queue>);

#[rustler::resource_impl]
impl Resource for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.close(false);
    }
}

pub struct SenderResource(Sender);

#[rustler::resource_impl]
impl Resource for SenderResource {}

/// The bytes of a page. A binary refers to them.
pub struct PageBytes(Vec<u8>);

#[rustler::resource_impl]
impl Resource for PageBytes {}

fn limits(page: usize, bytes: u64, messages: u64, overflow: Atom) -> NifResult<Limits> {
    let overflow = match overflow {
        atom if atom == atoms::block() => Overflow::Block,
        atom if atom == atoms::drop_new() => Overflow::DropNew,
        atom if atom == atoms::drop_old() => Overflow::DropOld,
        atom if atom == atoms::disconnect() => Overflow::Disconnect,
        _ => return Err(Error::BadArg),
    };
    Ok(Limits { page, hard: Amount { bytes, messages }, overflow })
}

#[rustler::nif]
fn output_new(page: usize, bytes: u64, messages: u64, overflow: Atom) -> NifResult<ResourceArc<Held>> {
    Ok(ResourceArc::new(Held(Queue::new(limits(page, bytes, messages, overflow)?))))
}

#[rustler::nif]
fn output_configure(queue: &Held, page: usize, bytes: u64, messages: u64, overflow: Atom) -> NifResult<u64> {
    Ok(queue.0.configure(limits(page, bytes, messages, overflow)?))
}

#[rustler::nif]
fn output_sender(queue: &Held) -> ResourceArc<SenderResource> {
    ResourceArc::new(SenderResource(Sender::new(&queue.0)))
}

fn appended(outcome: Appended) -> Atom {
    match outcome {
        Appended::Done => atoms::ok(),
        Appended::Wake => atoms::wake(),
        Appended::Full => atoms::full(),
        Appended::Dropped => atoms::dropped(),
        Appended::Disconnected => atoms::disconnected(),
        Appended::Closed => atoms::closed(),
        Appended::Stale => atoms::stale(),
    }
}

fn append_checked(sender: &SenderResource, message: &Binary, epoch: u64, turn: bool) -> NifResult<Appended> {
    // The length of a message takes 4 bytes.
    u32::try_from(message.len()).map_err(|_| Error::BadArg)?;
    Ok(sender.0.append(message.as_slice(), epoch, turn))
}

#[rustler::nif]
fn output_append(sender: &SenderResource, message: Binary, epoch: u64, turn: bool) -> NifResult<Atom> {
    append_checked(sender, &message, epoch, turn).map(appended)
}

/// Appends text. Bytes that are no UTF-8 are `invalid`.
#[rustler::nif]
fn output_append_text(sender: &SenderResource, message: Binary, epoch: u64) -> NifResult<Atom> {
    if str::from_utf8(message.as_slice()).is_err() {
        return Ok(atoms::invalid());
    }
    append_checked(sender, &message, epoch, false).map(appended)
}

/// For a long message.
#[rustler::nif(schedule = "DirtyCpu")]
fn output_append_long(sender: &SenderResource, message: Binary, epoch: u64, turn: bool) -> NifResult<Atom> {
    append_checked(sender, &message, epoch, turn).map(appended)
}

/// The number of messages that one call appends, and their bytes after which it ends. Both take some 50 microseconds.
const MESSAGES_OF_A_CALL: usize = 500;
const BYTES_OF_A_CALL: usize = 0x4_0000;

/// Appends messages from the head of a list. With `text`, nothing is appended if any of them is no UTF-8.
#[rustler::nif]
fn output_append_many<'a>(
    sender: &SenderResource,
    messages: Term<'a>,
    epoch: u64,
    text: bool,
) -> NifResult<(Atom, bool, usize)> {
    let (mut count, mut bytes, mut wake) = (0, 0, false);
    if text {
        for message in messages.decode::<ListIterator<'a>>()? {
            if str::from_utf8(message.decode::<Binary>()?.as_slice()).is_err() {
                return Ok((atoms::invalid(), false, 0));
            }
        }
    }
    for message in messages.decode::<ListIterator<'a>>()?.take(MESSAGES_OF_A_CALL) {
        let message: Binary = message.decode()?;
        if count > 0 && bytes + message.len() > BYTES_OF_A_CALL {
            break;
        }
        match append_checked(sender, &message, epoch, false)? {
            Appended::Done => {}
            Appended::Wake => wake = true,
            refused => return Ok((appended(refused), wake, count)),
        }
        count += 1;
        bytes += message.len();
    }
    Ok((atoms::ok(), wake, count))
}

#[rustler::nif]
fn output_end(sender: &SenderResource) -> Atom {
    sender.0.end();
    atoms::ok()
}

#[rustler::nif]
fn output_sweep(queue: &Held, linger: u64) -> (Option<u64>, bool) {
    let sweep = queue.0.sweep(Duration::from_micros(linger));
    (sweep.next.map(|next| next.as_micros() as u64), sweep.stuck)
}

#[rustler::nif(schedule = "DirtyCpu")]
fn output_flush(queue: &Held) -> u64 {
    queue.0.flush()
}

#[rustler::nif]
fn output_left(queue: &Held) -> u64 {
    queue.0.left()
}

/// Returns `{pages, bytes, messages, dropped}`, or `nil`. A page is a binary, or `{binary, lengths}`, with the lengths of its
/// messages as a binary of unsigned 32-bit integers of this machine.
#[rustler::nif]
fn output_next<'a>(env: Env<'a>, queue: &Held, bytes: usize, lengths: bool) -> Term<'a> {
    let Some(job) = queue.0.next(bytes) else { return atoms::nil().encode(env) };
    let amount = job.pages.iter().fold(Amount::default(), |sum, page| sum + page.amount());
    let pages: Vec<Term<'a>> = job
        .pages
        .into_iter()
        .map(|page| {
            let data = PageBytes::binary(env, page.bytes);
            if lengths {
                let lengths = page.lengths.iter().flat_map(|length| length.to_ne_bytes()).collect();
                (data, PageBytes::binary(env, lengths)).encode(env)
            } else {
                data.encode(env)
            }
        })
        .collect();
    (pages, amount.bytes, amount.messages, job.dropped).encode(env)
}

impl PageBytes {
    fn binary(env: Env, bytes: Vec<u8>) -> Binary {
        ResourceArc::new(Self(bytes)).make_binary(env, |held| &held.0)
    }
}

#[rustler::nif]
fn output_settle(queue: &Held, delivered: bool) -> u64 {
    queue.0.settle(delivered).as_micros() as u64
}

/// Returns `{bytes, messages}`, `:empty` if the queue takes a page of any size, or `nil` during an overload.
#[rustler::nif]
fn output_room<'a>(env: Env<'a>, queue: &Held) -> Term<'a> {
    match queue.0.room() {
        Room::None => atoms::nil().encode(env),
        Room::Some(amount) => (amount.bytes, amount.messages).encode(env),
        Room::Empty => atoms::empty().encode(env),
    }
}

#[rustler::nif]
fn output_waiting(queue: &Held, waiting: bool) -> Atom {
    queue.0.set_waiting(waiting);
    atoms::ok()
}

#[rustler::nif(schedule = "DirtyCpu")]
fn output_close(queue: &Held, dropped: bool) -> Atom {
    queue.0.close(dropped);
    atoms::ok()
}

#[rustler::nif]
fn output_reopen(queue: &Held) -> Atom {
    queue.0.reopen();
    atoms::ok()
}

/// Returns `[accepted, delivered, dropped, lost, messages and bytes that are open, queued and in hand, pages, senders, lateness]`
/// and whether the queue is overloaded.
#[rustler::nif(schedule = "DirtyCpu")]
fn output_counts(queue: &Held) -> (Vec<u64>, bool) {
    let counts = queue.0.counts();
    let waiting = [counts.open, counts.queued, counts.in_hand].into_iter().flat_map(|a| [a.messages, a.bytes]);
    let mut numbers = vec![counts.accepted, counts.delivered, counts.dropped, counts.lost];
    numbers.extend(waiting.chain([counts.pages, counts.senders, counts.lateness]));
    (numbers, counts.overloaded)
}
