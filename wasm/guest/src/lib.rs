//! The sandboxed module: exports the index through the ABI of `docs/contributing/abi.md`.
//!
//! A module instance has one index, or a shard: the indexes of many tenants. The host calls one export at a time.

mod reply;
mod request;
mod state;
mod stop;

use state::{Request, State, TenantRequest, STATE};

be_tree_module::exports!(STATE: State, version: 1);

/// Makes an empty index over the attributes in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_schema(length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.schema(length as usize)))
}

/// Inserts all subscriptions in the inbox, or none.
#[no_mangle]
pub extern "C" fn be_tree_insert(length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.insert(length as usize)))
}

/// Inserts the one subscription in the inbox, or replaces the subscription with its id.
#[no_mangle]
pub extern "C" fn be_tree_put(length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.put(length as usize)))
}

/// Deletes one subscription.
#[no_mangle]
pub extern "C" fn be_tree_delete(id: u64) -> i32 {
    STATE.with(|state| state.change(|state| state.delete(id)))
}

/// Deletes and puts the subscriptions in the inbox, all of them or none.
#[no_mangle]
pub extern "C" fn be_tree_change(length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.change_many(length as usize)))
}

/// Returns whether a subscription has the id.
#[no_mangle]
pub extern "C" fn be_tree_has(id: u64) -> i32 {
    STATE.with(|state| state.read(|state| state.has(id)))
}

/// Returns the ids of all subscriptions.
#[no_mangle]
pub extern "C" fn be_tree_ids() -> i32 {
    STATE.with(|state| state.read(State::ids))
}

/// Returns the address of a `u32` that the host sets to abort a change.
#[no_mangle]
pub extern "C" fn be_tree_stop() -> u32 {
    STATE.with(|state| state.stop() as usize as u32)
}

/// Returns 1 if the index is empty and a new instance would take much less memory, and otherwise 0.
#[no_mangle]
pub extern "C" fn be_tree_spent() -> i32 {
    STATE.with(|state| i32::from(state.is_spent()))
}

/// Searches for the event in the inbox, among the `ids` bytes of packed ids after it, or among all if `ids` is -1.
#[no_mangle]
pub extern "C" fn be_tree_search(format: i32, event: u32, ids: i32, form: i32) -> i32 {
    let only = usize::try_from(ids).ok();
    STATE.with(|state| state.operate(Request::Search { format, event: event as usize, only, form }))
}

/// Searches for the events in `bytes` bytes of the inbox, each after its format and its length. `ids` is as above.
#[no_mangle]
pub extern "C" fn be_tree_search_many(number: u64, events: u32, bytes: u32, ids: i32, form: i32) -> i32 {
    let only = usize::try_from(ids).ok();
    STATE.with(|state| state.operate(Request::Batch { number, events, bytes: bytes as usize, only, form }))
}

/// Returns the next part of the result of the batch with this number.
#[no_mangle]
pub extern "C" fn be_tree_more(number: u64) -> i32 {
    STATE.with(|state| state.more(number))
}

/// Maintains, from now on, the data that `be_tree_reasons` needs.
#[no_mangle]
pub extern "C" fn be_tree_keep_reasons() -> i32 {
    STATE.with(|state| state.change(State::keep_reasons))
}

/// Searches as `be_tree_search` does, and also returns the deciding attribute of each subscription that does not match.
#[no_mangle]
pub extern "C" fn be_tree_reasons(format: i32, event: u32, ids: i32) -> i32 {
    let only = usize::try_from(ids).ok();
    STATE.with(|state| state.operate(Request::Reasons { format, event: event as usize, only }))
}

/// Decodes the event in the inbox. The result is an event of format 3.
#[no_mangle]
pub extern "C" fn be_tree_prepare(format: i32, event: u32) -> i32 {
    STATE.with(|state| state.operate(Request::Prepare { format, event: event as usize }))
}

/// Starts the profile of a search for the event in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_profile(format: i32, event: u32) -> i32 {
    STATE.with(|state| state.operate(Request::Profile { format, event: event as usize }))
}

/// Runs the next part of the profile. The result is the number of its phase.
#[no_mangle]
pub extern "C" fn be_tree_profile_part() -> i32 {
    STATE.with(|state| state.profile(Request::ProfilePart))
}

/// Returns the counts of the last part.
#[no_mangle]
pub extern "C" fn be_tree_profile_counts() -> i32 {
    STATE.with(|state| state.profile(Request::ProfileCounts))
}

