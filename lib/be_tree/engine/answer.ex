defmodule BeTree.Engine.Answer do
  @moduledoc false
  # Decodes the outbox of a guest (docs/abi.md). Anybody may replace a guest, so its replies are not trusted: a reply of
  # another shape is an error of kind :bad_module.

  alias BeTree.Error
  alias BeTree.Engine.{Describe, Limits}

  @kinds [
    :syntax,
    :unknown_attribute,
    :type,
    :out_of_bounds,
    :missing_attribute,
    :duplicate_id,
    :not_found,
    :out_of_memory,
    :trap
  ]

  @counts [
    :expressions,
    :predicates,
    :strings,
    :nodes,
    :entries,
    :unindexed,
    :depth,
    :code_bytes,
    :memory_bytes
  ]

  @doc "Returns the term in `binary`, if it makes no new atoms and is not compressed."
  @spec term(binary) :: {:ok, term} | {:error, Error.t()}
  # A compressed term may claim a size far beyond the guest's own memory.
  def term(<<131, 80, _rest::binary>>), do: {:error, bad("a compressed term")}

  def term(binary) do
    {:ok, :erlang.binary_to_term(binary, [:safe])}
  rescue
    ArgumentError -> {:error, bad("bytes that are no term")}
  end

  # No guest counts beyond 64 bits. A larger integer would take seconds to print.
  @most Limits.max_u64()

  @doc "Returns whether `value` is an integer of at least `least` that a guest can have counted."
  defguard is_count(value, least) when is_integer(value) and value >= least and value <= @most

  defguardp is_number_or_nil(value, least) when value == nil or is_count(value, least)

  # The most bytes of a guest's message that are kept. Messages go to logs.
  @longest_message 4_096

  @doc "Returns the refusal in `binary`. A long message is cut, and says how many bytes are left out."
  @spec refusal(binary) :: Error.t()
  def refusal(binary) do
    case term(binary) do
      {:ok, {kind, message, attribute, column, position}}
      when kind in @kinds and is_binary(message) and (is_binary(attribute) or attribute == nil) and
             is_number_or_nil(column, 1) and is_number_or_nil(position, 0) ->
        case shortened(message) do
          {:ok, message} ->
            %Error{kind: kind, message: message, attribute: attribute, column: column, position: position}

          :error ->
            bad("an error of kind #{inspect(kind)} whose message is not UTF-8")
        end

      {:ok, other} ->
        bad("an error of the wrong shape: #{Describe.value(other)}")

      {:error, error} ->
        error
    end
  end

  defp shortened(message) do
    beginning = binary_part(message, 0, min(byte_size(message), @longest_message))

    case :unicode.characters_to_binary(beginning) do
      ^message -> {:ok, message}
      kept when is_binary(kept) -> {:ok, cut(message, kept)}
      # The cut went through a character.
      {:incomplete, kept, _part} when byte_size(beginning) < byte_size(message) -> {:ok, cut(message, kept)}
      _not_utf8 -> :error
    end
  end

  defp cut(message, kept), do: "#{kept}... (#{byte_size(message) - byte_size(kept)} bytes are left out)"

  @doc "Returns `:ok` if `binary` is the empty reply of an operation without output."
  @spec nothing(binary) :: :ok | {:error, Error.t()}
  def nothing(""), do: :ok
  def nothing(binary), do: {:error, bad("#{byte_size(binary)} bytes where it has nothing to say")}

  @doc "Returns the counts and sizes in `binary`, if all of them are present."
  @spec info(binary) :: {:ok, %{atom => non_neg_integer}} | {:error, Error.t()}
  def info(binary) do
    with {:ok, pairs} <- term(binary) do
      if is_list(pairs) and List.improper?(pairs) == false and Enum.all?(pairs, &count?/1) and
           Enum.sort(@counts) == pairs |> Enum.map(&elem(&1, 0)) |> Enum.sort() do
        {:ok, Map.new(pairs)}
      else
        {:error, bad("counts of the wrong shape: #{Describe.value(pairs)}")}
      end
    end
  end

  defp count?({name, count}), do: is_atom(name) and is_count(count, 0)
  defp count?(_other), do: false

  @doc "Returns the error for a guest with the reply `what`."
  @spec bad(String.t()) :: Error.t()
  def bad(what), do: %Error{kind: :bad_module, message: "the index module returned #{what}"}
end
