defmodule BeTree.Input.Limits do
  @moduledoc false
  # The limits and defaults that several modules share.

  @doc "Guards for an unsigned and a signed 64-bit integer of WebAssembly."
  defguard is_u64(term) when is_integer(term) and term >= 0 and term <= 0xFFFF_FFFF_FFFF_FFFF
  defguard is_i64(term) when is_integer(term) and term >= -0x8000_0000_0000_0000 and term <= 0x7FFF_FFFF_FFFF_FFFF

  @doc "Guard for the id of a subscription."
  defguard is_id(term) when is_u64(term)

  @doc "Guard for an atom that may be a name: `nil` and booleans are none."
  defguard is_atom_name(term) when is_atom(term) and term not in [nil, true, false]

  @doc "Guard for the name of a server."
  defguard is_name(term)
           when is_atom_name(term) or
                  (is_tuple(term) and tuple_size(term) == 3 and elem(term, 0) == :via and is_atom(elem(term, 1)))

  @doc "Returns the range of ids."
  @spec ids() :: Range.t()
  def ids, do: 0..max_u64()

  @doc "Returns the range of the integers in expressions, events and constants."
  @spec integers() :: Range.t()
  def integers, do: -0x8000_0000_0000_0000..0x7FFF_FFFF_FFFF_FFFF

  @doc "Returns the range of the option `:count` of an attribute."
  @spec counts() :: Range.t()
  def counts, do: 1..0xFFFF_FFFF

  @doc "Returns the greatest amount of fuel or bytes that a runtime takes."
  @spec max_u64() :: pos_integer
  def max_u64, do: 0xFFFF_FFFF_FFFF_FFFF

  @doc "Returns the longest timeout in milliseconds: Erlang's timers have 32 bits."
  @spec max_timeout() :: pos_integer
  def max_timeout, do: 0xFFFF_FFFF

  @doc "Returns the default bytes of memory that a tree, an index or a server may take."
  @spec default_memory() :: pos_integer
  def default_memory, do: 0x4000_0000

  @doc "Returns the greatest number of replicas of an index, and of callers in its queue: the host has 16 bits for both."
  @spec max_replicas() :: pos_integer
  def max_replicas, do: 0xFFFF

  @doc "Returns the default number of replicas of an index."
  @spec default_replicas() :: pos_integer
  def default_replicas, do: 2 * System.schedulers_online()

  @doc """
  Returns the default number of callers that may wait for a replica. 10,000 waiters take a few megabytes. With searches of
  100 microseconds on two schedulers, the last one waits for half a second.
  """
  @spec default_queue() :: pos_integer
  def default_queue, do: 10_000
end