/// Explains the subscription `id` for the event in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_explain(format: i32, event: u32, id: u64) -> i32 {
    STATE.with(|state| state.read(|state| state.explain(format, event as usize, id)))
}

/// Checks the subscriptions in the inbox without inserting them.
#[no_mangle]
pub extern "C" fn be_tree_check(length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.check(length as usize)))
}

/// Checks the subscriptions in the inbox as erl-be-tree does, without inserting them.
#[no_mangle]
pub extern "C" fn be_tree_check_as_erl(length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.check_as_erl(length as usize)))
}

/// Draws the tree.
#[no_mangle]
pub extern "C" fn be_tree_draw() -> i32 {
    STATE.with(|state| state.read(State::draw))
}

/// Returns counts and sizes.
#[no_mangle]
pub extern "C" fn be_tree_info() -> i32 {
    STATE.with(|state| state.read(State::info))
}

/// Makes a shard without tenants over the attributes in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_shard(length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.shard(length as usize)))
}

/// Makes the change in the inbox to a tenant, or nothing. Creates the tenant if it is absent.
#[no_mangle]
pub extern "C" fn be_tree_tenant_change(tenant: u32, length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.change_tenant(tenant, length as usize)))
}

/// Forgets a tenant.
#[no_mangle]
pub extern "C" fn be_tree_tenant_drop(tenant: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.drop_tenant(tenant)))
}

/// Searches a tenant's index for the event in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_tenant_search(tenant: u32, format: i32, event: u32, form: i32) -> i32 {
    let event = event as usize;
    STATE.with(|state| state.operate_tenant(TenantRequest::Search { tenant, format, event, form }))
}

/// Searches a tenant's index for the event in the inbox, and counts the event.
#[no_mangle]
pub extern "C" fn be_tree_tenant_match(tenant: u32, day: i32, format: i32, event: u32, form: i32) -> i32 {
    let event = event as usize;
    STATE.with(|state| state.operate_tenant(TenantRequest::Match { tenant, day, format, event, form }))
}

/// Searches a tenant's index for the events in `bytes` bytes of the inbox, and counts each event.
#[no_mangle]
pub extern "C" fn be_tree_tenant_match_many(tenant: u32, day: i32, events: u32, bytes: u32, form: i32) -> i32 {
    let bytes = bytes as usize;
    STATE.with(|state| state.operate_tenant(TenantRequest::Batch { tenant, day, events, bytes, form }))
}

/// Returns the statistics of a tenant's current day.
#[no_mangle]
pub extern "C" fn be_tree_tenant_statistics(tenant: u32) -> i32 {
    STATE.with(|state| state.read(|state| state.tenant_statistics(tenant)))
}

/// Returns the sizes and the day of a tenant.
#[no_mangle]
pub extern "C" fn be_tree_tenant_info(tenant: u32) -> i32 {
    STATE.with(|state| state.read(|state| state.tenant_info(tenant)))
}

/// Returns the oldest sealed day of a tenant and its statistics, or nothing.
#[no_mangle]
pub extern "C" fn be_tree_tenant_sealed(tenant: u32) -> i32 {
    STATE.with(|state| state.read(|state| state.tenant_sealed(tenant)))
}

/// Forgets a sealed day of a tenant.
#[no_mangle]
pub extern "C" fn be_tree_tenant_release(tenant: u32, day: i32) -> i32 {
    STATE.with(|state| state.change(|state| state.release_day(tenant, day)))
}

/// Refuses all later matches of a tenant.
#[no_mangle]
pub extern "C" fn be_tree_tenant_freeze(tenant: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.freeze_tenant(tenant)))
}

/// Adds the statistics in the inbox to those of a tenant.
#[no_mangle]
pub extern "C" fn be_tree_tenant_restore(tenant: u32, length: u32) -> i32 {
    STATE.with(|state| state.change(|state| state.restore_statistics(tenant, length as usize)))
}

/// Reports the statistics in the inbox.
#[no_mangle]
pub extern "C" fn be_tree_report(length: u32) -> i32 {
    STATE.with(|state| state.read(|state| state.report(length as usize)))
}

/// Merges the statistics in the inbox, which are of one day.
#[no_mangle]
pub extern "C" fn be_tree_merge(length: u32) -> i32 {
    STATE.with(|state| state.read(|state| state.merge(length as usize)))
}
