defmodule BeTree.Input.Subscription.Id do
  @moduledoc false
  # Checks the ids of subscriptions. The ids of trees and indexes are unsigned 64-bit integers. A server may be told to take any
  # term (BeTree.Target.Ids). A term has a bounded size, because ids are copied, compared and hashed without a yield.

  import BeTree.Input.Limits, only: [is_id: 1]

  alias BeTree.Input.{Describe, Limits}
  alias BeTree.Error

  @max_term_bytes 0x1_0000
  # A smaller integer fits one word.
  @max_small_integer 0x07FF_FFFF_FFFF_FFFF

  @typedoc """
    * `:integer` - an unsigned integer of 64 bits;
    * `:term` - any term;
    * `:portable` - any term that has the same meaning in another node, or in this node after a restart.
  """
  @type kind :: :integer | :term | :portable

  @doc "Returns `:ok` if `id` is an id of this kind, or an error."
  @spec check(term, kind) :: :ok | {:error, Error.t()}
  def check(id, :integer) when is_id(id), do: :ok

  def check(id, :integer) when is_integer(id) do
    refuse(:out_of_bounds, "an id is an integer from 0 to #{Limits.max_u64()}, got: #{Describe.value(id)}")
  end

  def check(id, :integer) do
    refuse(
      :type,
      "an id is an integer, got: #{Describe.value(id)}; only a server with the option ids: :term takes other ids"
    )
  end

  def check(id, _term) when is_atom(id), do: :ok

  def check(id, kind) do
    if left(id, @max_term_bytes, kind) < 0, do: too_large(id), else: :ok
  catch
    :too_large -> too_large(id)
    {:local, part} -> local(part)
  end

  @doc """
  Returns the signed integer with the same 64 bits as the id of a tree. WebAssembly has no unsigned integers, so a module gets the id as
  an i64.
  """
  @spec signed(BeTree.id()) :: integer
  def signed(id) do
    <<signed::signed-64>> = <<id::64>>
    signed
  end

  defp too_large(id),
    do: refuse(:out_of_bounds, "an id takes at most #{@max_term_bytes} bytes, got: #{Describe.kind(id)}")

  defp local(part) do
    refuse(
      :type,
      "an id that is kept in a folder has no process, port, reference or function in it, because it would mean nothing after " <>
        "a restart; got: #{Describe.kind(part)}"
    )
  end

  defp refuse(kind, message), do: {:error, %Error{kind: kind, message: message}}

  # Returns the rest of the budget in bytes. A shared subterm counts once for each occurrence, as in a copy, which also bounds the
  # time of this function.
  defp left(_term, left, _kind) when left < 0, do: throw(:too_large)
  defp left(atom, left, _kind) when is_atom(atom), do: left - 8

  defp left(integer, left, _kind) when is_integer(integer) and integer in -@max_small_integer..@max_small_integer,
    do: left - 8

  defp left(integer, left, _kind) when is_integer(integer), do: left - :erlang.external_size(integer)
  defp left(bits, left, _kind) when is_bitstring(bits), do: left - 8 - byte_size(bits)
  defp left([head | tail], left, kind), do: left(tail, left(head, left - 16, kind), kind)
  defp left([], left, _kind), do: left - 8

  defp left(tuple, left, kind) when is_tuple(tuple) do
    if 8 * tuple_size(tuple) > left, do: throw(:too_large), else: left(Tuple.to_list(tuple), left, kind)
  end

  defp left(map, left, kind) when is_map(map) do
    if 16 * map_size(map) > left, do: throw(:too_large), else: left(:maps.to_list(map), left, kind)
  end

  defp left(float, left, _kind) when is_float(float), do: left - 8
  defp left(part, _left, :portable), do: throw({:local, part})

  defp left(function, left, kind) when is_function(function) do
    {:env, environment} = :erlang.fun_info(function, :env)
    left(environment, left - 16, kind)
  end

  defp left(_process_port_or_reference, left, _kind), do: left - 40

  @doc "Returns the term of `id` without larger binaries that its binaries are part of, which would stay in memory with it."
  @spec copy(term) :: term
  def copy(binary) when is_binary(binary) do
    if :binary.referenced_byte_size(binary) > byte_size(binary), do: :binary.copy(binary), else: binary
  end

  def copy(bits) when is_bitstring(bits), do: :erlang.list_to_bitstring([bits])
  def copy([head | tail]), do: [copy(head) | copy(tail)]
  def copy(tuple) when is_tuple(tuple), do: tuple |> Tuple.to_list() |> copy() |> List.to_tuple()
  def copy(map) when is_map(map), do: map |> :maps.to_list() |> copy() |> :maps.from_list()
  def copy(other), do: other
end
