//! The receiver of a message `{reference, reply}`: a process, and the reference that it waits for.

use rustler::env::SavedTerm;
use rustler::{Encoder, Env, LocalPid, OwnedEnv, Term};

pub struct Receiver {
    pid: LocalPid,
    env: OwnedEnv,
    reference: SavedTerm,
}

impl Receiver {
    /// Returns the calling process as a receiver.
    pub fn new(env: Env, reference: Term) -> Self {
        let saved = OwnedEnv::new();
        let reference = saved.save(reference);
        Self { pid: env.pid(), env: saved, reference }
    }

    pub fn is_alive(&self, env: Env) -> bool {
        self.pid.is_alive(env)
    }

    /// Sends the message. Returns whether the process is alive. `caller` is the environment of the process that runs on this
    /// normal scheduler, or `None` on a thread of the host.
    pub fn send(&self, caller: Option<Env>, reply: &impl Encoder) -> bool {
        self.env.run(|saved| {
            let reference = self.reference.load(saved);
            match caller {
                Some(env) => env.send(&self.pid, (reference.in_env(env), reply)).is_ok(),
                None => saved.send(&self.pid, (reference, reply)).is_ok(),
            }
        })
    }
}
